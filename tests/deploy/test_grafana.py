"""The dashboard for Grafana names only metrics and labels that the server has."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from ragkit.server.metrics import Metrics

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "ragkit.json"
NO_LABELS = {"le"}
"""Labels of every histogram."""


def served() -> dict[str, set[str]]:
    """The samples of a server that has answered, each with its labels."""
    metrics = Metrics()
    metrics.requests.labels("/chat", "200").inc()
    metrics.request_seconds.labels("/chat").observe(1)
    metrics.first_text_seconds.observe(1)
    metrics.count_answer("done", 1.0, "extractive", "notes")
    metrics.count_usage({"prompt_tokens": 1, "llm_cost_usd": 0.1}, "extractive", "notes")
    metrics.index_time.labels("notes").set(1)
    families = text_string_to_metric_families(metrics.render().decode())
    found: dict[str, set[str]] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_metric_and_label_of_the_dashboard_exists() -> None:
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    samples = served()
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > 12
    for expression in expressions:
        names = re.findall(r"ragkit_\w+", expression)
        assert len(names) == 1, expression
        assert names[0] in samples, expression
        labels = re.findall(r"[{,]\s*(\w+)\s*[=!]", expression)
        labels += [label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", group)]
        assert set(labels) <= samples[names[0]] | NO_LABELS, expression
    variables = {item["name"]: item for item in dashboard["templating"]["list"] if item["type"] == "query"}
    assert set(variables) == {"kb", "principal"}
    for name, variable in variables.items():
        metric, label = re.findall(r"label_values\((\w+), (\w+)\)", variable["query"])[0]
        assert label == name and label in samples[metric]
        assert any(f'{name}=~"${name}"' in expression for expression in expressions)


def test_every_panel_has_a_place_of_its_own() -> None:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
