"""Parsing in worker processes: no file can hang or crash an index run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ragkit.errors import InvalidOption, LoadError, LoadLimitExceeded, RagkitError, UnknownName, UnsupportedFormat
from ragkit.load.files.file_io import FileStat, hash_content
from ragkit.load.options import TextOptions
from ragkit.load.process.ipc import InvalidFrame, decode_json, decode_result, encode_frame, encode_result
from ragkit.load.process.parse_pool import GROUP_FILES, MAX_PENDING_PER_PROCESS, ParsePool
from ragkit.load.process.parsing import MemoryLimitExceeded, ParsedFile, ParseFailure, ParseLimits, ParseTask
from ragkit.load.router import LoaderRoute
from tests.load import sample_files

TIGHT = ParseLimits(timeout_s=1.5, max_memory_mb=600, max_text_mb=1)
PROJECT = str(Path(__file__).parents[3])


def tasks(folder: Path, contents: Sequence[str | bytes], suffix: str = ".txt") -> list[ParseTask]:
    result = []
    for number, content in enumerate(contents):
        path = folder / f"{number:04}{suffix}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        result.append(ParseTask(path, str(path), FileStat.from_stat(path.stat())))
    return result


def text_or_reason(outcome: ParsedFile | ParseFailure) -> str:
    return outcome.document.text if isinstance(outcome, ParsedFile) else outcome.error.reason


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sequence[LoaderRoute]:
    """The loader of `hostile_plugin.py`, installed as a plugin, for files with the suffix `.bad`."""
    dist_info = tmp_path / "site" / "hostile-1.dist-info"
    dist_info.mkdir(parents=True)
    (dist_info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 1\n")
    (dist_info / "entry_points.txt").write_text("[ragkit.loaders]\nhostile = tests.load.hostile_plugin:HostileLoader\n")
    monkeypatch.syspath_prepend(PROJECT)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return [LoaderRoute("hostile", suffixes=(".bad",))]


SENDS_FRAMES_AT_ONCE = """
import sys
from ragkit.load.files.file_io import FileStat
from ragkit.load.process.ipc import WORKING, encode_frame, encode_result, read_request
from ragkit.load.process.parsing import ParsedFile
from ragkit.records import Document
requests, replies = sys.stdin.buffer, sys.stdout.buffer
read_request(requests)
replies.write(encode_frame({"ready": True}))
replies.flush()
while (tasks := read_request(requests)) is not None:
    for task in tasks:
        text = task.path.read_text()
        result = encode_result(ParsedFile(task, Document(text), "hash", task.stat, "text"), last=False)
        replies.write(encode_frame(WORKING) * 3 + result[:20])
        replies.flush()
        replies.write(result[20:])
        replies.flush()
