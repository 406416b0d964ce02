"""The report as one HTML page without outside resources: every question with its hits and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from ragkit.evaluate.report import EvaluationReport, MetricChange
from ragkit.evaluate.run import QuestionResult, ReportedHit

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --bad: #c2410c; --good: #15803d }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line);
text-align: left; vertical-align: top } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
details { border-bottom: 1px solid var(--line); padding: .35rem 0 } summary { cursor: pointer }
.bad { color: var(--bad) } .good { color: var(--good) } .soft { opacity: .7 }
.bar { background: var(--soft); height: .6rem; width: 9rem; position: relative; border-radius: 3px }
.bar i { position: absolute; left: 0; top: 0; bottom: 0; background: #2563eb; border-radius: 3px }
.bar b { position: absolute; top: .2rem; height: .2rem; background: #0f172a; opacity: .55 }
ol { margin: .3rem 0 .6rem } blockquote { margin: .3rem 0; padding-left: .8rem; border-left: 3px solid var(--line) }
code { font-size: .9em }
"""


def render_evaluation_report(
    report: EvaluationReport, changes: Sequence[MetricChange] = (), title: str = "Evaluation"
) -> str:
    """The whole page. Text of documents and answers is escaped: it can inject nothing."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>",
        "<p class=soft>" + ", ".join(f"{escape(k)} {escape(str(v))}" for k, v in report.settings.items()) + "</p>",
        "<h2>Figures</h2><table><tr><th>figure<th class=n>mean<th>95 % interval<th><th class=n>questions</tr>",
        *(
            f"<tr><td>{escape(name)}<td class=n>{one.mean:.4f}<td>{one.low:.4f} to {one.high:.4f}"
            f"<td><div class=bar><i style='width:{100 * one.mean:.1f}%'></i>"
            f"<b style='left:{100 * one.low:.1f}%;width:{100 * (one.high - one.low):.1f}%'></b></div>"
            f"<td class=n>{one.n}</tr>"
            for name, one in report.metrics.items()
        ),
        "</table><p>" + ", ".join(f"{escape(k)} {v:.1f} ms" for k, v in report.milliseconds.items()),
        f"; cost {'unknown' if report.cost_usd is None else f'${report.cost_usd:.4f}'}</p>",
    ]
    if changes:
        parts.append(
            "<h2>Against the baseline</h2><table><tr><th>figure<th class=n>before<th class=n>now<th class=n>p</tr>"
        )
        parts += [
            f"<tr class={'bad' if one.dropped else 'soft' if one.p > 0.05 else 'good'}><td>{escape(one.name)}"
            f"<td class=n>{one.before:.4f}<td class=n>{one.now:.4f}<td class=n>{one.p:.3f}</tr>"
            for one in changes
        ]
        parts.append("</table>")
    parts.append("<h2>Questions</h2>")
    parts += [_render_question(one) for one in sorted(report.outcomes, key=_mean_quality)]
    return "\n".join(parts) + "\n"


def _mean_quality(one: QuestionResult) -> float:
    """The worst first: that is what one comes to look at."""
    values = list(one.metrics.values())
    wrong = one.abstained == one.question.answerable and one.answer is not None
    return -2.0 if one.error else (sum(values) / len(values) if values else 1.0) - wrong


def _render_question(one: QuestionResult) -> str:
    figures = ", ".join(f"{escape(name)} {value:.2f}" for name, value in one.metrics.items())
    right = " / ".join(map(escape, one.question.sources)) or "nothing answers it"
    answer = ""
    if one.error:
        answer = f"<p class=bad>{escape(one.error)}</p>"
    elif one.answer is not None:
        said = "refused" if one.abstained else "answered"
        wanted = f" (wanted: {escape(' or '.join(one.question.answers))})" if one.question.answers else ""
        answer = (
            f"<p><b>{said}</b>, evidence {one.evidence:.2f}{wanted}</p><blockquote>{escape(one.answer)}</blockquote>"
            f"{_render_judgement(one)}<p>Citations</p><ol>{''.join(map(_render_hit, one.citations))}</ol>"
        )
    mark = "bad" if _mean_quality(one) < 0.5 else "good"
    return (
        f"<details><summary class={mark}>{escape(one.question.text)} "
        f"<span class=soft>{escape(one.question.kind)}</span></summary>"
        f"<p class=soft>{escape(one.question.id)}: {right}. {figures}</p>{answer}"
        f"<p>Hits</p><ol>{''.join(map(_render_hit, one.hits))}</ol></details>"
    )


def _render_judgement(one: QuestionResult) -> str:
    """What the judge said of an answer."""
    if one.judgement is None:
        return ""
    statements = one.judgement.get("statements")
    items = [
        f"<li class={'good' if row.get('supported') else 'bad'}>{escape(str(row.get('statement')))} "
        f"<span class=soft>{escape(str(row.get('passages')))}</span>"
        for row in (statements if isinstance(statements, list) else [])
        if isinstance(row, Mapping)
    ]
    return f"<p>Judged: {escape(str(one.judgement.get('reason', '')))}</p><ol>{''.join(items)}</ol>"


def _render_hit(one: ReportedHit) -> str:
    place = f"<code>{escape(one.source)}:{one.line}</code>"
    mark = " <span class=good>answers</span>" if one.right else ""
    false = "" if one.verified else " <span class=bad>not found in its source</span>"
    return f"<li>{place} {one.score:.3f}{mark}{false}<br>{escape(' '.join(one.text.split()))}</li>"
