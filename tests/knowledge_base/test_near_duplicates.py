"""A search shows one of the passages that say the same, and names the files of the others."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ragkit.embed.minilm import MiniLM
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import Hit

LICENCE = (
    "This program is free software: permission is granted to use, copy, change and distribute it for any purpose,"
    " provided that this notice stays in all copies. It comes without any warranty, not even of fitness."
)
TRAVEL = (
    "The traveller hands in the receipts of a journey at the office after the return, and the office pays the costs of"
    " trains, hotels and meals to the account that the traveller names in the form within {days} days."
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(f"{text}\n", "utf-8")


def open_indexed(folder: Path) -> KnowledgeBase:
    kb = KnowledgeBase.open(folder.parent / "kb")
    kb.index(folder)
    return kb


def names(hits: list[Hit]) -> list[tuple[str, set[str]]]:
    """The file of each hit, and the files that it is also in."""
    return [(Path(hit.source).stem, {Path(source).stem for source in hit.also_in}) for hit in hits]


def test_a_copy_is_named_beside_the_hit_and_takes_no_place_of_its_own(folder: Path) -> None:
    text = TRAVEL.format(days=30)
    write(folder, a=text, b=text.replace(", ", ",\n"), c=text.replace("the form", "a form"), d=LICENCE)
    with open_indexed(folder) as kb:
        found = names(kb.search("Who pays the hotel of a journey?"))
    assert len(found) == 2
    first, others = found[0]
    assert {first} | others == {"a", "b", "c"}
    assert found[1] == ("d", set())


def test_passages_with_other_numbers_are_all_shown(folder: Path) -> None:
    write(folder, a=TRAVEL.format(days=30), b=TRAVEL.format(days=31), c=TRAVEL.format(days=60))
    with open_indexed(folder) as kb:
        found = names(kb.search("When does the office pay the hotel?"))
    assert sorted(found) == [("a", set()), ("b", set()), ("c", set())]


def test_licences_of_hundreds_of_files_take_one_place(folder: Path) -> None:
    topics = ["pumps", "valves", "motors", "belts", "fans", "tanks", "pipes", "lamps"]
    write(folder, **{f"file{number}": LICENCE for number in range(300)})
    write(folder, **{topic: f"The licence office counts the {topic} of a program." for topic in topics})
    with open_indexed(folder) as kb:
        for mode in (None, "lexical", "dense"):
            hits = kb.search("Is the program free software with a warranty?", top_k=5, mode=mode)
            found = [name for name, _ in names(hits)]
            assert len(found) == 5 or mode == "lexical"
            assert sum(name.startswith("file") for name in found) == 1
            assert len(next(hit for hit in hits if "file" in hit.source).also_in) == 100


def test_the_newest_version_stands_for_the_others_unless_the_question_names_a_year(folder: Path) -> None:
    text = TRAVEL.format(days=30)
    write(folder, policy_2021=text, policy_2023=text, policy_2022=text)
    with open_indexed(folder) as kb:
        assert names(kb.search("Who pays the hotel?")) == [("policy_2023", {"policy_2021", "policy_2022"})]
        assert names(kb.search("Who paid the hotel in 2021?")) == [("policy_2021", {"policy_2023", "policy_2022"})]


def test_versions_with_the_year_in_their_title_say_the_same(folder: Path) -> None:
    text = TRAVEL.format(days=30)
    write(folder, policy_2022=f"# Travel policy 2022\n\n{text}", policy_2024=f"# Travel policy 2024\n\n{text}")
    with open_indexed(folder) as kb:
        assert names(kb.search("Who pays the hotel?")) == [("policy_2024", {"policy_2022"})]


def test_the_date_in_the_properties_tells_which_version_is_the_newest(folder: Path) -> None:
    text = f"# Travel\n\n{TRAVEL.format(days=30)}"
    write(
        folder,
        old=f"---\ntitle: Travel\ndate: 2021-03-01\n---\n{text}",
        new=f"---\ntitle: Travel\ndate: 2024-03-01\n---\n{text}",
    )
    with open_indexed(folder) as kb:
        assert names(kb.search("Who pays the hotel?"))[0] == ("new", {"old"})


def test_after_edits_renames_and_deletions_the_next_copy_comes_up(folder: Path) -> None:
    text = TRAVEL.format(days=30)
    write(folder, a=text, b=text, c=text)
    with open_indexed(folder) as kb:
        first, others = names(kb.search("Who pays the hotel?"))[0]
        (folder / f"{first}.md").unlink()
        kb.index(folder)
        second, rest = names(kb.search("Who pays the hotel?"))[0]
        assert {second} | rest == others
        (folder / f"{second}.md").rename(folder / "renamed.md")
        kb.index(folder)
        found = names(kb.search("Who pays the hotel?"))
        assert len(found) == 1 and {found[0][0]} | found[0][1] == {"renamed"} | rest
        write(folder, renamed=TRAVEL.format(days=90))
        kb.index(folder)
        found = names(kb.search("Who pays the hotel?"))
        assert {name for name, _ in found} == {"renamed"} | rest
        assert all(not also for _, also in found)


def test_a_filter_hides_copies_in_other_files(folder: Path) -> None:
    text = TRAVEL.format(days=30)
    write(folder, a=f"---\nteam: one\n---\n{text}", b=f"---\nteam: two\n---\n{text}", c=f"---\nteam: one\n---\n{text}")
    with open_indexed(folder) as kb:
        found = names(kb.search("Who pays the hotel?", where={"team": "one"}))
    assert len(found) == 1 and {found[0][0]} | found[0][1] == {"a", "c"}


def test_an_answer_says_where_else_its_citation_stands(folder: Path) -> None:
    text = TRAVEL.format(days=30)
    write(folder, a=text, b=text)
    with open_indexed(folder) as kb:
        answer = kb.ask("Who pays the costs of hotels?")
    assert len(answer.citations) == 1
    citation = answer.citations[0]
    assert {Path(citation.source).stem, *(Path(source).stem for source in citation.also_in)} == {"a", "b"}
    assert answer.to_json()["citations"][0]["also_in"] == list(citation.also_in)  # type: ignore[index, call-overload]


def test_a_catalog_of_an_older_version_gets_the_groups_at_the_next_run_without_embedding(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TRAVEL.format(days=30)
    write(folder, a=text, b=text)
    open_indexed(folder).close()
    path = folder.parent / "kb"
    connection = sqlite3.connect(path / "index.sqlite")
    for table in ("passages", "passages_documents", "passages_state"):
        connection.execute(f"DROP TABLE {table}")
    connection.commit()
    connection.close()
    (path / "seal.json").unlink()
    with KnowledgeBase.open(path) as kb:
        assert names(kb.search("Who pays the hotel?")) in ([("a", set()), ("b", set())], [("b", set()), ("a", set())])
    with monkeypatch.context() as patch, KnowledgeBase.open(path) as kb:
        patch.setattr(MiniLM, "embed_texts", lambda *_: pytest.fail("nothing has to be embedded"))
        kb.index(folder)
    with KnowledgeBase.open(path) as kb:
        assert len(kb.search("Who pays the hotel?")) == 1
