"""Renders the report as one self-contained HTML page: every question with its hits and its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from ragkit.evaluate.intervals import BootstrapEstimate
from ragkit.evaluate.report import EvaluationReport, MetricChange
from ragkit.evaluate.run import READER_METRICS, QuestionResult, ReportedHit
from ragkit.evaluate.verdict import QuestionVerdict, judge_result
from ragkit.records import JSON

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
    """Render the page. Text of documents and answers is escaped."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>",
        "<p class=soft>" + ", ".join(f"{escape(k)} {escape(str(v))}" for k, v in report.settings.items()) + "</p>",
        "<h2>Metrics</h2><table><tr><th>metric<th class=n>mean<th>95 % interval<th><th class=n>questions</tr>",
        *(
            f"<tr><td>{escape(name)}<td class=n>{metric.mean:.4f}<td>{metric.low:.4f} to {metric.high:.4f}"
            f"<td><div class=bar><i style='width:{100 * metric.mean:.1f}%'></i>"
            f"<b style='left:{100 * metric.low:.1f}%;width:{100 * (metric.high - metric.low):.1f}%'></b></div>"
            f"<td class=n>{metric.n}</tr>"
            for name, metric in report.metrics.items()
        ),
        "</table><p>" + ", ".join(f"{escape(k)} {v:.1f} ms" for k, v in report.milliseconds.items()),
        f"; cost {'unknown' if report.cost_usd is None else f'${report.cost_usd:.4f}'}</p>",
    ]
    if changes:
        parts.append(
            "<h2>Comparison with the baseline</h2>"
            "<table><tr><th>metric<th class=n>before<th class=n>now<th class=n>p</tr>"
        )
        parts += [
            f"<tr class={'bad' if change.dropped else 'soft' if change.p > 0.05 else 'good'}><td>{escape(change.name)}"
            f"<td class=n>{change.before:.4f}<td class=n>{change.now:.4f}<td class=n>{change.p:.3f}</tr>"
            for change in changes
        ]
        parts.append("</table>")
    parts += _render_kinds(report.kinds)
    verdicts = Counter(judge_result(outcome) for outcome in report.outcomes)
    counts = ", ".join(f"{verdicts[verdict]} {escape(verdict)}" for verdict in QuestionVerdict if verdicts[verdict])
    parts.append(f"<h2>Questions</h2><p class=soft>{counts}</p>")
    # the worst questions first: they are what users look for
    parts += [_render_question(outcome) for outcome in sorted(report.outcomes, key=_quality)]
    return "\n".join(parts) + "\n"


def _quality(outcome: QuestionResult) -> tuple[int, float]:
    """The verdict, the worst first, then the mean of the metrics."""
    values = list(outcome.metrics.values())
    return list(QuestionVerdict).index(judge_result(outcome)), sum(values) / len(values) if values else 1.0


def _render_kinds(kinds: Mapping[str, Mapping[str, BootstrapEstimate]]) -> list[str]:
    """What a reader sees of the answers, by kind of question."""
    if not kinds:
        return []
    names = [name for name in READER_METRICS if any(name in metrics for metrics in kinds.values())]
    head = "".join(f"<th class=n>{escape(name)}" for name in names)
    rows = [
        f"<tr><td>{escape(kind)}{''.join(_render_estimate(metrics.get(name)) for name in names)}</tr>"
        for kind, metrics in kinds.items()
    ]
    return [f"<h2>Answers by kind of question</h2><table><tr><th>kind{head}</tr>", *rows, "</table>"]


def _render_estimate(estimate: BootstrapEstimate | None) -> str:
    if estimate is None:
        return "<td class=n>"
    interval = f"{estimate.low:.2f} to {estimate.high:.2f}, n = {estimate.n}"
    return f"<td class=n>{estimate.mean:.2f} <span class=soft>({interval})</span>"


def _render_question(outcome: QuestionResult) -> str:
    question = outcome.question
    metrics = ", ".join(f"{escape(name)} {value:.2f}" for name, value in outcome.metrics.items())
    sources = " / ".join(map(escape, question.sources)) or "no source answers it"
    answer = ""
    if outcome.error:
        answer = f"<p class=bad>{escape(outcome.error)}</p>"
    elif outcome.answer is not None:
        status = "abstained" if outcome.abstained else "answered"
        wanted = " and ".join(" or ".join(part) for part in question.answer_parts)
        expected = f" (expected: {escape(wanted)})" if wanted else ""
        answer = (
            f"<p><b>{status}</b>, evidence {outcome.evidence:.2f}{expected}</p>"
            f"<blockquote>{escape(outcome.answer)}</blockquote>{_render_judgement(outcome.judgement)}"
            f"<p>Citations</p><ol>{''.join(map(_render_hit, outcome.citations))}</ol>"
        )
    verdict = judge_result(outcome)
    mark = "bad" if verdict.is_miss else "soft" if verdict is QuestionVerdict.UNJUDGED else "good"
    return (
        f"<details><summary class={mark}>{escape(question.text)} "
        f"<span class=soft>{escape(question.kind)}</span> <b>{escape(verdict)}</b></summary>"
        f"<p class=soft>{escape(question.id)}: {sources}. {metrics}</p>{answer}"
        f"<p>Hits</p><ol>{''.join(map(_render_hit, outcome.hits))}</ol></details>"
    )


def _render_judgement(judgement: Mapping[str, JSON] | None) -> str:
    """The statements of an answer with the judge's verdicts."""
    if judgement is None:
        return ""
    statements = judgement.get("statements")
    items = [
        f"<li class={'good' if row.get('supported') else 'bad'}>{escape(str(row.get('statement')))} "
        f"<span class=soft>{escape(str(row.get('passages')))}</span>"
        for row in (statements if isinstance(statements, list) else [])
        if isinstance(row, Mapping)
    ]
    return f"<p>Judge: {escape(str(judgement.get('reason', '')))}</p><ol>{''.join(items)}</ol>"


def _render_hit(hit: ReportedHit) -> str:
    place = f"<code>{escape(hit.source)}:{hit.line}</code>"
    relevant = " <span class=good>relevant</span>" if hit.right else ""
    unverified = "" if hit.verified else " <span class=bad>not verified</span>"
    return f"<li>{place} {hit.score:.3f}{relevant}{unverified}<br>{escape(' '.join(hit.text.split()))}</li>"
