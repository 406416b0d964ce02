"""Renders a result as one self-contained HTML page without scripts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from html import escape

from ragkit.bench.results import BenchResult
from ragkit.bench.styles import store_colour
from ragkit.bench.tables import ResultTable, build_tables, describe_conditions, incomplete_stores
from ragkit.bench.verdict import decide

ALT_TEXTS = {"recall-qps": "Queries per second on one thread against recall, one line per store"}
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
th:first-child, td:first-child { text-align: left; font-weight: 600; }
td.text { text-align: left; white-space: normal; }
tr.reference td { color: #777; font-style: italic; } img { width: 100%; height: auto; margin: .8rem 0; }
.verdict { border-left: 4px solid #D55E00; padding: .1rem 1rem; margin: 1.4rem 0; background: #faf7f4; }
.verdict h2 { margin-top: .5rem; } .verdict p { color: #222; }
footer { margin-top: 3rem; font-size: .8rem; color: #777; }
"""


def render_bench_report(outcome: BenchResult, plots: Mapping[str, bytes]) -> str:
    """The HTML report with inlined plots (PNG, by name)."""
    colours = {store.entry.label: store_colour(store.entry.name) for store in outcome.stores}
    sections = [
        f"<h1>Vector stores on {escape(str(outcome.data['name']))}</h1>",
        "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in describe_conditions(outcome)) + "</ul>",
        _render_verdict(outcome),
        *(_render_picture(name, png) for name, png in plots.items()),
        *(_render_table(table, colours) for table in build_tables(outcome)),
        _render_incomplete(outcome),
        _render_versions(outcome),
        f"<footer>Run {escape(outcome.run_id)} of <code>ragkit bench</code>,"
        f" data {escape(str(outcome.data['fingerprint']))}. Recall counts every row whose score reaches the score of"
        f" the k-th nearest row; first calls are not timed.</footer>",
    ]
    head = "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    body = "\n".join(sections)
    return f"{head}<title>ragkit bench</title><style>{STYLE}</style>\n{body}</html>\n"


def _render_verdict(outcome: BenchResult) -> str:
    verdict = decide(outcome)
    if verdict is None:
        return ""
    first, *others = map(escape, verdict.sentences)
    return f"<section class=verdict><h2>Verdict</h2><p><strong>{first}</strong> {' '.join(others)}</p></section>"


def _render_picture(name: str, png: bytes) -> str:
    return f"<img alt='{escape(ALT_TEXTS.get(name, name))}' src='data:image/png;base64,{b64encode(png).decode()}'>"


def _render_table(table: ResultTable, colours: Mapping[str, str]) -> str:
    first = len(table.rows) - table.reference_rows
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr{' class=reference' if number >= first else ''}>"
        + f"<td style='color:{colours[row[0]]}'>{escape(row[0])}</td>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for number, row in enumerate(table.rows)
    )
    title = f"<h2>{escape(table.title)}</h2><p>{escape(table.note)}</p>"
    return f"{title}<div class=scroll><table><tr>{head}</tr>{rows}</table></div>"


def _render_incomplete(outcome: BenchResult) -> str:
    rows = "".join(
        f"<tr><td>{escape(label)}</td><td>{escape(status)}</td><td class=text>{escape(reason)}</td></tr>"
        for label, status, reason in incomplete_stores(outcome)
    )
    return f"<h2>Not or only partly measured</h2><table>{rows}</table>" if rows else ""


def _render_versions(outcome: BenchResult) -> str:
    core = outcome.machine["versions"]
    rows = [("all stores", core if isinstance(core, dict) else {})]
    rows += [(line.entry.label, line.versions) for line in outcome.stores if line.versions]
    cells = "".join(
        f"<tr><td>{escape(label)}</td><td class=text>"
        f"{escape(', '.join(f'{name} {version}' for name, version in versions.items() if version))}</td></tr>"
        for label, versions in rows
    )
    return f"<h2>Versions</h2><table>{cells}</table>"
