"""The comparison with a baseline in the form that CI systems show: JUnit XML."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from collections.abc import Sequence

from ragkit.evaluate.report import EvaluationReport, MetricChange


def to_junit_xml(report: EvaluationReport, changes: Sequence[MetricChange], max_drop: float) -> str:
    """A test case for each figure that is compared, and for each question whose answer failed."""
    cases: list[tuple[str, str, str]] = [
        (
            "figures",
            one.name,
            f"{one.name} fell from {one.before:.4f} to {one.now:.4f}; at most {max_drop:g} was allowed"
            if one.dropped
            else "",
        )
        for one in changes
    ]
    cases += [("figures", name, "") for name in report.metrics if not changes]
    cases += [("questions", f"{one.question.id} {one.question.text}", one.error) for one in report.failed_questions]
    root = Xml.Element("testsuites")
    suite = Xml.SubElement(
        root,
        "testsuite",
        name="ragkit eval",
        tests=str(len(cases)),
        failures=str(sum(bool(why) for _, _, why in cases)),
    )
    for group, name, why in cases:
        case = Xml.SubElement(suite, "testcase", classname=f"ragkit.eval.{group}", name=name)
        if why:
            Xml.SubElement(case, "failure", message=why).text = why
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
