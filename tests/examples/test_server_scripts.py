"""The scripts in examples/server/ start a server and find it as they expect."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit.cli.commands.serve import command

SCRIPTS = Path(__file__).parents[2] / "examples" / "server"
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """The environment of the scripts, without settings, with `ragkit` of this environment first."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAGKIT_")}
    return {**own, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def url(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that `start.sh` started with the settings of `.env`."""
    folder = tmp_path_factory.mktemp("served") / "server"
    shutil.copytree(SCRIPTS, folder)
    (folder / "docs").mkdir()
    (folder / "docs" / "shed.md").write_text("# Shed\n\nThe saw hangs on a nail.\n", "utf-8")
    settings = (SCRIPTS / ".env.example").read_text("utf-8").replace("8321", "0")
    (folder / ".env").write_text(f"{settings}\nRAGKIT_SERVER_TOKEN={TOKEN}\n", "utf-8")
    process = subprocess.Popen(
        ["sh", str(folder / "start.sh")], env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    line = next(line for line in process.stderr if line.startswith("serving "))
    yield line.split(" at ")[1].split()[0]
    process.terminate()
    process.communicate(timeout=30)


@pytest.mark.parametrize("name", ["test_agent.sh", "test_chat_endpoint.sh"])
def test_a_script_finds_everything_as_expected(name: str, url: str, environment: dict[str, str]) -> None:
    own = {**environment, "RAGKIT_URL": url, "RAGKIT_SERVER_TOKEN": TOKEN}
    result = subprocess.run(["sh", str(SCRIPTS / name)], env=own, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    checks = (SCRIPTS / name).read_text("utf-8").count("check ")
    assert result.stdout.count("ok      ") >= checks


def test_a_script_fails_without_the_token(url: str, environment: dict[str, str]) -> None:
    own = {**environment, "RAGKIT_URL": url}
    script = ["sh", "-e", str(SCRIPTS / "test_agent.sh")]
    result = subprocess.run(script, env=own, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert TOKEN not in result.stdout + result.stderr


def test_start_passes_options_that_exist() -> None:
    known = {name for parameter in command.params for name in parameter.opts}
    given = {word for word in (SCRIPTS / "start.sh").read_text("utf-8").split() if word.startswith("--")}
    assert {word.strip('"') for word in given} <= known
