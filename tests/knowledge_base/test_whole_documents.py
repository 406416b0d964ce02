"""Whole documents: what is asked of them, the tools that navigate them, and their summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit import Agent, ConversationMemory, KnowledgeBase, RAGAgent, ScriptedProvider, ToolCall
from ragkit.agent.loop.config import AgentConfig
from ragkit.answer.document_tools import DocumentTools
from ragkit.answer.outcome import Outcome
from ragkit.answer.summaries import ModelSummary, SummaryPlan
from ragkit.answer.tool import RAGTool
from ragkit.errors import BudgetTooSmall, InvalidOption, UnknownName
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document

PUMPS = """# Pumps

Author: Ada Quill
Created: 3 May 2024
Version 2.1

## Abstract

This document explains how the pumps of the mill are kept free of frost. It is for the night shift.

## Care

The valve of each pump is greased in October. Frost breaks a valve that is dry.

## Repair

A broken valve is replaced by the smith within two days.
"""
OLD_PUMPS = PUMPS.replace("in October", "in November").replace("## Repair\n", "## Mending\n").replace("2.1", "2.0")
SECRET = "# Frost money\n\nThe budget against frost is nine thousand crowns. Frost is expensive.\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder = tmp_path_factory.mktemp("whole")
    docs = folder / "docs"
    docs.mkdir()
    for name, text in (
        ("pumps.md", PUMPS),
        ("old-pumps.md", OLD_PUMPS),
        ("bread.md", "# Bread\n\nBread is baked at four.\n"),
    ):
        (docs / name).write_text(text, "utf-8")
    with KnowledgeBase.open(folder / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.index(docs)
        kb.add(Document(SECRET, {"source": "frost-money.md", "access": ["boss"]}))
        yield kb


def ask(kb: KnowledgeBase, question: str) -> str:
    answer = kb.ask(question)
    assert all(citation.verified for citation in answer.citations)
    return answer.text


def test_what_a_document_is_about_is_its_abstract_with_central_sentences_and_sections(base: KnowledgeBase) -> None:
    first, *others = ask(base, "What is pumps.md about?").splitlines()
    assert first == (
        "This document explains how the pumps of the mill are kept free of frost. It is for the night shift. [1]"
    )
    assert others[-2:] == ["", "Sections: Abstract; Care; Repair."]  # in Markdown, no part of the last item
    assert all(line.startswith("- ") and line.endswith("]") for line in others[:-2])


def test_this_document_is_the_only_one_or_all_are_named(base: KnowledgeBase) -> None:
    answer = base.ask("What is this document about?", where={"name": "bread.md"})
    assert answer.text.startswith("Bread is baked at four.") and answer.citations[0].source.endswith("bread.md")
    listed = ask(base, "What is this document about?")
    assert listed.startswith("4 documents are here; name one by its file name or title:\n- ")
    assert all(name in listed for name in ("pumps.md", "old-pumps.md", "bread.md", "frost-money.md"))


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("Who wrote bread.md?", "no author"),
        ("When was bread.md published?", "no date"),
        ("Which version is bread.md?", "no version"),
    ],
)
def test_a_document_that_names_no_author_date_or_version_is_not_quoted(
    base: KnowledgeBase, question: str, missing: str
) -> None:
    answer = base.ask(question)
    assert answer.abstained and not answer.citations
    assert re.fullmatch(
        rf"Not in these documents: \S*bread\.md names {missing}, and neither do the properties of the file\.",
        answer.text,
    )


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who wrote pumps.md?", "Author: Ada Quill [1]"),
        ("Wann wurde pumps.md erstellt?", "Created: 3 May 2024 [1]"),
        ("Which version is pumps.md?", "Version 2.1 [1]"),
        ("What is the title of pumps.md?", "Pumps [1]"),
    ],
)
def test_who_when_and_which_version_are_read_at_the_beginning(base: KnowledgeBase, question: str, text: str) -> None:
    assert ask(base, question) == text


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who wrote pumps.md, and which version is old-pumps.md?", "Author: Ada Quill [1]\nVersion 2.0 [2]"),
        ("Who are the authors of pumps.md and of old-pumps.md?", "Author: Ada Quill [1]\nAuthor: Ada Quill [2]"),
    ],
)
def test_each_part_of_a_question_about_documents_is_looked_up(base: KnowledgeBase, question: str, text: str) -> None:
    assert ask(base, question) == text
    assert base.ask(question).searched_for == ""


def test_a_question_of_which_one_part_is_about_a_document_is_searched_for(base: KnowledgeBase) -> None:
    assert "baked at four" in ask(base, "Who wrote pumps.md, and when is the bread baked?")


def test_the_sections_have_their_lines(base: KnowledgeBase) -> None:
    lines = ask(base, "What are the main sections of pumps.md?").splitlines()
    assert lines[1:] == ["- Abstract, line 7 [1]", "- Care, line 11 [2]", "- Repair, line 15 [3]"]


def test_what_changed_are_the_headings_and_sentences_that_one_lacks(base: KnowledgeBase) -> None:
    text = ask(base, "What changed between old-pumps.md and pumps.md?")
    assert "Headings: Mending." in text and "Headings: Repair." in text
    assert "- The valve of each pump is greased in October. [2]" in text
    assert "smith" not in text


def test_a_look_up_counts_and_names_all_documents_that_may_be_read_and_no_others(base: KnowledgeBase) -> None:
    question = "Which documents mention frost?"
    assert ask(base, question).startswith("3 of 4 documents mention 'frost':")
    reader = base.as_user("zoe")
    text = ask(reader, question)
    assert text.startswith("2 of 3 documents mention 'frost':") and "money" not in text
    assert ask(reader, "How many documents are there?").startswith("3 documents:")
    assert "money" not in ask(reader, "List all documents about frost.")
    assert reader.ask("What is frost-money.md about?").outcome is Outcome.NOT_IN_DOCUMENTS
    with pytest.raises(InvalidOption, match="document must be the source, file name or title"):
        reader.summarize("frost-money.md")


def test_a_word_that_no_document_mentions_is_counted_too(base: KnowledgeBase) -> None:
    answer = base.ask("How many documents mention zeppelins?")
    assert answer.text.startswith("0 of 4 documents mention 'zeppelins'.")
    assert answer.outcome is Outcome.NOT_IN_DOCUMENTS


def test_a_filter_restricts_what_is_counted(base: KnowledgeBase) -> None:
    answer = base.ask("How many documents are there?", where='title == "Bread"')
    assert answer.text.splitlines()[0] == "1 document match the filter:"


def test_a_question_with_a_title_that_may_mean_something_else_is_searched_for(base: KnowledgeBase) -> None:
    assert "baked at four" in ask(base, "When was Bread created?")


def test_what_a_named_file_says_is_searched_for_in_that_file_alone(base: KnowledgeBase) -> None:
    for name, month in (("old-pumps.md", "November"), ("pumps.md", "October")):
        answer = base.ask(f"When is the valve of each pump greased according to {name}?")
        assert month in answer.text
        assert all(citation.source.endswith(f"/docs/{name}") for citation in answer.citations)
    shown = RAGTool(base).search_knowledge_base("valve in old-pumps.md").content
    assert "old-pumps.md" in shown and "/pumps.md" not in shown


def test_what_a_document_says_is_its_abstract_and_a_form_around_a_file_name_is_no_wrong_name(
    base: KnowledgeBase,
) -> None:
    about = ask(base, "What is pumps.md about?")
    assert ask(base, "What does pumps.md explain?") == about
    assert ask(base, "What does the page about old pumps say?") == ask(base, "What is old-pumps.md about?")
    assert "none of 4 has the name" not in ask(base, "Which version of the pump is described in pumps.md?")
    assert "none of 4 has the name" in ask(base, "Which version is pumps.rst?")


def test_a_lead_does_not_end_with_what_only_introduces_a_list(tmp_path: Path) -> None:
    text = "# Valves\n\nKeep these things in mind:\n\n- frost\n- rust\n\nA valve of the mill lets water through.\n"
    with KnowledgeBase.open(tmp_path, Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.add(Document(text, {"source": "valves.md"}))
        assert kb.ask("What is valves.md about?").text.startswith("A valve of the mill lets water through. [1]")


CHANGES = """# Changes

