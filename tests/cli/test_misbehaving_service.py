"""`ragkit ask` and `ragkit chat` with a service that misbehaves: an outcome, an exit code and a line for each."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ragkit.agent.loop.config import RetryPolicy
from ragkit.agent.loop.run_state import RunState
from ragkit.answer.outcome import NOTICES, Outcome
from ragkit.errors import ProviderError
from ragkit.knowledge_base.answering import LOCAL_TIMEOUT_S
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from tests.cli.conftest import HASHING, Ragkit
from tests.cli.misbehaving import ANSWERED, GOOD, PAGE, SCENARIOS, SEARCH, MisbehavingWire, Scenario, say, table
from tests.wire.server import Fault, RecordedRequest, Turn, WireServer

QUESTION = "When is the hedge cut?"
MODEL = ("--model", "openai:gpt-4o-mini")
TIMEOUT_S = 0.5


class RepeatingServer(WireServer):
    """Repeats the last entry of its script."""

    def next(self, seen: RecordedRequest) -> Turn | Fault:
        while len(self.script) <= len(self.seen):
            self.script.append(self.script[-1])
        return super().next(seen)


class SwitchingServer(RepeatingServer):
    """Misbehaves until `answers` is set, and then searches and answers."""

    answers = False

    def next(self, seen: RecordedRequest) -> Turn | Fault:
        if not self.answers:
            return super().next(seen)
        self.seen.append(seen)
        return GOOD if seen.body["messages"][-1]["role"] == "tool" else SEARCH


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a folder, its knowledge base and a pipeline file."""
    place = tmp_path_factory.mktemp("house")
    (place / "ragkit.yaml").write_text(HASHING)
    (place / "house").mkdir()
    (place / "house" / "garden.txt").write_text("The hedge is cut in August. The roses are cut back in March.\n")
    (place / "house" / "keys.txt").write_text("The key of the cellar hangs on hook fifteen.\n")
    with KnowledgeBase.open(place / ".ragkit", place / "ragkit.yaml") as kb:
        kb.index(place / "house")
    return place


@pytest.fixture
def house(indexed: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory, as the working directory; requests are repeated at once."""
    monkeypatch.chdir(indexed)
    wait = RetryPolicy.next_wait_s

    def next_wait_s(self: RetryPolicy, attempt: int, error: ProviderError) -> float | None:
        return None if wait(self, attempt, error) is None else 0.0

    monkeypatch.setattr(RetryPolicy, "next_wait_s", next_wait_s)
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    return indexed


def time_out_soon(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that are never answered time out soon; the others have all the time that a busy machine needs."""
    if any(isinstance(entry, Fault) and entry.first_byte_after_s for entry in scenario.script):
        timeout = RunState.cap_timeout
        monkeypatch.setattr(
            RunState, "cap_timeout", lambda run, s: timeout(run, TIMEOUT_S if s == LOCAL_TIMEOUT_S else s)
        )


@pytest.fixture
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[RepeatingServer]:
    """The service of a scenario."""
    scenario: Scenario = request.param
    time_out_soon(scenario, monkeypatch)
    server = RepeatingServer(MisbehavingWire(scenario.stream_type), scenario.script)
    with server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield server


CASES = [pytest.param(scenario, scenario, id=scenario.name) for scenario in SCENARIOS]


@pytest.mark.rotating
@pytest.mark.parametrize(("service", "scenario"), CASES, indirect=["service"])
def test_every_misbehaviour_has_an_outcome_an_exit_code_and_a_line(
    house: Path, service: RepeatingServer, scenario: Scenario, ragkit: Ragkit
) -> None:
    # whole: at this address, the service would be taken for a small model that reads extracts
    Path("search.yaml").write_text(f"{HASHING}answer: {{search: {scenario.search}, passages: whole}}\n")
    arguments = ("ask", QUESTION, *MODEL, "--config", "search.yaml")
    shown = ragkit(*arguments, code=scenario.code)
    service.seen.clear()
    strict = ragkit(*arguments, "--strict", "--json", code=scenario.strict)
    assert scenario.words in shown.out + shown.err
    assert "Traceback" not in shown.err + strict.err
    assert scenario.never not in shown.out + strict.out
    if scenario.outcome:
        answer = json.loads(strict.out)
        assert answer["outcome"] == scenario.outcome
        assert bool(answer["unsupported_reasons"]) == (scenario.strict == 6)
        assert ("not supported by the documents: " in strict.err) == (scenario.strict == 6)
    else:
        assert len(shown.err.strip().splitlines()) == 1


FAILING = [
    scenario for scenario in SCENARIOS if scenario.code and scenario.name not in ("401", "403", "404, no such model")
]


@pytest.mark.parametrize("scenario", FAILING, ids=lambda scenario: scenario.name)
def test_a_conversation_goes_on_after_an_error_of_the_service(
    house: Path, scenario: Scenario, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_out_soon(scenario, monkeypatch)
    # every request fails until the first question is given up
    script = [entry for entry in scenario.script if entry is not SEARCH]
    server = SwitchingServer(MisbehavingWire(scenario.stream_type), script)
    with server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        questions = iter([QUESTION, QUESTION])

        def readline() -> str:
            question = next(questions, "")
            server.answers = question != "" and len(server.seen) > 0
            return question

        monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False, readline=readline))
        shown = ragkit("chat", *MODEL, code=1)
    assert ANSWERED in shown.out
    assert scenario.words in shown.err
    assert "ask again, or something else" in shown.err


def test_a_strict_conversation_goes_on_and_fails_at_its_end(
    house: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RepeatingServer(MisbehavingWire(), [SEARCH, say("Yes."), SEARCH, GOOD]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{QUESTION}\n{QUESTION}\n"))
        shown = ragkit("chat", *MODEL, "--strict", code=6)
    assert ANSWERED in shown.out
    assert shown.err.count("not supported by the documents: the answer cites no passage") == 1


def test_a_pipeline_can_be_strict(house: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("strict.yaml").write_text(f"{HASHING}answer: {{strict: true, search: model}}\n")
    with RepeatingServer(MisbehavingWire(), [GOOD]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        shown = ragkit("ask", QUESTION, *MODEL, "--config", "strict.yaml", code=6)
    assert "The hedge is cut in August." in shown.out
    assert "not supported by the documents: the model did not search the documents" in shown.err


def test_the_page_on_outcomes_lists_every_scenario_and_every_line() -> None:
    page = PAGE.read_text("utf-8")
    assert page.endswith(table()), "run python -m tests.cli.misbehaving"
    for outcome in Outcome:
        assert f"| `{outcome}` |" in page
        assert NOTICES.get(outcome, "").partition(" to answer")[0] in page
