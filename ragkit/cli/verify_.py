"""`ragkit verify`: does the knowledge base hold what it says?"""

from __future__ import annotations

import click

from ragkit.cli import EXIT_VERIFY_FAILED
from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.knowledge_base.knowledge_base import KnowledgeBase


@click.command()
@click.option("--repair", is_flag=True, help="Make again what is wrong, from the sources.")
@with_common_options
def command(shell: CliContext, repair: bool) -> int:
    """Check every row, vector and term against what was written. Exits with 5 when something is wrong."""
    with KnowledgeBase.open(shell.kb, shell.load_pipeline(), check=False) as kb:
        found = kb.verify(repair=repair)
    if shell.json:
        shell.write_json({
            "kb": found.kb, "sound": found.is_sound, "documents": found.documents, "chunks": found.chunks,
            "vectors": found.vectors, "problems": [{"part": p.part, "what": p.message} for p in found.problems],
            "repaired": list(found.repaired),
        })  # fmt: skip
    else:
        for line in found.repaired:
            shell.write(f"repaired: {line}")
        for problem in found.problems:
            shell.write(f"{problem.part}: {problem.message}")
        counted = f"{format_count(found.documents, 'document')}, {format_count(found.chunks, 'chunk')}"
        shell.write(f"{counted}: sound" if found.is_sound else f"{format_count(len(found.problems), 'problem')}: "
                  f"ragkit verify --repair --kb {shell.kb}")  # fmt: skip
    return 0 if found.is_sound else EXIT_VERIFY_FAILED
