"""`ragkit verify`: does the knowledge base hold what it says?"""

from __future__ import annotations

import click

from ragkit.cli import EXIT_UNSOUND
from ragkit.cli.common import Shell, figures, verb
from ragkit.pipeline.knowledge_base import KnowledgeBase


@click.command()
@click.option("--repair", is_flag=True, help="Make again what is wrong, from the sources.")
@verb
def command(shell: Shell, repair: bool) -> int:
    """Check every row, vector and term against what was written. Exits with 5 when something is wrong."""
    with KnowledgeBase.open(shell.kb, shell.pipeline(), check=False) as kb:
        found = kb.verify(repair=repair)
    if shell.json:
        shell.out_json({
            "kb": found.kb, "sound": found.sound, "documents": found.documents, "chunks": found.chunks,
            "vectors": found.vectors, "problems": [{"part": p.part, "what": p.what} for p in found.problems],
            "repaired": list(found.repaired),
        })  # fmt: skip
    else:
        for line in found.repaired:
            shell.out(f"repaired: {line}")
        for problem in found.problems:
            shell.out(f"{problem.part}: {problem.what}")
        counted = f"{figures(found.documents, 'document')}, {figures(found.chunks, 'chunk')}"
        shell.out(f"{counted}: sound" if found.sound else f"{figures(len(found.problems), 'problem')}: "
                  f"ragkit verify --repair --kb {shell.kb}")  # fmt: skip
    return 0 if found.sound else EXIT_UNSOUND
