"""pgbouncer from the system, in front of a PostgreSQL of the tests: each transaction may get another session."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psycopg

from tests.servers.base import free_port

_SETTINGS = """
[databases]
postgres = host={host} dbname=postgres user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 200
"""


class PgBouncer:
    """A pooler for the server whose socket is in `host`. A context manager."""

    def __init__(self, host: Path, *, mode: str = "transaction", size: int = 1) -> None:
        self.port, self._host = free_port(), host
        self._scratch = tempfile.TemporaryDirectory(prefix="ragkit-pgbouncer-")
        self._settings = Path(self._scratch.name) / "pgbouncer.ini"
        self._settings.write_text(_SETTINGS.format(host=host, port=self.port, mode=mode, size=size))
        Path(self._scratch.name).chmod(0o755)
        self.dsn = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> PgBouncer:
        program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program, "pgbouncer is not installed: run `make test`, or apt-get install pgbouncer"
        user = ["-u", self._host.owner()] if os.getuid() == 0 else []  # it refuses to run as root
        command = [program, "-q", *user, str(self._settings)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.dsn).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._process.kill()
                    raise RuntimeError(f"pgbouncer does not start: {self._process.communicate()[1]!r}") from None
                time.sleep(0.05)
            else:
                return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.communicate()
        self._scratch.cleanup()