"""


def test_frames_that_arrive_together_or_in_pieces_are_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
    monkeypatch.setattr("ragkit.load.process.parse_pool._STARTUP_CODE", path + SENDS_FRAMES_AT_ONCE)
    texts = [f"text {number} " * number * 1000 for number in range(1, 20)]  # up to three reads
    with ParsePool(1) as pool:
        assert [text_or_reason(outcome) for outcome in pool.parse(tasks(tmp_path, texts))] == texts


@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_results_come_in_the_order_of_tasks(tmp_path: Path, jobs: int) -> None:
    parse_tasks = tasks(tmp_path, [f"text {n}" for n in range(50)])
    with ParsePool(jobs) as pool:
        assert [text_or_reason(outcome) for outcome in pool.parse(parse_tasks)] == [f"text {n}" for n in range(50)]
        assert [text_or_reason(outcome) for outcome in pool.parse_group(parse_tasks[7:9])] == ["text 7", "text 8"]


def test_results_are_equal_with_and_without_processes(tmp_path: Path) -> None:
    parse_tasks = [
        *tasks(tmp_path, ["---\ntags: [a, b]\nyear: 2024\n---\n# Größe \U0001f600\nx"], ".md"),
        *tasks(tmp_path, [sample_files.pdf([["one"], ["two"]], title="Title", outline=[("two", 0, 1)])], ".pdf"),
        *tasks(tmp_path, [sample_files.word()], ".docx"),
        *tasks(tmp_path, ["<title>T</title><h1>x</h1>"], ".html"),
        *tasks(tmp_path, ["class A: pass"], ".py"),
        *tasks(tmp_path, [b"\x89PNG\r\n\x1a\n", "", b"caf\xe9"], ".txt"),
        ParseTask(tmp_path / "gone.txt", "gone"),
    ]
    with ParsePool(0) as inline_pool, ParsePool(1) as process_pool:
        inline_outcomes, process_outcomes = list(inline_pool.parse(parse_tasks)), list(process_pool.parse(parse_tasks))
    assert [outcome for outcome in inline_outcomes if isinstance(outcome, ParsedFile)] == [
        outcome for outcome in process_outcomes if isinstance(outcome, ParsedFile)
    ]
    failures = [
        [(o.task, type(o.error), str(o.error), o.content_hash, o.stat) for o in outcomes if isinstance(o, ParseFailure)]
        for outcomes in (inline_outcomes, process_outcomes)
    ]
    assert failures[0] == failures[1]
    assert [kind for _, kind, *_ in failures[0]] == [UnsupportedFormat, LoadError]


@pytest.mark.parametrize("jobs", [0, 1])
def test_a_result_has_hash_stat_and_loader(tmp_path: Path, jobs: int) -> None:
    [task] = tasks(tmp_path, ["# hello"], ".md")
    with ParsePool(jobs) as pool:
        [outcome] = pool.parse([task])
    assert isinstance(outcome, ParsedFile)
    assert (outcome.task, outcome.content_hash) == (task, hash_content(b"# hello"))
    assert (outcome.stat, outcome.loader, outcome.document.source) == (task.stat, "markdown", task.source)
    assert hash_content(b"") == "cae66941d9efbd404e4d88758ea67670"


@pytest.mark.parametrize("jobs", [0, 1])
def test_a_file_that_changed_since_the_scan_is_read_in_its_new_version(tmp_path: Path, jobs: int) -> None:
    [task] = tasks(tmp_path, ["old"])
    task.path.write_text("newer")
    with ParsePool(jobs) as pool:
        [outcome] = pool.parse([task])
    assert isinstance(outcome, ParsedFile)
    assert (outcome.document.text, outcome.stat) == ("newer", FileStat.from_stat(task.path.stat()))


@pytest.mark.parametrize("name", ["caf\udce9.txt", "a\nb.txt", "-rf", "quote'\".txt"])
def test_strange_names_reach_the_process(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("here")
    with ParsePool(1) as pool:
        [outcome] = pool.parse([ParseTask(path, str(path))])
    assert isinstance(outcome, ParsedFile)
    assert (outcome.document.text, outcome.document.source) == ("here", str(path))


def test_a_relative_path_is_relative_to_the_working_directory_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    with ParsePool(1) as pool:
        for name in ("one", "two"):
            monkeypatch.chdir(tmp_path / name)
            assert [text_or_reason(outcome) for outcome in pool.parse([ParseTask(Path("a.txt"), "a")])] == [name]


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("behavior", "kind", "reason"),
    [
        ("spin", LoadLimitExceeded, "timed out after 1.5 seconds"),
        ("sleep", LoadLimitExceeded, "timed out after 1.5 seconds"),
        ("sleep in c", LoadLimitExceeded, "timed out after 1.5 seconds"),
        ("crash", LoadError, "the parser crashed (SIGSEGV)"),
        ("kill", LoadLimitExceeded, "the parser was killed by the system, probably out of memory"),
        ("exit", LoadError, "the parser exited without a result (exit code 3)"),
        ("exhaust memory", MemoryLimitExceeded, "needs more than 600 MB of memory"),
        ("recurse", LoadLimitExceeded, "nested too deeply"),
        ("divide", LoadError, "the parser failed (ZeroDivisionError: by a hostile file)"),
        ("long 1100000", LoadLimitExceeded, "the text is longer than 1 million characters"),
        ("nonsense", LoadError, "the parser returned an invalid result"),
    ],
)
def test_a_malicious_file_fails_alone(
    tmp_path: Path, plugin: Sequence[LoaderRoute], behavior: str, kind: type[LoadError], reason: str
) -> None:
    before, after = tasks(tmp_path, ["before", "after"])
    (tmp_path / "x.bad").write_text(behavior)
    with ParsePool(1, TIGHT, plugin) as pool:
        outcomes = list(pool.parse([before, ParseTask(tmp_path / "x.bad", "/x.bad"), after]))
    assert [text_or_reason(outcome) for outcome in outcomes] == ["before", reason, "after"]
    assert isinstance(outcomes[1], ParseFailure)
    assert type(outcomes[1].error) is kind
    assert outcomes[1].error.source == "/x.bad"


def test_many_malicious_files_do_not_affect_other_files(tmp_path: Path, plugin: Sequence[LoaderRoute]) -> None:
    good = tasks(tmp_path, [f"good {n}" for n in range(20)])
    bad = tasks(tmp_path, ["crash", "exit", "divide", "kill", "spin"], ".bad")
    mixed = [*good[:5], bad[0], bad[1], *good[5:10], bad[2], *good[10:15], bad[3], bad[4], *good[15:]]
    with ParsePool(2, TIGHT, plugin) as pool:
        outcomes = list(pool.parse(mixed))
    assert [text_or_reason(outcome) for outcome in outcomes if isinstance(outcome, ParsedFile)] == [
        f"good {n}" for n in range(20)
    ]
    assert [outcome.task for outcome in outcomes if isinstance(outcome, ParseFailure)] == bad


def test_output_of_a_parser_is_ignored(
    tmp_path: Path, plugin: Sequence[LoaderRoute], capfd: pytest.CaptureFixture[str]
) -> None:
    with ParsePool(1, TIGHT, plugin) as pool:
        outcomes = list(pool.parse(tasks(tmp_path, ["chatter", "chatter"], ".bad")))
    assert [isinstance(outcome, ParsedFile) for outcome in outcomes] == [True, True]
    assert capfd.readouterr() == ("", "")


def test_a_process_is_reused_until_it_uses_too_much_memory(tmp_path: Path, plugin: Sequence[LoaderRoute]) -> None:
    behaviors = ["nothing", "nothing", "grow", "nothing"]
    with ParsePool(1, ParseLimits(max_memory_mb=600), plugin) as pool:
        pids = [
            text_or_reason(outcome).rpartition(" ")[2] for outcome in pool.parse(tasks(tmp_path, behaviors, ".bad"))
        ]
    assert pids[0] == pids[1] == pids[2] != pids[3]


def test_no_process_is_started_before_the_first_task_and_none_is_left_after(tmp_path: Path) -> None:
    current_process = psutil.Process()
    before = len(current_process.children())
    with ParsePool(2) as pool:
        assert list(pool.parse([])) == []
        assert len(current_process.children()) == before
        list(pool.parse(tasks(tmp_path, ["a", "b", "c"])))
        assert len(current_process.children()) > before
    assert len(current_process.children()) == before


def test_tasks_are_consumed_lazily(tmp_path: Path) -> None:
    consumed = []

    def source() -> Iterator[ParseTask]:
        for task in tasks(tmp_path, ["x"] * 300):
            consumed.append(task)
            yield task

    with ParsePool(2) as pool:
        results = pool.parse(source())
        next(results)
        # one more, which begins the next group
        assert len(consumed) == 2 * MAX_PENDING_PER_PROCESS * GROUP_FILES + 1
        for _ in range(GROUP_FILES):
            next(results)
        assert len(consumed) == (2 * MAX_PENDING_PER_PROCESS + 1) * GROUP_FILES + 1


@pytest.mark.rotating
@pytest.mark.parametrize("behavior", ["crash", "kill", "exit", "spin", "exhaust memory", "nonsense"])
def test_a_malicious_file_in_a_group_fails_alone(tmp_path: Path, plugin: Sequence[LoaderRoute], behavior: str) -> None:
    group = tasks(tmp_path, ["nothing", "nothing", behavior, "nothing", behavior, "nothing"], ".bad")
    with ParsePool(1, TIGHT, plugin) as pool:
        outcomes = list(pool.parse_group(group))
    assert [isinstance(outcome, ParseFailure) for outcome in outcomes] == [False, False, True, False, True, False]
    assert [outcome.task for outcome in outcomes] == group


def test_a_group_goes_on_in_another_process_when_one_uses_too_much_memory(
    tmp_path: Path, plugin: Sequence[LoaderRoute]
) -> None:
    group = tasks(tmp_path, ["nothing", "grow", "nothing", "nothing"], ".bad")
    with ParsePool(1, ParseLimits(max_memory_mb=600), plugin) as pool:
        pids = [text_or_reason(outcome).rpartition(" ")[2] for outcome in pool.parse_group(group)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_an_abandoned_group_leaves_a_usable_pool(tmp_path: Path, plugin: Sequence[LoaderRoute]) -> None:
    with ParsePool(1, ParseLimits(), plugin) as pool:
        next(pool.parse_group(tasks(tmp_path, ["nothing", "sleep"], ".bad")))
        [outcome] = pool.parse_group(tasks(tmp_path, ["after"]))
    assert text_or_reason(outcome) == "after"


def test_unused_results_can_be_abandoned(tmp_path: Path, plugin: Sequence[LoaderRoute]) -> None:
    started = time.monotonic()
    with ParsePool(1, ParseLimits(), plugin) as pool:
        results = pool.parse(tasks(tmp_path, ["nothing", "sleep", "sleep", "sleep", "sleep"], ".bad"))
        assert text_or_reason(next(results)).startswith("nothing")
    assert time.monotonic() - started < 10


def test_two_threads_can_share_a_pool(tmp_path: Path) -> None:
    texts: dict[int, list[str]] = {}
    with ParsePool(2) as pool:

        def run(number: int) -> None:
            folder = tmp_path / str(number)
            folder.mkdir()
            parse_tasks = tasks(folder, [f"{number}: {n}" for n in range(20)])
            texts[number] = [text_or_reason(outcome) for outcome in pool.parse(parse_tasks)]

        threads = [threading.Thread(target=run, args=(number,)) for number in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert texts == {number: [f"{number}: {n}" for n in range(20)] for number in (1, 2)}


def test_a_closed_pool_raises(tmp_path: Path) -> None:
    pool = ParsePool(1)
    pool.close()
    pool.close()
    with pytest.raises(RagkitError, match="the ParsePool is closed: create a new one"):
        list(pool.parse(tasks(tmp_path, ["x"])))
    with pytest.raises(RagkitError, match="the ParsePool is closed: create a new one"):
        list(pool.parse_group(tasks(tmp_path, ["x"])))


def test_routes_and_their_options_reach_the_process(tmp_path: Path) -> None:
    routes = [LoaderRoute("text", TextOptions(encoding="cp1250")), LoaderRoute("csv", suffixes=(".dat",))]
    parse_tasks = [*tasks(tmp_path, ["Zażółć".encode("cp1250")]), *tasks(tmp_path, ["a,b\n1,2\n"], ".dat")]
    with ParsePool(1, routes=routes) as pool:
        assert [text_or_reason(outcome) for outcome in pool.parse(parse_tasks)] == ["Zażółć", "a: 1; b: 2"]


@pytest.mark.parametrize("name", ["timeout_s", "max_memory_mb", "max_text_mb", "max_file_mb"])
def test_a_limit_of_zero_is_rejected(name: str) -> None:
    with pytest.raises(InvalidOption, match=rf"{name} must be > 0 \(got 0\)"):
        replace(ParseLimits(), **{name: 0})  # type: ignore[arg-type]


def test_a_negative_number_of_jobs_or_an_unknown_loader_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"jobs must be >= 0 \(got -1\)"):
        ParsePool(-1)
    with pytest.raises(UnknownName, match="unknown loader 'pfd'"):
        ParsePool(1, routes=[LoaderRoute("pfd")])


SCRIPT = """
import sys, os
from dataclasses import replace
from pathlib import Path
from ragkit.load.process.parsing import ParseLimits, ParseTask
from ragkit.load.router import LoaderRoute
from ragkit.load.process.parse_pool import ParsePool
import psutil
pool = ParsePool(1, ParseLimits(), [LoaderRoute("hostile", suffixes=(".bad",))])
with pool:
    results = pool.parse([ParseTask(Path(name), name) for name in sys.argv[1:]])
    print(next(results).document.text, flush=True)
    print(*[child.pid for child in psutil.Process().children()], flush=True)
    next(results)
