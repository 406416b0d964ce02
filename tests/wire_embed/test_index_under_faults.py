"""5,000 chunks embedded by a service that rejects 10 % of the requests and cuts 1 %: no text is embedded twice.

The command line runs in a separate process, which is killed in the middle and restarted.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ragkit.answer.score_calibration import CALIBRATION_TEXTS
from ragkit.embed.base import PROBE_TEXT
from tests.wire_embed.dialects import EmbeddingRequest, tokens_of
from tests.wire_embed.server import Fault, WireServer

FILES, PARAGRAPHS = 100, 50
PIPELINE = """\
split: {name: recursive, chunk_size: 40, chunk_overlap: 0, unit: tokens}
embed: {name: openai, model: wire-model, dimensions: 32, batch_size: 8, concurrency: 4}
"""
WORDS = [f"{first}{second}" for first in ("ba", "lo", "mi", "su", "te") for second in ("ran", "der", "vik", "pol")]


def write_files(folder: Path) -> None:
    """Distinct paragraphs of about twenty words, one chunk each."""
    folder.mkdir()
    chance = random.Random(7)
    for number in range(FILES):
        paragraphs = [
            f"Entry {number} {place}. " + " ".join(chance.choices(WORDS, k=20)) + "." for place in range(PARAGRAPHS)
        ]
        (folder / f"file{number:03}.txt").write_text("\n\n".join(paragraphs))


def some_faults(number: int, request: EmbeddingRequest) -> Fault | None:
    """10 % are rejected, alternately with and without Retry-After; 1 % are cut, before or in the response."""
    if number % 10 == 3:
        return Fault("status", 429, "slow down", {"Retry-After": "0"} if number % 20 == 3 else {})
    if number % 100 == 50:
        return Fault("cut" if number % 200 == 50 else "half")
    return None


def ragkit(*arguments: str, folder: Path, server: WireServer) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAGKIT_")}
    environment |= {**server.environment, "XDG_CONFIG_HOME": str(folder / "none")}
    command = [sys.executable, "-m", "ragkit", *arguments, "--kb", "kb"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)


def output_json(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    results: dict[str, Any] = json.loads(out)
    return results


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    write_files(tmp_path / "docs")
    (tmp_path / "wire.yaml").write_text(PIPELINE)
    return tmp_path


def wait_for_silence(server: WireServer, process: subprocess.Popen[str]) -> None:
    """Wait until the server has stopped responding and its client had time to store the received vectors."""
    end = time.monotonic() + 120
    while not server.silent.is_set():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)
    time.sleep(1.5)


def assert_each_chunk_embedded_once(workplace: Path, server: WireServer, runs: int) -> None:
    """Every chunk and calibration text was embedded once, and the probe text once per run."""
    probes = server.answered.pop(("", PROBE_TEXT))
    assert probes == runs
    assert [server.answered.pop(("", text)) for text in CALIBRATION_TEXTS] == [1] * len(CALIBRATION_TEXTS)
    assert Counter(server.answered.values()) == {1: FILES * PARAGRAPHS}
    status = output_json(ragkit("status", "--json", folder=workplace, server=server))
    assert (status["chunks"], status["vectors"], status["failed"]) == (5000, 5000, 0)
    assert output_json(ragkit("verify", "--json", folder=workplace, server=server))["problems"] == []


@pytest.mark.slow
def test_every_chunk_is_embedded_once_although_requests_fail(workplace: Path) -> None:
    with WireServer("openai", some_faults).running() as server:
        report = output_json(
            ragkit("index", "docs", "--pipeline", "wire.yaml", "--json", folder=workplace, server=server)
        )
        assert (report["embedded"], report["chunks"]["added"]) == (5000, 5000)
        assert report["usage"]["embedding_tokens"] == server.tokens
        assert server.tokens == tokens_of([text for _, text in server.answered])
        assert len(server.requests) >= 5000 / 8 * 1.1
        assert_each_chunk_embedded_once(workplace, server, runs=1)


def test_a_killed_run_is_resumed(workplace: Path) -> None:
    with WireServer("openai", some_faults).running() as server:
        server.silent_after = 300
        first = ragkit("index", "docs", "--pipeline", "wire.yaml", "--json", folder=workplace, server=server)
        wait_for_silence(server, first)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        paid = sum(server.answered.values()) - 1
        assert 1500 < paid < 300 * 8
        server.silent_after = 0
        server.silent.clear()
        report = output_json(
            ragkit("index", "docs", "--pipeline", "wire.yaml", "--json", folder=workplace, server=server)
        )
        assert report["embedded"] == 5000 - paid
        assert_each_chunk_embedded_once(workplace, server, runs=2)
