"""Each command: output, JSON and exit code."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ragkit.cli import COMMANDS
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.session import Session
from tests.cli.conftest import Ragkit, start
from tests.load import sample_files

GUIDE = """# Boiler manual

## Starting

The boiler takes eleven minutes to reach its working pressure of 3.2 bar. Do not leave it alone before that.

## Cleaning

The filter is cleaned on the first Monday of the month by the caretaker, Ms Aldous.
"""


@pytest.fixture
def house(workplace: Path) -> Path:
    """Three documents about a house."""
    folder = workplace / "house"
    folder.mkdir()
    (folder / "boiler.md").write_text(GUIDE)
    (folder / "garden.txt").write_text(
        "The hedge is cut in August. The roses are cut back in March, after the frost.\n"
    )
    (folder / "keys.csv").write_text("room,hook,keys\nattic,14,2\ncellar,15,1\nlaundry,16,3\n")
    return folder


@pytest.fixture
def indexed(house: Path, ragkit: Ragkit) -> Path:
    ragkit("index", "house", "-q")
    return house


def test_index_reports_its_work_and_embeds_nothing_the_second_time(house: Path, ragkit: Ragkit) -> None:
    first = ragkit("index", "house", "--json").json
    assert first["files"] == {"added": 3, "updated": 0, "unchanged": 0, "removed": 0, "failed": 0, "skipped": 0}
    assert first["chunks"] == {"added": 3, "removed": 0, "reused": 0}
    assert first["embedded"] == 3
    usage = first["usage"]
    assert usage["embedding_cost_usd"] == 0.0
    assert usage["embedding_tokens"] > first["tokens"]  # and the tokens of the score calibration
    assert set(usage) == {
        "prompt_tokens", "completion_tokens", "embedding_tokens", "cached_tokens", "llm_cost_usd", "embedding_cost_usd",
        "total_cost_usd", "saved_cost_usd", "by_model", "by_tool", "iterations",
    }  # fmt: skip
    second = ragkit("index", "house", "--json").json
    assert (second["embedded"], second["chunks"]) == (0, {"added": 0, "removed": 0, "reused": 0})
    assert ragkit("index", "house").out == "nothing changed (3 unchanged)\n"


def test_a_dry_run_counts_and_leaves_nothing_behind(house: Path, ragkit: Ragkit) -> None:
    planned = ragkit("index", "house", "--dry-run", "--json").json
    assert not Path(".ragkit").exists()
    done = ragkit("index", "house", "--json").json
    assert planned["embedded"] == done["embedded"]
    assert planned["chunks"] == done["chunks"]
    assert planned["tokens"] == done["tokens"]
    (house / "garden.txt").write_text("The hedge is cut in July.\n")
    assert ragkit("index", "house", "--dry-run", "--json").json["embedded"] == 1
    assert ragkit("index", "house", "--json").json["embedded"] == 1


def test_include_and_exclude_choose_files(house: Path, ragkit: Ragkit) -> None:
    ragkit("index", "house", "--exclude", "*.csv", "-q")
    assert [line["source"] for line in ragkit("list", "--json").lines] == ["house/boiler.md", "house/garden.txt"]
    ragkit("index", "house", "--include", "*.csv", "-q")
    assert [line["source"] for line in ragkit("list", "--json").lines] == ["house/keys.csv"]


def test_search_returns_hits_with_exact_offsets(indexed: Path, ragkit: Ragkit) -> None:
    result = ragkit("search", "when is the filter cleaned", "-k", "2", "--json").json
    hits = result["hits"]
    first = hits[0]
    assert first["source"] == "house/boiler.md"
    assert first["heading"] == ["Boiler manual"]
    assert GUIDE[first["start"] : first["end"]] == first["text"]
    assert (first["start_line"], first["end_line"], first["page"], first["rank"]) == (1, 9, None, 1)
    scores = first["scores"]
    assert set(scores) == {"dense", "lexical", "rerank"}


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_every_mode_finds_the_roses(indexed: Path, ragkit: Ragkit, mode: str) -> None:
    hits = ragkit("search", "roses", "--mode", mode, "--json").json["hits"]
    assert hits[0]["source"] == "house/garden.txt"


def test_where_filters_the_search_and_an_invalid_filter_is_a_usage_error(indexed: Path, ragkit: Ragkit) -> None:
    hits = ragkit("search", "boiler", "--where", 'format == "csv"', "--json").json["hits"]
    assert {hit["source"] for hit in hits} == {"house/keys.csv"}
    result = ragkit("search", "boiler", "--where", "format = 3", code=2)
    assert len(result.err.splitlines()) == 1


def test_explain_shows_shares_that_sum_to_the_score(indexed: Path, ragkit: Ragkit) -> None:
    hits = ragkit("search", "boiler pressure", "--explain", "--json").json["hits"]
    for hit in hits:
        assert sum(hit["explain"]["shares"].values()) == pytest.approx(hit["score"], abs=1e-4)
    assert "dense #1" in ragkit("search", "boiler pressure", "--explain").out


def test_a_citation_of_a_pdf_file_has_its_rectangles_on_the_page(house: Path, ragkit: Ragkit) -> None:
    Path("pump.pdf").write_bytes(sample_files.pdf([["Pumps"], ["The pump of the well needs eleven litres of oil."]]))
    ragkit("index", "pump.pdf", "house/garden.txt")
    answer = ragkit("ask", "How much oil does the pump of the well need?", "--json").json
    of_pdf = [citation for citation in answer["citations"] if citation["source"] == "pump.pdf"]
    [rectangle] = of_pdf[0]["rectangles"]
    assert (rectangle["page"], of_pdf[0]["page"]) == (2, 2)
    assert rectangle["left"] < rectangle["right"]
    assert all(citation["rectangles"] == [] for citation in answer["citations"] if citation["source"] != "pump.pdf")
    Path("pump.pdf").write_bytes(sample_files.pdf([["Pumps"], ["Something else stands here now."]]))
    stale = ragkit("ask", "How much oil does the pump of the well need?", "--json").json["citations"][0]
    assert (stale["stale"], stale["rectangles"]) == (True, [])


def test_a_quote_is_shown_where_the_answer_has_other_words_or_it_is_asked_for(indexed: Path, ragkit: Ragkit) -> None:
    question = "How long does the boiler take to reach its working pressure?"
    quote = next(c["quote"] for c in ragkit("ask", question, "--json").json["citations"] if "eleven" in c["quote"])
    assert ragkit("ask", question).out.count("eleven minutes") == 1
    assert f'      "{" ".join(quote.split())}"' in ragkit("ask", question, "--quotes").out


def test_ask_answers_with_citations_from_the_file(indexed: Path, ragkit: Ragkit) -> None:
    answer = ragkit("ask", "How long does the boiler take to reach its working pressure?", "--json").json
    assert answer["abstained"] is False
    assert "eleven minutes" in str(answer["answer"])
    citations = answer["citations"]
    for citation in citations:
        assert (citation["verified"], citation["stale"]) == (True, False)
        if citation["source"] == "house/keys.csv":
            continue  # its loader writes rows as `column: value`; offsets refer to that text
        text = Path(str(citation["source"])).read_text()
        assert text[citation["start"] : citation["end"]] == citation["quote"]
        lines = text.splitlines()[citation["start_line"] - 1 : citation["end_line"]]
        assert str(citation["quote"]) in "\n".join(lines)
    assert isinstance(answer["trace_id"], str)
    usage = answer["usage"]
    assert usage["total_cost_usd"] == 0.0
    assert usage["by_tool"]["search_knowledge_base"]["calls"] == 1


def test_summarize_cites_the_document_and_prints_the_plan_of_a_model_first(
    indexed: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    extract = ragkit("summarize", "boiler.md", "--json").json
    assert (extract["model"], extract["abstained"], extract["citations"][0]["verified"]) == ("extractive", False, True)
    assert "did you mean boiler.md?" in ragkit("summarize", "boilers.md", code=2).err
    monkeypatch.setenv("RAGKIT_MOCK_JSON", '["It is a guide to the boiler [1]."]')
    told = ragkit("summarize", "boiler.md")
    assert told.out.startswith("It is a guide to the boiler [1].\n")
    assert told.err.startswith("scripted:scripted: 1 part, 1 request, about ")


def test_a_file_that_changed_makes_its_citations_stale(indexed: Path, ragkit: Ragkit) -> None:
    (indexed / "boiler.md").write_text(GUIDE + "\nOne more line.\n")
    result = ragkit("ask", "How long does the boiler take to reach its working pressure?", "--json").json
    stale = [c["stale"] for c in result["citations"] if c["source"] == "house/boiler.md"]
    assert stale
    assert all(stale)
    assert "1 file changed" in ragkit("status").out


def test_search_and_ask_say_when_the_sources_changed_since_the_last_run(indexed: Path, ragkit: Ragkit) -> None:
    assert ragkit("search", "roses").err == ""
    assert ragkit("search", "roses", "--json").json["freshness"]["current"] is True
    (indexed / "garden.txt").write_text("The hedge is cut in July.\n")
    (indexed / "new.txt").write_text("Something new.\n")
    note = "note: the sources changed since the last run (1 changed, 1 new): run `ragkit index`\n"
    assert ragkit("search", "roses").err == note
    assert note in ragkit("ask", "When is the hedge cut?").err
    result = ragkit("ask", "When is the hedge cut?", "--json").json
    freshness = result["freshness"]
    assert (freshness["current"], freshness["changed"], freshness["added"]) == (False, 1, 1)
    assert ragkit("search", "roses", "-q").err == ""
    assert ragkit("search", "roses", "-q", "--json").json["freshness"]["current"] is False


def test_a_quiet_command_does_not_compare_sources_with_the_index(
    indexed: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(session: Session) -> None:
        pytest.fail("the sources were compared")

    monkeypatch.setattr(Session, "freshness", fail)
    assert "hedge" in ragkit("ask", "When is the hedge cut?", "-q").out


def test_excluded_files_are_not_new(house: Path, ragkit: Ragkit) -> None:
    ragkit("index", "house", "--exclude", "*.csv", "-q")
    assert ragkit("search", "roses", "--json").json["freshness"]["current"] is True
    ragkit("index", "house", "-q")
    assert ragkit("search", "roses", "--json").json["freshness"]["current"] is True
    (house / "keys.csv").unlink()
    assert ragkit("search", "roses", "--json").json["freshness"]["removed"] == 1


def test_a_question_that_the_documents_do_not_answer_is_declined(indexed: Path, ragkit: Ragkit) -> None:
    result = ragkit("ask", "Who won the football world cup in 1998?", "--json").json
    assert result["abstained"] is True
    assert str(result["answer"]).startswith("Not in these documents")
    assert ragkit("ask", "Who won the football world cup in 1998?", "--strict", code=6).out.startswith("Not in these")


def test_the_question_may_come_from_stdin(indexed: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("When is the hedge cut?\n"))
    assert "August" in ragkit("ask").out


def test_chat_answers_one_question_after_the_other(
    indexed: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("When is the hedge cut?\nWho cleans the filter?\n\n"))
    answers = ragkit("chat", "--json").lines
    assert ["August" in str(answers[0]["answer"]), "Aldous" in str(answers[1]["answer"])] == [True, True]


def test_chat_knows_commands_and_manners(indexed: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "hello",
        "/help",
        "/sources now",
        "When is the hedge cut?",
        "thanks!",
        "/etc/hosts holds what?",
        "/Exit",
        "no",
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    done = ragkit("chat", "--json")
    answers = [str(line["answer"]) for line in done.lines]
    assert [line["question"] for line in done.lines] == [lines[0], *lines[3:6]]
    assert (answers[0][:6], "August" in answers[1], answers[2]) == ("Hello.", True, "You are welcome.")
    assert [line["citations"] == [] for line in done.lines[:3]] == [True, False, True]
    assert "/exit, /quit   end the conversation" in done.err
    assert "unknown command /sources: the commands are /help, /exit and /quit\n" in done.err


@pytest.mark.parametrize("end", ["exit", "QUIT", "/quit", "/exit now", ""])
def test_chat_ends(indexed: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{end}\nWhen is the hedge cut?\n"))
    assert ragkit("chat").out == ""


def test_what_was_searched_is_shown(indexed: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Who cleans the filter?\nthanks\nAnd the hedge?\n"))
    questions = [line["searched_for"] for line in ragkit("chat", "--json").lines]
    assert questions == ["", "", "Who cleans the filter (the hedge)?"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("Who cleans the filter?\nAnd the hedge?\n"))
    assert "\nsearched for: Who cleans the filter (the hedge)?\n" in ragkit("chat").err


def test_search_hints_at_a_misspelled_word(workplace: Path, hashing: Path, ragkit: Ragkit) -> None:
    for n in range(3):
        (workplace / f"{n}.md").write_text(f"The Dynamo of mill {n} is made of brass.\n")
    ragkit("index", ".", "--kb", "kb")
    assert "did you mean: Where is the Dynamo?\n" in ragkit("search", "Where is the Dyanmo?", "--kb", "kb").err
    assert "did you mean" not in ragkit("search", "Where is the Dynamo?", "--kb", "kb").err
    assert "searched for: Where is the Dynamo?\n" in ragkit("ask", "Where is the Dyanmo?", "--kb", "kb").err


def test_status_list_show_rm_and_clear(indexed: Path, ragkit: Ragkit) -> None:
    status = ragkit("status", "--json").json
    assert (status["documents"], status["chunks"], status["failed"]) == (3, 3, 0)
    chunk = ragkit("list", "--chunks", "--json").lines[0]
    assert {"id", "source", "start", "end", "text", "metadata"} <= set(chunk)
    assert ragkit("show", str(chunk["id"]), "--json").json["text"] == chunk["text"]
    assert ragkit("show", "house/boiler.md").out == GUIDE + "\n"
    assert "neither a chunk id" in ragkit("show", "nothing", code=1).err
    assert ragkit("remove", "house/garden.txt").out == "1 document removed\n"
    assert [line["source"] for line in ragkit("list", "--json").lines] == ["house/boiler.md", "house/keys.csv"]
    assert ragkit("verify").out == "2 documents, 2 chunks: sound\n"
    assert "confirm with --yes" in ragkit("clear", code=2).err
    assert ragkit("clear", "--yes").out == "2 documents removed\n"
    assert ragkit("list").out == ""
    for verb in ("search", "ask"):
        assert "holds no documents: fill it with `ragkit index FOLDER`" in ragkit(verb, "roses", code=1).err
    assert ragkit("verify", "--json").json["vectors"] == 0
    ragkit("index", "house", "-q")
    assert ragkit("status", "--json").json["chunks"] == 3


def test_without_a_knowledge_base_every_verb_says_how_to_make_one(workplace: Path, ragkit: Ragkit) -> None:
    for verb in (
        ["search", "x"],
        ["ask", "x"],
        ["status"],
        ["list"],
        ["show", "x"],
        ["summarize", "x"],
        ["remove", "x"],
        ["clear"],
        ["verify"],
    ):
        result = ragkit(*verb, code=1)
        assert result.err == "error: .ragkit is not a knowledge base: build it with `ragkit index FOLDER`\n"


def test_usage_errors_are_one_line_with_exit_code_2(workplace: Path, ragkit: Ragkit) -> None:
    assert "did you mean 'index'?" in ragkit("indx", "docs", code=2).err
    assert "'nowhere' does not exist. To remove documents" in ragkit("index", "nowhere", code=2).err
    assert "missing source" in ragkit("index", code=2).err
    assert "missing question" in ragkit("ask", " ", code=2).err


def test_init_writes_valid_files_and_keeps_existing_ones(workplace: Path, ragkit: Ragkit) -> None:
    assert ragkit("init").out == "wrote ragkit.yaml\nwrote .ragkitignore\n"
    assert ragkit("pipeline", "validate").out.endswith("ragkit.yaml: valid\n")
    Path("ragkit.yaml").write_text("extends: default\n")
    assert "ragkit.yaml exists: not changed" in ragkit("init", code=1).err
    assert Path("ragkit.yaml").read_text() == "extends: default\n"


def test_global_flags_work_before_and_after_the_verb(indexed: Path, ragkit: Ragkit) -> None:
    ragkit("index", "house", "--kb", "other", "-q")
    assert ragkit("--kb", "other", "status", "--json").json["kb"] == "other"
    assert ragkit("status", "--kb", "other", "--json").json["kb"] == "other"


def test_doctor_passes_on_a_working_installation(indexed: Path, ragkit: Ragkit) -> None:
    checks = ragkit("doctor", "--json").json["checks"]
    assert {check["name"] for check in checks} >= {"ragkit", "sqlite", "embedder minilm", "knowledge base"}
    assert all(check["ok"] for check in checks)


def test_doctor_lists_extras_that_are_not_installed_in_one_line(
    workplace: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ragkit.cli.commands.doctor._is_installed", lambda package: package == "mcp" or "faiss" in package
    )
    lines = ragkit("doctor").out.splitlines()
    extras = [line for line in lines if "extras " in line]
    assert extras[0].startswith("ok   extras installed: ") and "faiss" in extras[0]
    assert extras[1].startswith("ok   extras not installed: ")
    assert extras[1].endswith("  -> pip install 'ragkit-kb[NAME]'")
    assert len(extras) == 2
    assert len([c for c in ragkit("doctor", "--json").json["checks"] if c["name"].startswith("extra ")]) > 10


@pytest.mark.parametrize(
    ("name", "record"), [("ragkit", ""), ("other_rag", "other.py,,\nragkit/__init__.py,sha256=x,1\n")]
)
def test_doctor_reports_another_distribution_with_this_package(
    workplace: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch, name: str, record: str
) -> None:
    info = workplace / "site" / f"{name}-0.4.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.4\n")
    (info / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(str(info.parent))
    name = name.replace("_", "-")
    line = next(line for line in ragkit("doctor", code=1).out.splitlines() if line.startswith("FAIL"))
    assert line == (
        f"FAIL distribution: {name} also provides the package `ragkit` and can shadow ragkit-kb"
        f"  -> pip uninstall -y {name} && pip install --force-reinstall ragkit-kb"
    )


def test_ragkit_without_a_command_prints_the_help(workplace: Path, ragkit: Ragkit) -> None:
    assert ragkit().out == ragkit("--help").out


def test_help_lists_every_verb(workplace: Path, ragkit: Ragkit) -> None:
    text = ragkit("--help").out
    assert [line.split()[0] for line in text.split("Commands:\n")[1].splitlines() if line.strip()] == list(COMMANDS)
    for verb in COMMANDS:
        assert ragkit(verb, "--help").out.startswith("Usage: ragkit " + verb)


def test_help_takes_less_than_a_quarter_of_a_second_of_cpu() -> None:
    command = [sys.executable, "-m", "ragkit", "--help"]
    times = []
    for _ in range(5):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(times) < 0.25


def test_importing_ragkit_and_asking_for_help_import_no_vendor_package() -> None:
    code = (
        "import sys, json, ragkit\n"
        "try: ragkit.cli\n"
        "except AttributeError: pass\n"
        "from ragkit.cli import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    loaded = set(json.loads(result.splitlines()[-1]))
    heavy = {"numpy", "onnxruntime", "tokenizers", "lxml", "pydantic", "docx", "openpyxl", "pypdfium2", "ruamel",
             "rich", "torch", "openai", "anthropic", "chromadb", "duckdb", "faiss", "genai_prices"}  # fmt: skip
    assert loaded & heavy == set()


def test_an_interrupted_run_exits_with_130_and_keeps_completed_work(house: Path, ragkit: Ragkit) -> None:
    for number in range(700):
        words = (f"word{number * step % 7919}" for step in range(1, 12))
        (house / f"note{number}.txt").write_text(" ".join(words))
    process = start("index", "house", "-q", cwd=Path())
    vectors = Path(".ragkit/vectors-1.f32")
    deadline = time.monotonic() + 60
    while (not vectors.exists() or vectors.stat().st_size < 100_000) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(2)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.lstrip()) == (130, "interrupted; completed work is kept\n")
    written = (vectors.stat().st_size - 64) // (384 * 4)
    again = ragkit("index", "house", "--json").json["embedded"]
    total = ragkit("status", "--json").json["vectors"]
    assert written > 0
    assert total - written <= again <= total - written + 256  # one batch may be written but not yet recorded
    assert ragkit("verify").out.endswith("sound\n")


def test_a_short_command_imports_what_it_needs_and_collects_no_garbage(tmp_path: Path) -> None:
    (tmp_path / "mill.md").write_text("# Mill\n\nThe mill was built in 1790 by the carpenter Ada Quill.\n")
    code = (
        "import atexit, gc, sys\n"
        "from ragkit.cli import main\n"
        "threshold, collected = gc.get_threshold(), []\n"
        "gc.callbacks.append(lambda phase, info: collected.append(phase))\n"
        "def report():\n"
        "    loaded = {'ragkit.answer.support.support', 'ragkit.load.options'} & set(sys.modules)\n"
        "    print(len(collected), gc.get_threshold() == threshold, gc.get_freeze_count() > 0, len(loaded))\n"
        "atexit.register(report)\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
    )
    environment = {**os.environ, "RAGKIT_KB": str(tmp_path / "kb")}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout

    run("index", "mill.md", "--pipeline", "fast", "-q")
    output = run("ask", "Who built the mill?", "--model", "extractive", "-q")
    assert "Ada Quill" in output
    collections, *rest = output.splitlines()[-1].split()
    assert int(collections) <= 40  # each has a start and an end; with the default threshold, there are hundreds
    assert rest == ["True", "True", "0"]


def test_an_interrupt_within_a_lock_of_python_is_an_interrupt(
    house: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        condition = threading.Condition(threading.Lock())
        with condition:
            monkeypatch.setattr(condition, "_acquire_restore", lambda state: signal.raise_signal(signal.SIGINT))
            condition.wait(0.001)

    monkeypatch.setattr(KnowledgeBase, "index", interrupted)
    result = ragkit("index", house, code=130)
    assert result.err == "interrupted; completed work is kept\n"
    monkeypatch.setattr(KnowledgeBase, "index", lambda *_, **options: threading.Lock().release())
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        ragkit("index", house)


@pytest.mark.parametrize(
    ("old", "new"), [(("rm", "nothing"), "remove"), (("why", "x", "--expect", "nothing"), "explain")]
)
def test_old_names_of_commands_work_and_print_the_new_ones(
    house: Path, ragkit: Ragkit, old: tuple[str, ...], new: str
) -> None:
    ragkit("index", "house", "-q")
    result, today = ragkit(*old, code=1), ragkit(new, *old[1:], code=1)
    assert result.out == today.out
    assert result.err == f"note: `ragkit {old[0]}` is now `ragkit {new}`\n{today.err}"


def test_old_names_of_options_work_and_print_the_new_ones(house: Path, ragkit: Ragkit) -> None:
    ragkit("index", "house", "-q")
    result = ragkit("eval", "--auto", "1", "--write=q.jsonl", "--retrieval-only", "--depth", "3")
    assert Path("q.jsonl").exists()
    assert "ndcg@3" in result.out
    assert result.err.startswith("note: `--write` is now `--save`\nnote: `--depth` is now `--top-k`\n")
    assert "No such option '--write'" in ragkit("usage", "--write", "x", code=2).err
    assert "is now" not in ragkit("search", "--", "--write").err


@pytest.mark.parametrize(
    ("arguments", "closest"),
    [
        (("status", "--set", "a=b"), None),
        (("ask", "Who?", "--set", "a=b"), None),
        (("list", "--all"), None),
        (("pipeline", "show", "--all"), None),
        (("serve", "--quite"), "--quiet"),
        (("search", "Who?", "--topk", "3"), "--top-k"),
        (("--no-colour", "status"), "--no-color"),
    ],
)
def test_only_an_option_that_is_close_without_its_dashes_is_suggested(
    ragkit: Ragkit, arguments: tuple[str, ...], closest: str | None
) -> None:
    message = ragkit(*arguments, code=2).err
    assert "No such option" in message
    assert ("Did you mean" in message) == (closest is not None)
    if closest:
        assert f"Did you mean '{closest}'?" in message
