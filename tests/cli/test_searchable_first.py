"""`ragkit index` publishes before it embeds: `--no-wait`, Ctrl-C, and what `status` and `doctor` say."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.cli.conftest import Ragkit, start

NOTE = "# Pump {n}\n\nThe pump of house {n} is oiled by {n} gardeners in every spring, and painted green.\n"


def write_notes(folder: Path, count: int) -> None:
    folder.mkdir()
    for n in range(count):
        (folder / f"{n}.md").write_text(NOTE.format(n=n))


def test_no_wait_ends_when_the_documents_are_searchable(workplace: Path, ragkit: Ragkit) -> None:
    write_notes(workplace / "docs", 3)
    shown = ragkit("index", "docs", "--no-wait").out.splitlines()
    assert shown[0] == "3 added" and shown[1].startswith("3 chunks added, 0 removed; searchable after ")
    assert shown[1].endswith(" s; 3 chunks to embed: searches embed what they need, `ragkit index` all of them")
    assert ragkit("search", "Who oils pump 1?", "--json").json["hits"][0]["source"].endswith("1.md")
    status = ragkit("status", "--json").json
    assert (status["embedded"], status["chunks"]) == (0, 3)
    assert "0 of 3 chunks embedded: searches embed what they need, `ragkit index` all of them\n" in ragkit("status").out
    assert "3 documents, 3 chunks (0 embedded) at " in ragkit("doctor", code=None).out
    assert ragkit("verify").out.endswith("sound\n")
    report = ragkit("index", "--json").json
    assert (report["embedded"], report["unembedded"]) == (0, 0)  # the search has embedded them
    assert "embedded:" not in ragkit("status").out


def test_an_interruption_after_publishing_leaves_searchable_documents(workplace: Path, ragkit: Ragkit) -> None:
    write_notes(workplace / "docs", 700)
    process = start("index", "docs", cwd=workplace)
    assert process.stderr is not None
    line = next(line for line in process.stderr if not line.startswith(("looking", "indexing")))
    assert line.startswith("searchable after ") and line.endswith(" s: 700 chunks, 700 to embed (Ctrl-C is safe)\n")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.lstrip()) == (130, "interrupted; completed work is kept\n")
    assert ragkit("search", "Who oils pump 613?", "--json").json["hits"][0]["source"].endswith("613.md")
    assert ragkit("verify").out.endswith("sound\n")
    embedded = ragkit("status", "--json").json["embedded"]
    assert embedded < 700
    assert 0 < ragkit("index", "--json").json["embedded"] <= 700 - embedded
    assert ragkit("status", "--json").json["embedded"] == 700