"""


def script(tmp_path: Path, *behaviors: str) -> subprocess.Popen[str]:
    """Start a script without an `if __name__` guard, in a folder with a json.py that must not be imported."""
    names = [str(task.path) for task in tasks(tmp_path, behaviors, ".bad")]
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "run.py").write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(tmp_path / "script" / "run.py"), *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{PROJECT}"},
        start_new_session=True,
    )


@pytest.mark.usefixtures("plugin")
def test_a_script_without_a_guard_can_use_a_pool(tmp_path: Path) -> None:
    with script(tmp_path, "nothing", "nothing") as process:
        out, errors = process.communicate(timeout=30)
    assert errors == ""
    assert out.startswith("nothing by ")
    assert process.returncode == 0


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("behavior", ["sleep in c", "spin"])
@pytest.mark.parametrize("sent_signal", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_their_parent(tmp_path: Path, behavior: str, sent_signal: signal.Signals) -> None:
    with script(tmp_path, "nothing", behavior) as process:
        assert process.stdout is not None
        process.stdout.readline()
        [child] = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        time.sleep(0.2)
        process.send_signal(sent_signal)
        started = time.monotonic()
        process.wait(timeout=10)
        while is_alive(child) and time.monotonic() - started < 5:
            time.sleep(0.02)
        assert not is_alive(child)
        assert process.returncode != 0


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs; a zombie does not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_process_that_cannot_start_is_an_error_with_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "json.py").write_text("raise RuntimeError('this json is broken')")
    parse_tasks = tasks(tmp_path, ["x"])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "bad"))
    with (
        pytest.raises(RagkitError, match=r"cannot start \(RuntimeError: this json is broken\): run `ragkit doctor`"),
        ParsePool(1) as pool,
    ):
        list(pool.parse(parse_tasks))


def test_secrets_are_not_passed_to_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("RAGKIT_PLAIN", "kept")
    with ParsePool(1) as pool:
        list(pool.parse(tasks(tmp_path, ["x"])))
        # servers of other tests are children too
        [child] = [
            process
            for process in psutil.Process().children()
            if "ragkit.load.process.parse_worker" in " ".join(process.cmdline())
        ]
        environment = child.environ()
    assert environment["RAGKIT_PLAIN"] == "kept"
    assert "sk-canary" not in environment.values()


def test_a_process_starts_quickly(tmp_path: Path) -> None:
    started = time.monotonic()
    with ParsePool(1) as pool:
        list(pool.parse(tasks(tmp_path, ["x"])))
    assert time.monotonic() - started < 5


PARSED_HEAD = {
    "hash": "h",
    "stat": [1, 2, 3, 4],
    "last": False,
    "loader": "text",
    "title": "",
    "pages": [],
    "headings": [],
    "metadata": {},
    "format": "text",
    "language": "",
}


@pytest.mark.parametrize(
    "change",
    [
        {"hash": 1},
        {"stat": [1]},
        {"stat": None},
        {"stat": ["1", 2, 3, 4]},
        {"pages": [9]},
        {"pages": [-1]},
        {"pages": "0"},
        {"headings": [[0, 1]]},
        {"headings": [[0, "1", "x"]]},
        {"metadata": []},
        {"title": None},
        {"error": ["SystemExit", "reason", "hint"]},
        {"error": ["LoadError"]},
    ],
)
def test_an_invalid_result_is_rejected(change: dict[str, object]) -> None:
    with pytest.raises(InvalidFrame):
        decode_result(decode_json(encode_frame({**PARSED_HEAD, **change})[12:]), b"abc", ParseTask(Path("/x"), "/x"))  # type: ignore[dict-item]


@pytest.mark.parametrize("frame", [b"", b"{", b"[]", b"[" * 100_000, b"\xff"])
def test_a_result_that_is_not_a_json_object_is_rejected(frame: bytes) -> None:
    with pytest.raises(InvalidFrame):
        decode_json(frame)


def test_an_unknown_subclass_of_load_error_is_sent_as_load_error() -> None:
    class Odd(LoadError):
        """A subclass that the parent does not know."""

    task = ParseTask(Path("/x"), "/x")
    frame = encode_result(ParseFailure(task, Odd("/x", "odd", "hint")), last=True)
    outcome, last = decode_result(decode_json(frame[12:]), b"", task)
    assert isinstance(outcome, ParseFailure)
    assert (type(outcome.error), str(outcome.error), last) == (LoadError, "/x: odd: hint", True)
