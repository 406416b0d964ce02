"""Commands name the other files that hold a passage that says the same."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Ragkit

TEXT = (
    "The traveller hands in the receipts of a journey at the office after the return, and the office pays the costs of"
    " trains, hotels and meals to the account that the traveller names in the form within 30 days.\n"
)


def test_search_and_ask_name_three_of_the_other_files(ragkit: Ragkit, workplace: Path) -> None:
    for name in "abcde":
        (workplace / f"{name}.md").write_text(TEXT, "utf-8")
    ragkit("index", ".")
    for verb in ("search", "ask"):
        printed = ragkit(verb, "Who pays the costs of hotels?").out
        assert re.search(r"also in: \w\.md, \w\.md, \w\.md and 1 more\n", printed), printed
    first = ragkit("search", "hotels", "--json").json["hits"][0]
    assert {first["source"], *first["also_in"]} == {f"{name}.md" for name in "abcde"}
    citation = ragkit("ask", "Who pays the costs of hotels?", "--json").json["citations"][0]
    assert {citation["source"], *citation["also_in"]} == {f"{name}.md" for name in "abcde"}
