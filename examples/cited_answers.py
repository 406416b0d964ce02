"""Index a folder, ask a question, and print the answer with its citations.

`cited_answers.py FOLDER QUESTION [KB]` keeps the knowledge base in the directory KB, if one is named.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ragkit import KnowledgeBase


def main(folder: Path, question: str, directory: Path) -> None:
    with KnowledgeBase.open(directory) as kb:
        report = kb.index(folder)
        print(f"{report.files['added']} files, {report.chunks['added']} chunks")
        answer = kb.ask(question)
        print(answer.text)
        for citation in answer.citations:
            place = f"page {citation.page}" if citation.page else f"line {citation.start_line}"
            print(f"[{citation.n}] {Path(citation.source).name}, {place}: {citation.quote!r}")


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        main(Path(sys.argv[1]), sys.argv[2], Path(*(sys.argv[3:] or [temporary, "kb"])))
