"""A counting server, and paid components registered by entry points like plugins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Ragkit, ragkit, workplace
from tests.cost.wire import Wire, serving

__all__ = ["Ragkit", "ragkit", "workplace"]

ENTRY_POINTS = """[ragkit.embedders]
paid = tests.cost.paid:PaidEmbedder
careless = tests.cost.paid:CarelessEmbedder
nameless = tests.cost.paid:NamelessEmbedder

[ragkit.providers]
paidchat = tests.cost.paid:PaidProvider
"""
PRICES = """openai:
  text-embedding-3-small: {input: 1000}
  text-embedding-3-large: {input: 1000}
  gpt-4o-mini: {input: 100, output: 1000}
"""
"""A tenth of a cent for each token embedded, a hundredth for each sent, a tenth for each received."""


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """The server used by the paid components."""
    with serving() as server:
        monkeypatch.setenv("RAGKIT_TEST_WIRE", server.url)
        yield server


@pytest.fixture
def shop(workplace: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a price list, a pipeline of paid components, and twenty short documents."""
    packages = workplace / "site"
    info = packages / "ragkit_paid-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ragkit-paid\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    monkeypatch.syspath_prepend(packages)
    (workplace / "prices.yaml").write_text(PRICES, encoding="utf-8")
    (workplace / "ragkit.yaml").write_text(
        "extends: default\nembed: {name: paid}\nanswer: {provider: paidchat, max_cost_usd: null}\n", encoding="utf-8"
    )
    folder = workplace / "docs"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number:02}.md").write_text(f"Boiler {number} takes {number} minutes to warm up.\n", "utf-8")
    return folder
