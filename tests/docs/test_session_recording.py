"""The recorded session of the README: a file of asciinema that its script has made, of at most 90 seconds."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.record_session import COMMANDS, LIMIT_S

RECORDING = Path(__file__).parents[2] / "docs" / "assets" / "session.cast"


def test_the_recording_is_an_asciicast_of_the_commands_of_its_script() -> None:
    header, *events = map(json.loads, RECORDING.read_text("utf-8").splitlines())
    assert header["version"] == 2
    times = [at for at, kind, _ in events if kind == "o"]
    assert len(times) == len(events)
    assert times == sorted(times)
    assert times[-1] <= LIMIT_S
    shown = "".join(text for _, _, text in events)
    for command in COMMANDS:
        assert f"$ {command}\x1b[0m" in shown
    assert "The dewar holds 6.0 litres" in shown
    assert "Not in these documents" in shown
