"""Who sends a request: a token or a signed header stands for a user, whose rights every read is held to.

Rights are looked up when they are needed, never kept: what is revoked is refused from that moment on, also in answers
and MCP sessions that have begun. Work without a request reads what everyone may read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ragkit.index.access.rules import NOBODY, AccessSettings, Grants, Role, User, as_grants, read_signed
from ragkit.index.access.stores import AccessStore
from ragkit.index.access.tokens import Token, format_day
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.read_side import ReadingPrincipal
from ragkit.server.http_errors import ErrorResponse, RequestRejected, not_found

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
    """Whose sessions and traces the request may see: its own name. Empty: all."""
    token: str = field(default="", repr=False)
    """The hash of the user's token; empty for other principals."""

    @property
    def holder(self) -> str:
        """Whose a new session or trace is, whatever its groups and the rules: `user:NAME`, or the name of a token."""
        if self.base is not None:
            return self.name.rpartition("@")[0]
        return "" if self.name in _OF_NOBODY else self.name


_OF_NOBODY = ("local", "server")
"""Principals of a server without tokens, and of its own work: what they store is everyone's."""
CURRENT: ContextVar[Principal | None] = ContextVar("ragkit_user", default=None)


class AccessControl:
    """The users of the knowledge bases of a server by name, and the secret of its proxy."""

    def __init__(self, stores: Mapping[str, AccessStore], secret: str | None = None) -> None:
        self._stores = stores
        self._secret = secret or ""

    async def load(self) -> None:
        """Read in a thread what is not in memory: the event loop runs no SQL."""
        for store in self._stores.values():
            if not store.is_loaded:
                await asyncio.to_thread(store.read)

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
                    return _principal(signed, base, user.groups, "")
            elif token and (found := settings.find_token(token)) is not None:
                user, stored = found
                _require_valid(stored)
                return _principal(user, base, None, stored.digest)
        return None

    def is_revoked(self, principal: Principal) -> bool:
        """Whether a principal is not one any more: the token or the user is gone."""
        if principal.base is None or principal.base not in self._stores or not principal.token:
            return False
        user = self._stores[principal.base].read().find_user(principal.name.removeprefix("user:").rpartition("@")[0])
        token = user.find_token(principal.token) if user is not None else None
        return token is None or token.has_expired

    def server_token(self, name: str, *, is_owner: bool) -> Principal:
        """The principal of a token of the server itself; all but the owner's read what everyone may read."""
        key = "" if is_owner or not self.is_used() else name
        return Principal(name, "owner" if is_owner else "reader", owner_key=key)


def _principal(user: User, base: str, groups: tuple[str, ...] | None, token: str) -> Principal:
    key = "" if user.role == "owner" else f"user:{user.name}"
    return Principal(f"user:{user.name}@{base}", user.role, base, groups, key, token)


def restrict(kb: KnowledgeBase, name: str) -> KnowledgeBase:
    """A knowledge base of a server that every request reads as its principal."""
    if kb.principal.is_restricted:
        return kb
    return kb.as_user(ReadingPrincipal(lambda: current_grants(name, kb.location.access)))


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
    if user is None:
        raise access_revoked("the access of this user was revoked")
    if principal.token:
        token = user.find_token(principal.token)
        if token is None:
            raise access_revoked("the access of this token was revoked")
        _require_valid(token)
    return user.grants


def access_revoked(message: str) -> RequestRejected:
    """The error for rights that were lost since a request began."""
    return RequestRejected(ErrorResponse(403, message, "access_revoked", "permission_error"))


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


def visible_kbs(names: Iterable[str]) -> list[str]:
    """The knowledge bases of a server that are visible to the current principal."""
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


def require_owner_role() -> None:
    """Raises RequestRejected for all but owners, who are everyone on a server without tokens and users."""
    principal = CURRENT.get()
    if principal is None or principal.role != "owner":
        raise RequestRejected(ErrorResponse(403, "this takes the role owner", "not_owner", "permission_error"))


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


def current_holder() -> str:
    """Whose a new session, trace or suspended run is; empty: everyone's."""
    principal = CURRENT.get()
    return principal.holder if principal is not None else ""


def owned_sql() -> tuple[str, tuple[str, str]]:
    """A condition on the column `owner` for the rows that the current principal may see, and its values."""
    principal = CURRENT.get()
    key = principal.owner_key if principal is not None else ""
    return "(? = '' OR owner = ?)", (key, key)
