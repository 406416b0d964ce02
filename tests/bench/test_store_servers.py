"""`benchmarks/store_servers.py`: servers of stores around a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "benchmarks.store_servers"]
ASK = """
import os, socket, sys
import psycopg
with psycopg.connect(os.environ["PGVECTOR_DSN"]) as connection:
    print(*connection.execute("SELECT current_setting('fsync')").fetchone())
    print(*connection.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'").fetchone())
socket.create_connection((os.environ["CHROMA_HOST"], int(os.environ["CHROMA_PORT"]))).close()
print(os.environ["PGVECTOR_DSN"], os.environ["CHROMA_PORT"])
sys.exit(7)
"""


def test_a_command_runs_with_servers_that_stop_with_it() -> None:
    command = [*PROGRAM, "--only", "postgres,chroma", sys.executable, "-c", ASK]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 7, result.stderr  # that of the command
    fsync, vector, addresses = result.stdout.splitlines()
    assert (fsync, vector) == ("on", "1")  # a server without durability would be measured too fast
    dsn, port = addresses.split()
    assert not Path(dsn.partition("host=")[2]).exists()
    probe = [sys.executable, "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}))"]
    assert subprocess.run(probe, capture_output=True, check=False).returncode == 1


def test_an_unknown_server_is_named() -> None:
    command = [*PROGRAM, "--only", "postgres,oracle", "true"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 2
    assert "unknown server 'oracle'; available: postgres, chroma, milvus" in result.stderr