## [4.1.0] - 2023-05-17

The mill grinds rye since 4.0.1, which was never released.

## v4.0.0 / 1 February 2022

The mill grinds oats.

## 4.0.1

Not released.
"""


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When was mill 4.1.0 released?", "[4.1.0] - 2023-05-17 [1]"),
        ("When did version 4.0.0 of the mill come out?", "v4.0.0 / 1 February 2022 [1]"),
    ],
)
def test_the_date_of_a_release_is_read_in_the_heading_of_its_change_log(
    tmp_path: Path, question: str, text: str
) -> None:
    with KnowledgeBase.open(tmp_path, Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        (tmp_path / "mill-CHANGES.md").write_text(CHANGES, "utf-8")
        kb.index(tmp_path / "mill-CHANGES.md")
        assert ask(kb, question) == text
        assert "4.1.0] - " not in ask(kb, "When was mill 4.0.1 released?")
        assert "4.1.0] - " not in ask(kb, "When was oven 4.1.0 released?")


def test_documents_of_a_year_and_of_an_author_are_counted_and_a_date_is_the_one_that_is_asked_for(
    tmp_path: Path,
) -> None:
    head = "# RFC {0}: {1}\n\n* Author: Ada Quill\n* Created: {2}-03-01\n* Last Modified: 2024-09-02\n\n## Abstract\n\n"
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        for number, title, year in ((1, "Locks", 2019), (2, "Gates", 2024), (3, "Tolls", 2019)):
            text = f"{head.format(number, title, year)}We rebuild what 2024 broke. It lasts.\n\n### Cost\n\nMuch.\n"
            (tmp_path / f"{number:03}.md").write_text(text, "utf-8")
        kb.index(tmp_path)
        for question, count, names in (
            ("Which RFCs were created in 2019?", 2, ("001.md", "003.md")),
            ("Which RFCs were created in 2024?", 1, ("002.md",)),
            ("Which RFCs were written by Ada Quill?", 3, ("001.md", "002.md", "003.md")),
        ):
            first, *others = ask(kb, question).splitlines()
            assert first.startswith(f"{count} of 3 documents ")
            assert [re.findall(r"\d+\.md", line)[0] for line in others if line.startswith("- ")] == list(names)
        assert ask(kb, "When was RFC 1 last modified?") == "Last Modified: 2024-09-02 [1]"
        assert ask(kb, "When was the RFC about tolls created?") == "Created: 2019-03-01 [1]"
        headings = [line.split(",")[0] for line in ask(kb, "What headings does 002.md have?").splitlines()[1:]]
        assert headings == ["- RFC 2: Gates", "- Abstract", "- Cost"]
        assert "1970" not in ask(kb, "Which RFCs were created in 1970?")


def test_what_a_document_says_of_itself_is_quoted_by_its_label(tmp_path: Path) -> None:
    (tmp_path / "locks.md").write_text(
        "---\nstatus: accepted\n---\n\n# RFC 4: Locks\n\nLocks hold the water.\n", "utf-8"
    )
    (tmp_path / "gates.md").write_text(
        "# Gates\n\n* **Owner**: Ada Quill\n* Status: Final\n\nGates let it go.\n", "utf-8"
    )
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.index(tmp_path)
        assert ask(kb, "What is the status of gates.md?") == "Status: Final [1]"
        assert ask(kb, "What is the owner of gates.md?") == "Owner: Ada Quill [1]"
        assert ask(kb, "What is the status of RFC 4?").endswith("locks.md: status: accepted")
        assert "Properties" not in ask(kb, "What is the depth of gates.md?")
        assert "none of" not in ask(kb, "What is the status of package.json?")


def test_a_note_beside_the_text_is_no_summary(tmp_path: Path) -> None:
    text = "> [!IMPORTANT]\n> Valves are sold out until March!\n\n# Valves\n\nA valve of the mill lets water through.\n"
    with KnowledgeBase.open(tmp_path, Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        (tmp_path / "valves.md").write_text(text, "utf-8")
        kb.index(tmp_path / "valves.md")
        assert kb.ask("What is valves.md about?").text.startswith("A valve of the mill lets water through. [1]")


def test_documents_that_mention_both_words_have_each_of_them(base: KnowledgeBase) -> None:
    text = ask(base.as_user("zoe"), "Which documents mention both the smith and pumps?")
    assert text.startswith("2 of 3 documents mention 'smith' and 'pumps':")
    assert ask(base, "Which documents mention both bread and frost?").startswith("0 of 4 documents mention 'bread' and")


def test_words_with_and_without_hyphens_and_in_both_numbers_are_counted_together(tmp_path: Path) -> None:
    with KnowledgeBase.open(tmp_path, Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.add(Document("The proof of stake is in the pudding, and proof-of-stake too.", {"source": "a.md"}))
        kb.add(Document("Proof-of-stake is cheap.", {"source": "Stake-The proof.md"}))
        kb.add(Document("A proof of milk.", {"source": "c.md"}))
        for words in ("proof of stake", "proof-of-stake"):
            text = ask(kb, f"Which documents mention {words}?")
            assert text.startswith(f"2 of 3 documents mention '{words}':\n- a.md (2 times) [1]\n")
        assert ask(kb, "Which documents mention milk?").startswith("1 of 3 documents mentions 'milk':")
        assert ask(kb, "Which documents mention stakes?").startswith("2 of 3 documents mention 'stakes':")
        assert ask(kb, "Which documents mention the word 'stakes'?").startswith("0 of 3 documents mention 'stakes'.")
        assert ask(kb, "Which documents mention Stakes?").startswith("0 of 3 documents mention 'Stakes'.")
        about = ask(kb, "List all documents about stake")
        assert about.startswith("2 of 3 documents are about 'stake':") and "Stake-The proof.md" in about


def test_a_meeting_is_about_its_agenda_and_slides_are_about_what_the_first_ones_say(tmp_path: Path) -> None:
    people, agenda = (
        "## Attendees\n\n- Ada Quill\n- Bo Reed\n",
        "## Agenda items\n\n1. Opening\n2. The price of frost\n",
    )
    notes = "## Notes\n\nBo asked for nine crowns against the frost.\n"
    first = "# Call of May\n\nRegistration is needed for all calls of this group.\n"
    (tmp_path / "may.md").write_text("\n".join([first, people, agenda, notes]), "utf-8")
    slides = [f"Part {n}\n- frost\n- nine crowns\n" for n in range(2, 8)]
    text = "Frost of the mill\nAda Quill\n" + "".join(slides)
    starts = tuple(text.index(slide) for slide in slides)
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.index(tmp_path / "may.md")
        kb.add(Document(text, {"source": "frost.pdf"}, page_starts=(0, *starts)))
        assert ask(kb, "What was discussed in may.md?").startswith("1. Opening 2. The price of frost [1]\n")
        assert ask(kb, "What was on the agenda of may.md?") == "1. Opening\n2. The price of frost [1]"
        assert ask(kb, "Who attended the meeting in may.md?") == "Ada Quill\nBo Reed [1]"
        assert ask(kb, "What is frost.pdf about?").startswith("Frost of the mill Ada Quill Part 2 ")


def test_in_a_conversation_quotes_are_numbered_on(base: KnowledgeBase) -> None:
    chat = base.chat(model="extractive")
    first = chat.ask("When is the valve of each pump greased?")
    second = chat.ask("Who wrote pumps.md?")
    assert second.text == f"Author: Ada Quill [{len(first.citations) + 1}]"
    assert [citation.quote for citation in second.citations] == ["Author: Ada Quill"]


def test_a_model_that_searches_gets_a_complete_question_looked_up_in_a_conversation(base: KnowledgeBase) -> None:
    provider = ScriptedProvider(["In October [1].", "There are four documents."])
    agent = RAGAgent(base, provider, memory=ConversationMemory())
    agent.ask("When is the valve of each pump greased?")
    agent.ask("How many documents are there?")
    assert "Looked up:\n4 documents:\n" in provider.requests[1].messages[-1].content


def test_the_search_tool_gives_a_model_the_look_up_with_its_passages(base: KnowledgeBase) -> None:
    result = RAGTool(base.as_user("zoe")).search_knowledge_base("Which documents mention frost?")
    assert result.content.startswith("[1] ")
    assert "Looked up:\n2 of 3 documents mention 'frost':" in result.content and "money" not in result.content


def test_the_tools_list_outline_read_and_find(base: KnowledgeBase) -> None:
    tools = DocumentTools(base.as_user("zoe"))
    assert tools.list_documents().content.startswith("3 documents:\n")
    assert "pumps.md: 4 headings, 18 lines\nPumps (line 1)\n  Abstract (line 7)" in tools.outline("pumps.md").content
    part = tools.read_document("pumps.md", section="care").content
    assert "greased in October" in part and "smith" not in part
    assert "smith" in tools.read_document("pumps.md", lines="15-17").content
    found = tools.find_text("FROST")
    assert (
        found.content.startswith("4 places in 2 of 3 documents") and "line 9: This document explains" in found.content
    )
    assert tools.find_text(r"^## \w+$", regex=True).content.startswith("6 places in 2 of 3 documents")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"section": "Tides"}, "section must be a heading of .*: Pumps, Abstract, Care, Repair"),
        ({"pages": "1"}, "pages must be a number or a range such as 3-5, from 1 to 0"),
        ({"lines": "9-2"}, "lines must be a number or a range such as 3-5, from 1 to 18"),
        ({"lines": "1", "pages": "1"}, "pages and lines must be one of section, pages and lines"),
    ],
)
def test_a_part_that_does_not_exist_is_an_error_that_says_what_there_is(
    base: KnowledgeBase, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        DocumentTools(base).read_document("pumps.md", **arguments)  # type: ignore[arg-type]


def test_an_agent_has_the_tools_only_if_the_pipeline_names_them(base: KnowledgeBase, tmp_path: Path) -> None:
    assert [tool.name for tool in base.agent("extractive").available_tools] == ["search_knowledge_base"]
    pipeline = Pipeline.from_yaml("embed: {name: hashing}\nanswer: {tools: [outline, find_text]}\n")
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        names = [tool.name for tool in kb.agent("extractive").available_tools]
    assert names == ["search_knowledge_base", "outline", "find_text"]
    with pytest.raises(UnknownName, match="no_tool"):
        DocumentTools(base).select(["no_tool"])


def test_what_an_agent_reads_it_can_cite(base: KnowledgeBase) -> None:
    tools = DocumentTools(base).tools
    script: list[ToolCall | str] = [ToolCall("read_document", {"source": "bread.md"}), "Bread is baked at four [1]."]
    result = Agent(ScriptedProvider(script), tools).run("When is bread baked?")
    assert result.tool_calls[0].content.startswith("[1] ")


def test_a_summary_without_a_model_is_the_extract(base: KnowledgeBase) -> None:
    answer = base.summarize("pumps.md", model="extractive")
    assert answer.text == base.ask("Summarize pumps.md").text
    assert (answer.model, answer.supported, answer.usage.total_cost_usd) == ("extractive", 1.0, 0.0)


def test_a_model_summarizes_part_by_part_within_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing}\n")) as kb:
        text = "\n\n".join(
            f"Mill {n} grinds {n} sacks of rye in a day, says the miller of village {n}." for n in range(400)
        )
        kb.add(Document(text, {"source": "mills.md"}), IndexOptions())
        plans: list[SummaryPlan] = []
        parts = ["Mill 1 grinds 1 sacks of rye in a day [1].", "later mills [30]", "last mills [60]"]
        monkeypatch.setenv("RAGKIT_MOCK_JSON", str(tmp_path / "script.json"))
        count = kb_parts(kb)
        script = [*(parts[:1] * count), "Mill 0 grinds 0 sacks of rye in a day [1]."]
        (tmp_path / "script.json").write_text(str(script).replace("'", '"'), "utf-8")
        answer = kb.summarize("mills.md", on_plan=plans.append)
        assert count > 1 and plans[0].parts == count and plans[0].requests == count + 1
        assert answer.text == "Mill 0 grinds 0 sacks of rye in a day [1]."
        assert (answer.supported, answer.citations[0].verified, answer.outcome) == (1.0, True, Outcome.ANSWERED)


def kb_parts(kb: KnowledgeBase) -> int:
    """The number of parts of the document, by the plan."""
    with kb.session() as session:
        source = session.documents()[0][0]
        return ModelSummary(session, source, ScriptedProvider([]), AgentConfig()).plan().parts


def test_a_summary_that_would_cost_more_than_its_limit_is_not_begun(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with pytest.raises(BudgetTooSmall):
        base.summarize("pumps.md", model="openai:gpt-4o", max_cost_usd=0.000001)


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """Minutes by a template, named after their days, and numbered decisions."""
    folder = tmp_path_factory.mktemp("minutes")
    text = (
        "# {day} Mill meeting\n\n* Be kind to all who attend these meetings of the mill.\n\n**Present:** {people}\n\n"
        "## Topics\n\n* {topic} was looked at by all of us.\n* {other}\n\n"
    )
    for day, people, topic, other in (
        ("2023-05-03", "Ada, Bo", "The frost", "The oven is old and was not used."),
        ("2023-05-17", "Ada, Cy, Dee", "The valve", "Decision: buy a new valve."),
        ("2024-01-10", "Bo", "The roof", "The rope was agreed to be too short."),
    ):
        filled = text.format(day=day, people=people, topic=topic, other=other)
        (folder / f"mill-{day}.md").write_text(filled, "utf-8")
    for number, status, decision in (
        (7, "Superseded by [12](0012-steam.md)", "Use water."),
        (12, "Accepted", "Use steam."),
    ):
        name = "water" if number == 7 else "steam"
        (folder / f"{number:04d}-{name}.md").write_text(
            f"# {name.title()}\n\nDate: 2023-06-{number:02d}\n\n## Status\n\n{status}\n\n## Decision\n\n{decision}\n",
            "utf-8",
        )
    with KnowledgeBase.open(folder / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.index(folder)
        yield kb


@pytest.mark.parametrize(
    ("question", "beginning"),
    [
        ("Who attended the meeting on 2023-05-17?", "Present: Ada, Cy, Dee [1]"),
        ("How many people were at the meeting of 17 May 2023?", "3 names, counted by commas and lines:"),
        ("Who was present at the last meeting?", "Present: Bo [1]"),
        ("What was decided on 2023-05-17?", "Decision: buy a new valve. [1]"),
        ("What was decided at the last meeting?", "The rope was agreed to be too short. [1]"),
        ("What was decided in ADR 12?", "Use steam. [1]"),
        ("What is the status of ADR 12?", "Accepted [1]"),
        ("Which document supersedes ADR 7?", "Superseded by 12 [1]"),
        ("What does ADR 12 supersede?", "0007-water.md: Superseded by 12 [1]"),
        (
            "What was discussed at the meeting on 2023-05-03?",
            "The frost was looked at by all of us. The oven is old and was not used. [1]",
        ),
    ],
)
def test_a_document_is_named_by_its_date_its_number_or_its_order(
    minutes: KnowledgeBase, question: str, beginning: str
) -> None:
    answer = ask(minutes, question)
    assert beginning in answer.splitlines()[0]


@pytest.mark.parametrize(
    ("question", "count", "names"),
    [
        (
            "Which meetings took place in May 2023?",
            "2 of 5 documents are",
            ["mill-2023-05-03.md", "mill-2023-05-17.md"],
        ),
        (
            "How many meetings were held in 2023?",
            "2 of 3 documents called 'meetings' are",
            ["mill-2023-05-03.md", "mill-2023-05-17.md"],
        ),
        ("Which documents are accepted?", "1 of 5 documents has", ["0012-steam.md"]),
        ("What is the newest document?", "The newest document, by date (2024-01-10)", ["mill-2024-01-10.md"]),
        ("What was the first meeting in 2023?", "The first meeting in 2023, by date", ["mill-2023-05-03.md"]),
        (
            "How many meetings are there?",
            "3 documents:",
            [f"mill-{day}.md" for day in ("2023-05-03", "2023-05-17", "2024-01-10")],
        ),
        ("Which documents refer to ADR 12?", "1 of 5 documents mentions", ["0007-water.md"]),
        ("Is there a meeting on 2024-02-01?", "0 of 5 documents are", []),
    ],
)
def test_documents_are_counted_by_date_kind_and_status(
    minutes: KnowledgeBase, question: str, count: str, names: list[str]
) -> None:
    first, *others = ask(minutes, question).splitlines()
    assert first.startswith(count)
    assert [found[0] for line in others if (found := re.search(r"[\w-]+\.md", line)) and line.startswith("- ")] == names


def test_documents_of_a_kind_are_counted_among_those_of_the_filter(minutes: KnowledgeBase) -> None:
    answer = minutes.ask("How many meetings were held in 2023?", where={"name": {"$ne": "mill-2024-01-10.md"}})
    assert answer.text.startswith("2 of 2 documents called 'meetings' are of 2023:")


def test_several_values_of_a_field_are_all_authors(tmp_path: Path) -> None:
    (tmp_path / "frost.rst").write_text(
        ":author: Ada Quill\n:author: Bo Reed\n\nFrost\n=====\n\nFrost is cold.\n", "utf-8"
    )
    (tmp_path / "bread.rst").write_text(":author: Cy Mill\n\nBread\n=====\n\nBread is warm.\n", "utf-8")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.index(tmp_path)
        assert ask(kb, "Who wrote frost.rst?").endswith("frost.rst: author: Ada Quill, Bo Reed")
        assert ask(kb, "Who wrote the paper by Bo Reed?").endswith("author: Ada Quill, Bo Reed")
        assert ask(kb, "Which documents were written by Bo Reed?").startswith("1 of 2 documents names 'Bo Reed'")


POST = """+++
path = "2022/10/{day}/{name}"
title = "{title}"
authors = ["{author}"]
+++

