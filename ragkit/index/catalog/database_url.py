"""The address of a knowledge base in a database: `postgresql://user@host/database?schema=manuals`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from ragkit.errors import InvalidOption
from ragkit.masking import HIDDEN, mask_passwords, register_secret

DEFAULT_SCHEMA = "ragkit"
"""The schema of a knowledge base whose address names none."""
DEFAULT_WAIT_SECONDS = 120.0
"""How long a writer waits for another one, if the address does not say."""
DEFAULT_LEASE_SECONDS = 15.0
"""A writer that has not reported for so long has died, if the address does not say otherwise."""
DEFAULT_STATEMENT_SECONDS = 30.0
"""How long a statement may take, if the address does not say. Publications and indexes take as long as they need."""
DEFAULT_LOCK_SECONDS = 20.0
"""How long a statement waits for the locks of others, if the address does not say."""
CACHE_VARIABLE = "RAGKIT_CACHE"
"""Environment variable with the folder of all caches."""
_SCHEMES = ("postgresql", "postgres")
_SCHEMA_NAME = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,62}")
_SECONDS = "seconds, from 0 to 86400"
_EXAMPLE = "like postgresql://user@host:5432/database?schema=manuals"


def is_database_url(place: object) -> bool:
    """Whether the place of a knowledge base is the address of a database, and not a directory."""
    return isinstance(place, str) and place.partition("://")[0].lower() in _SCHEMES and "://" in place


@dataclass(frozen=True)
class DatabaseUrl:
    """A parsed address. As text, it is shown without its password."""

    dsn: str = field(repr=False)
    """What the client of PostgreSQL gets, with the password if the address has one."""
    schema: str
    """The schema with the tables of this knowledge base."""
    wait_seconds: float
    """How long a writer waits for another one."""
    lease_seconds: float
    """How long a writer may be silent before another one takes over."""
    address: str = field(repr=False)
    """The address as it was given, with its password."""
    max_copy_gb: float = math.inf
    """A larger copy leaves the vectors in the database, which then searches them."""
    statement_seconds: float = DEFAULT_STATEMENT_SECONDS
    """How long a statement may take; a connection that has not answered some seconds later is closed."""
    lock_seconds: float = DEFAULT_LOCK_SECONDS
    """How long a statement waits for locks."""

    @classmethod
    def parse(cls, text: str) -> DatabaseUrl:
        """Parse an address.

        Its options `schema`, `wait`, `lease`, `statement_timeout`, `lock_timeout` (s) and `max_gb` are ours; others are
        those of PostgreSQL's client, as `connect_timeout`.

        Raises:
            InvalidOption: it is not an address of PostgreSQL, or an option is invalid.
        """
        try:
            parts = urlsplit(text)
            password = parts.password
        except ValueError as error:
            raise InvalidOption("kb", mask_passwords(text), _EXAMPLE) from error
        for secret in {password or "", unquote(password or "")}:
            register_secret(secret)
        options = dict(_parse_query(parts.query))
        register_secret(options.get("password", ""))
        schema = options.pop("schema", DEFAULT_SCHEMA)
        if not _SCHEMA_NAME.fullmatch(schema):
            raise InvalidOption("schema", schema, "a name of up to 63 ASCII letters, digits and _, without `pg_` first")
        wait = _read_number("wait", options.pop("wait", ""), DEFAULT_WAIT_SECONDS, _SECONDS, 86_400)
        lease = _read_number("lease", options.pop("lease", ""), DEFAULT_LEASE_SECONDS, _SECONDS, 86_400)
        max_gb = _read_number("max_gb", options.pop("max_gb", ""), math.inf, "GB, from 0 to 1000000", 1_000_000)
        statement = _read_number(
            "statement_timeout", options.pop("statement_timeout", ""), DEFAULT_STATEMENT_SECONDS, _SECONDS, 86_400
        )
        lock = _read_number("lock_timeout", options.pop("lock_timeout", ""), DEFAULT_LOCK_SECONDS, _SECONDS, 86_400)
        query = f"?{urlencode(options, quote_via=quote)}" if options else ""
        dsn = f"postgresql://{parts.netloc}{parts.path}{query}"
        return cls(dsn, schema, wait, max(lease, 1.0), text, max_gb, max(statement, 1.0), max(lock, 0.1))

    def __str__(self) -> str:
        parts = urlsplit(self.dsn)
        options = {name: value for name, value in _parse_query(parts.query) if name != "password"}
        user, at, host = parts.netloc.rpartition("@")
        name, colon, password = user.partition(":")
        shown = f"{name}:{HIDDEN}{at}{host}" if colon and password else f"{name}{at}{host}"
        query = urlencode({**options, "schema": self.schema}, safe="/", quote_via=quote)
        return f"postgresql://{shown}{parts.path}?{query}"

    @property
    def cache_directory(self) -> Path:
        """The directory of the local copy."""
        name = f"{Path(urlsplit(self.dsn).path).name or 'postgres'}-{self.schema}"
        bound = "" if math.isinf(self.max_copy_gb) else f" {self.max_copy_gb:g} GB"
        digest = blake2b(f"{self}{bound}".encode(), digest_size=8).hexdigest()
        return _cache_folder(os.environ) / f"{re.sub('[^A-Za-z0-9_.-]', '_', name)}-{digest}"


def _read_number(name: str, text: str, default: float, allowed: str, maximum: float) -> float:
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= maximum:
        raise InvalidOption(name, text, allowed)
    return number


def _cache_folder(environ: Mapping[str, str]) -> Path:
    """The folder of all caches. By the XDG specification a relative XDG_CACHE_HOME is ignored."""
    if environ.get(CACHE_VARIABLE):
        return Path(environ[CACHE_VARIABLE]).absolute()
    path = Path(environ.get("XDG_CACHE_HOME", ""))
    home = path if path.is_absolute() else Path(environ.get("HOME") or Path.home()) / ".cache"
    return home / "ragkit"


def _parse_query(query: str) -> list[tuple[str, str]]:
    """The options of an address. As in PostgreSQL's client, a `+` is a plus, and a space is `%20`."""
    return parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
