"""`ragkit verify`: check the integrity of the knowledge base."""

from __future__ import annotations

import click

from ragkit.cli import EXIT_VERIFY_FAILED
from ragkit.cli.common import CliContext, format_count, with_common_options


@click.command()
@click.option("--repair", is_flag=True, help="Repair problems from the sources.")
@with_common_options
def command(context: CliContext, repair: bool) -> int:
    """Check catalog, vectors and lexical index against their checksums. Exits with 5 if there are problems."""
    with context.open_or_create(context.load_pipeline(), check=False) as kb:
        report = kb.verify(repair=repair)
    if context.json:
        context.write_json({
            "kb": report.kb, "sound": report.is_sound, "documents": report.documents, "chunks": report.chunks,
            "vectors": report.vectors, "problems": [{"part": p.part, "what": p.message} for p in report.problems],
            "repaired": list(report.repaired),
        })  # fmt: skip
    else:
        for line in report.repaired:
            context.write(f"repaired: {line}")
        for problem in report.problems:
            context.write(f"{problem.part}: {problem.message}")
        counted = f"{format_count(report.documents, 'document')}, {format_count(report.chunks, 'chunk')}"
        context.write(f"{counted}: sound" if report.is_sound else f"{format_count(len(report.problems), 'problem')}: "
                  f"ragkit verify --repair --kb {context.place}")  # fmt: skip
    return 0 if report.is_sound else EXIT_VERIFY_FAILED
