"""`ragkit usage`: show tokens and costs of a knowledge base."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.cli.costs import format_usd
from ragkit.records import JSON
from ragkit.usage.ledger import GROUPS, Period, Spending

NO_TOOL = "(no tool)"
COMMAND, OLD_COMMAND = "command", "verb"
"""A group, and its name up to 0.3, which still works."""


@click.command()
@click.option(
    "--by", type=click.Choice([*GROUPS, OLD_COMMAND]), metavar="|".join(GROUPS), help="Only this table (default: all)."
)
@click.option("--since", metavar="WHEN", help="Start: 2026-11-20, 2026-11-20T14:30 or 7d (days ago), in UTC.")
@click.option("--until", metavar="WHEN", help="End, in the same formats; a day is included.")
@with_common_options
def command(context: CliContext, by: str | None, since: str | None, until: str | None) -> None:
    """Show tokens and costs by day, model, tool, pipeline and command.

    All calls of models, embedders and rerankers that used tokens are recorded, including local ones.

    \b
        ragkit usage --since 7d
        ragkit usage --by model --json
    """
    by = COMMAND if by == OLD_COMMAND else by
    period = Period.parse(since, until)
    with context.open_knowledge_base() as kb:
        total = kb.ledger.total_spending(period)
        tables = {group: kb.ledger.spending_by(group, period) for group in GROUPS if by in {None, group}}
    if context.json:
        context.write_json(_usage_json(context, period, total, tables))
        return
    context.write(_format_row("total", total))
    for group, rows in tables.items():
        if rows:
            _print_group(context, group, rows)
    if total.total_cost_usd is None:
        context.log(f"calls with a known price cost {format_usd(total.known_cost_usd)}; add the other prices to "
                    "configs/prices.yaml")  # fmt: skip


def _usage_json(
    context: CliContext, period: Period, total: Spending, tables: dict[str, list[Spending]]
) -> dict[str, JSON]:
    usage: dict[str, JSON] = {
        "kb": context.place,
        "since": period.since.isoformat() if period.since else None,
        "until": period.until.isoformat() if period.until else None,
        "total": total.to_dict(),
    }
    for group, rows in tables.items():
        usage[f"by_{group}"] = [{group: row.name, **row.to_dict()} for row in rows]
    if COMMAND in tables:
        usage[f"by_{OLD_COMMAND}"] = [{OLD_COMMAND: row.name, **row.to_dict()} for row in tables[COMMAND]]
    return usage


def _print_group(context: CliContext, group: str, rows: Sequence[Spending]) -> None:
    context.write(f"\nby {group}")
    names = [row.name or NO_TOOL for row in rows]
    width = max(map(len, names))
    for name, row in zip(names, rows, strict=True):
        context.write(_format_row(f"  {name:{width}}", row))


def _format_row(name: str, row: Spending) -> str:
    parts = [format_count(row.runs, "run"), format_count(row.calls, "call")]
    if row.prompt_tokens + row.completion_tokens:
        parts.append(f"{row.prompt_tokens:,} + {row.completion_tokens:,} tokens")
    if row.embedding_tokens:
        parts.append(f"{row.embedding_tokens:,} embedded")
    return f"{name}  {format_usd(row.total_cost_usd)}  ({', '.join(parts)})"