{text}
"""


@pytest.fixture(scope="module")
def blog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """Posts that nobody calls so in their names, with their dates in their addresses."""
    folder = tmp_path_factory.mktemp("blog")
    for name, day, title, author, text in (
        ("locks", "03", "Locks to be stable in spring", "Ada Quill", "Locks hold the water of the mill back."),
        ("gate-advisory", "28", "Security advisory for gates", "Bo Reed", "Gates of the mill may burst in frost."),
        ("tolls", "09", "Announcing tolls", "Ada Quill", "Tolls are due from boats in summer."),
    ):
        filled = POST.format(day=day, name=name, title=title, author=author, text=text)
        (folder / f"{name}.md").write_text(filled, "utf-8")
    with KnowledgeBase.open(folder / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.index(folder)
        yield kb


@pytest.mark.parametrize(
    ("question", "beginning", "named"),
    [
        ("How many posts are there?", "3 documents:", "tolls.md"),
        ("Which posts did Ada Quill write?", "2 of 3 documents name 'Ada Quill'", "locks.md"),
        ("Does any post mention frost?", "1 of 3 documents mentions 'frost'", "gate-advisory.md"),
        ("Which posts are security advisories?", "1 of 3 documents is about", "gate-advisory.md"),
        ("Which posts were published in October?", "3 of 3 documents are of October", "tolls.md"),
        ("What is the newest post?", "The newest post, by date (2022-10-28)", "gate-advisory.md"),
        ("Who wrote the post on stable locks?", "Properties of ", "authors: Ada Quill"),
        ("Which person published the announcement of tolls?", "Properties of ", "authors: Ada Quill"),
        ("When was the post about gates published?", "Properties of ", "2022/10/28"),
        ("How long is the post about tolls?", "", "tolls.md has 7 words"),
    ],
)
def test_documents_are_called_by_any_usual_noun_and_named_by_their_subject(
    blog: KnowledgeBase, question: str, beginning: str, named: str
) -> None:
    text = ask(blog, question)
    assert text.startswith(beginning) and named in text


def test_what_the_post_on_a_subject_says_is_searched_for_in_it_alone(blog: KnowledgeBase) -> None:
    answer = blog.ask("What does the post on gates say about frost?")
    assert {citation.source.rpartition("/")[2] for citation in answer.citations} == {"gate-advisory.md"}
