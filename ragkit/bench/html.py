"""A result as one HTML page: tables and pictures, nothing to fetch, no script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from html import escape

from ragkit.bench.results import Outcome
from ragkit.bench.tables import Table, fallen, notes, tables

ALT = {
    "recall-qps": "Queries a second on one thread against recall, a line for each store",
    "latency": "Latency percentiles of each store",
    "filters": "Latency of each store by the share of the rows that a filter lets through",
    "build-disk": "Build rate, disk and memory of each store",
}
STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 2.5rem auto; max-width: 62rem;
  padding: 0 1.25rem; }
h1 { font-size: 1.6rem; margin: 0 0 .4rem; } h2 { font-size: 1.15rem; margin: 2.4rem 0 .3rem; }
p, li { color: #555; max-width: 48rem; } ul { padding-left: 1.1rem; margin: .5rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; margin: .6rem 0;
  width: 100%; }
th, td { padding: .34rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e8e8e8; }
th { color: #666; font-weight: 600; vertical-align: bottom; white-space: normal; border-bottom: 2px solid #ccc; }
th:first-child, td:first-child { text-align: left; font-weight: 600; } td.say { text-align: left; white-space: normal; }
tr.floor td { color: #777; font-style: italic; } img { width: 100%; height: auto; margin: .8rem 0; }
footer { margin-top: 3rem; font-size: .8rem; color: #777; }
"""


def page(outcome: Outcome, pictures: Mapping[str, bytes]) -> str:
    """The report, pictures (PNG, by name) inlined."""
    found = [
        f"<h1>Vector stores on {escape(str(outcome.data['name']))}</h1>",
        "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes(outcome)) + "</ul>",
        *(_picture(name, raw) for name, raw in pictures.items()),
        *(_table(table) for table in tables(outcome)),
        _fallen(outcome),
        _versions(outcome),
        f"<footer>Run {escape(outcome.run)} of <code>ragkit bench</code>,"
        f" data {escape(str(outcome.data['fingerprint']))}. Recall counts every row whose score reaches that of the"
        f" last wanted one; a first call is never timed.</footer>",
    ]
    head = "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    body = "\n".join(found)
    return f"{head}<title>ragkit bench</title><style>{STYLE}</style>\n{body}</html>\n"


def _picture(name: str, raw: bytes) -> str:
    return f"<img alt='{escape(ALT.get(name, name))}' src='data:image/png;base64,{b64encode(raw).decode()}'>"


def _table(table: Table) -> str:
    first = len(table.rows) - table.floors
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr{' class=floor' if number >= first else ''}>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for number, row in enumerate(table.rows)
    )
    return (
        f"<h2>{escape(table.title)}</h2><p>{escape(table.note)}</p>"
        f"<div class=scroll><table><tr>{head}</tr>{rows}</table></div>"
    )


def _fallen(outcome: Outcome) -> str:
    rows = "".join(
        f"<tr><td>{escape(label)}</td><td>{escape(status)}</td><td class=say>{escape(reason)}</td></tr>"
        for label, status, reason in fallen(outcome)
    )
    return f"<h2>Not measured, or not in full</h2><table>{rows}</table>" if rows else ""


def _versions(outcome: Outcome) -> str:
    core = outcome.machine["versions"]
    rows = [("all", core if isinstance(core, dict) else {})]
    rows += [(line.entry.label, line.versions) for line in outcome.lines if line.versions]
    cells = "".join(
        f"<tr><td>{escape(label)}</td><td class=say>"
        f"{escape(', '.join(f'{name} {version}' for name, version in versions.items() if version))}</td></tr>"
        for label, versions in rows
    )
    return f"<h2>Versions</h2><table>{cells}</table>"
