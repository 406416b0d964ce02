"""Index a folder, ask a question, and print the answer with its citations."""

import sys
from pathlib import Path

from ragkit import KnowledgeBase


def main(folder: Path, question: str) -> None:
    with KnowledgeBase.open("kb") as kb:
        report = kb.index(folder)
        print(f"{report.files['added']} files, {report.chunks['added']} chunks")
        answer = kb.ask(question)
        print(answer.text)
        for citation in answer.citations:
            place = f"page {citation.page}" if citation.page else f"line {citation.start_line}"
            print(f"[{citation.n}] {Path(citation.source).name}, {place}: {citation.quote!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
