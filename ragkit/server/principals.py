"""Who sends a request: a token or a signed header stands for a user, whose rights every read is held to.

Rights are looked up when they are needed, never kept: what is revoked is refused from that moment on, also in answers
and MCP sessions that have begun. Work without a request reads what everyone may read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeVar

from ragkit.index.access.rules import NOBODY, AccessSettings, Grants, Role, User, as_grants, read_signed
from ragkit.index.access.stores import AccessStore
from ragkit.index.access.tokens import Token, format_day
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.http_errors import ErrorResponse, RequestRejected, not_found
from ragkit.sql import SqlConnection

BaseT = TypeVar("BaseT", bound=ServedKnowledgeBase)
USER_HEADER = "x-ragkit-user"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sent a request."""

    name: str
    role: Role = "owner"
    base: str | None = None
    """The knowledge base whose user it is; None: a token of the server, which holds for all."""
    groups: tuple[str, ...] | None = None
    """The groups by a signed header; None: those of the knowledge base."""
    owner_key: str = ""
    """Whose sessions and traces the request may see: the user with the rights of the moment. Empty: all."""
    token: str = ""
    """The hash of the user's token; empty for none."""


CURRENT: ContextVar[Principal | None] = ContextVar("ragkit_user", default=None)


class AccessControl:
    """The users of the knowledge bases of a server by name, and the secret of its proxy."""

    def __init__(self, stores: Mapping[str, AccessStore], secret: str | None = None) -> None:
        self._stores = stores
        self._secret = secret or ""

    def has_users(self) -> bool:
        """Whether requests must say who sends them."""
        return bool(self._secret) or any(store.read().users for store in self._stores.values())

    def is_used(self) -> bool:
        """Whether a knowledge base has users or rules."""
        return bool(self._secret) or any(store.read() != AccessSettings() for store in self._stores.values())

    def find(self, token: str, header: str) -> Principal | None:
        """The user of a token, or of a signed header; None if neither is known.

        Raises RequestRejected for a token that has expired.
        """
        for base, store in self._stores.items():
            settings = store.read()
            if header:
                user = read_signed(self._secret, header, base) if self._secret else None
                if user is not None:
                    known = settings.find_user(user.name)
                    signed = User(user.name, user.groups, known.role if known is not None else "reader")
                    return _principal(signed, base, settings, user.groups)
            elif token and (known_token := settings.find_token(token)) is not None:
                user, stored = known_token
                _require_valid(stored)
                return replace(_principal(user, base, settings, None), token=stored.digest)
        return None

    def server_token(self, name: str, *, is_owner: bool) -> Principal:
        """The principal of a token of the server itself; all but the owner's read what everyone may read."""
        key = "" if is_owner or not self.is_used() else f"{name} of the server"
        return Principal(name, "owner" if is_owner else "reader", owner_key=key)


def _principal(user: User, base: str, settings: AccessSettings, groups: tuple[str, ...] | None) -> Principal:
    rights = json.dumps([sorted(user.grants or ()), [[rule.path, *rule.allow] for rule in settings.rules]])
    key = "" if user.role == "owner" else f"user:{user.name} {sha256(rights.encode()).hexdigest()[:16]}"
    return Principal(f"user:{user.name}@{base}", user.role, base, groups, key)


def restrict(kb: BaseT, name: str) -> BaseT:
    """A knowledge base of a server that every request reads as its principal."""
    if not isinstance(kb, KnowledgeBase) or kb.is_restricted:
        return kb
    return kb.restricted_by(lambda: current_grants(name, kb.access))


def current_grants(base: str, access: AccessStore) -> Grants | None:
    """What the current principal is now; None for one that reads everything. Raises RequestRejected."""
    principal = CURRENT.get()
    if principal is None:
        return NOBODY
    check_base(principal, base)
    if principal.base is None:
        return None if principal.role == "owner" else NOBODY
    name = principal.name.removeprefix("user:").rpartition("@")[0]
    user = access.read().find_user(name)
    if principal.groups is not None:
        return None if user is not None and user.role == "owner" else as_grants(name, principal.groups)
    token = next((token for token in user.tokens if token.digest == principal.token), None) if user else None
    if user is None or (principal.token and token is None):
        what = "user" if user is None else "token"
        message = f"the access of this {what} was revoked"
        raise RequestRejected(ErrorResponse(403, message, "access_revoked", "permission_error"))
    if token is not None:
        _require_valid(token)
    return user.grants


def _require_valid(token: Token) -> None:
    """Raises RequestRejected for a token that has expired."""
    if token.has_expired:
        message = f"the token {token.name!r} expired on {format_day(token.expires)}: ask an owner for a new one"
        headers = {"www-authenticate": "Bearer"}
        raise RequestRejected(ErrorResponse(401, message, "token_expired", "authentication_error", headers=headers))


def check_base(principal: Principal | None, base: str) -> None:
    """Raises RequestRejected if a principal is not one of this knowledge base."""
    if principal is not None and principal.base not in (None, base):
        raise not_found("knowledge base", "kb_not_found")


def visible_bases(names: Iterable[str]) -> list[str]:
    """Those of the knowledge bases of a server that the current principal may know."""
    principal = CURRENT.get()
    return [name for name in names if principal is None or principal.base in (None, name)]


def may_edit(*, without: bool) -> bool:
    """Whether the current principal may change sources; `without`: the answer for work without a request."""
    principal = CURRENT.get()
    return without if principal is None else principal.role in ("editor", "owner")


def require_editor() -> None:
    """Raises RequestRejected for users whose role is not editor: jobs and sources name files."""
    principal = CURRENT.get()
    if principal is not None and principal.owner_key and principal.role == "reader":
        raise RequestRejected(ErrorResponse(403, "this takes the role editor", "not_editor", "permission_error"))


def require_operator() -> None:
    """Raises RequestRejected for users whose role is reader: metrics name users."""
    principal = CURRENT.get()
    if principal is not None and principal.base is not None and principal.role == "reader":
        raise RequestRejected(ErrorResponse(403, "this takes the role editor", "not_editor", "permission_error"))


@contextmanager
def as_server() -> Iterator[None]:
    """Read everything in a block, for the server's own work."""
    token = CURRENT.set(Principal("server"))
    try:
        yield
    finally:
        CURRENT.reset(token)


def _owner_key() -> str:
    principal = CURRENT.get()
    return principal.owner_key if principal is not None else ""


def record_owner(connection: SqlConnection, identity: str) -> None:
    """Record whose a new session, trace or suspended run is."""
    if key := _owner_key():
        connection.execute("INSERT INTO owners VALUES (?, ?)", (identity, key))


def owned_sql(column: str) -> tuple[str, tuple[str, str]]:
    """A condition for the rows of the current principal, and its values."""
    condition = f"(? = '' OR EXISTS (SELECT 1 FROM owners o WHERE o.id = {column} AND o.owner = ?))"  # noqa: S608
    return condition, (_owner_key(),) * 2


def is_owned(connection: SqlConnection, identity: str) -> bool:
    """Whether a row is one that the current principal may see."""
    key = _owner_key()
    row = connection.execute("SELECT 1 FROM owners WHERE id = ? AND owner = ?", (identity, key)) if key else None
    return row is None or row.fetchone() is not None


def delete_unused_owners(connection: SqlConnection) -> None:
    """Delete the owners of what was deleted."""
    connection.execute(
        "DELETE FROM owners WHERE id NOT IN"
        " (SELECT id FROM sessions UNION SELECT id FROM traces UNION SELECT id FROM suspended)"
    )
