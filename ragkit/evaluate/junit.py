"""Formats the comparison with a baseline as JUnit XML, for CI systems."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from collections.abc import Sequence

from ragkit.evaluate.report import EvaluationReport, MetricChange


def to_junit_xml(report: EvaluationReport, changes: Sequence[MetricChange], max_drop: float) -> str:
    """One test case for each compared metric and for each question whose answer failed."""
    cases: list[tuple[str, str, str]] = []
    for change in changes:
        drop = f"{change.name} dropped from {change.before:.4f} to {change.now:.4f} (allowed drop: {max_drop:g})"
        cases.append(("figures", change.name, drop if change.dropped else ""))
    cases += [("figures", name, "") for name in report.metrics if not changes]
    cases += [("questions", f"{o.question.id} {o.question.text}", o.error) for o in report.failed_questions]
    root = Xml.Element("testsuites")
    failed = sum(bool(failure) for _, _, failure in cases)
    suite = Xml.SubElement(root, "testsuite", name="ragkit eval", tests=str(len(cases)), failures=str(failed))
    for group, name, failure in cases:
        case = Xml.SubElement(suite, "testcase", classname=f"ragkit.eval.{group}", name=name)
        if failure:
            Xml.SubElement(case, "failure", message=failure).text = failure
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
