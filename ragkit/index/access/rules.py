"""Who may read which documents: users with groups and a role, and rules by path.

A document is read by whoever its own metadata field `access` allows (front matter, a column, `metadata` of a source;
absent: everyone) and every rule allows whose path it matches. What cannot be understood allows nobody. Owners read all.
"""

from __future__ import annotations

import hmac
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any, Literal, TypeAlias
from unicodedata import normalize

from ragkit.errors import InvalidOption, KnowledgeBaseDamaged
from ragkit.index.access.tokens import Token, hash_token, read_token
from ragkit.records import JSON

FIELD = "access"
"""The metadata field of documents with the users and groups that may read them."""
EVERYONE = "everyone"
SIGNATURE_SECONDS = 60
"""How far the time of a signed header may be from now."""
_NAME = re.compile(r"[\w.@+-]{1,100}")
Role = Literal["reader", "editor", "owner"]
Grants: TypeAlias = frozenset[str]
"""What a principal is: `user:NAME`, `group:NAME` of each group, and `everyone`."""
NOBODY: Grants = frozenset({EVERYONE})
"""Reads what everyone may read."""


@dataclass(frozen=True, slots=True)
class User:
    """A user of a knowledge base."""

    name: str
    groups: tuple[str, ...] = ()
    role: Role = "reader"
    tokens: tuple[Token, ...] = ()

    @property
    def grants(self) -> Grants | None:
        """What the user is; None for an owner, who reads everything."""
        return None if self.role == "owner" else as_grants(self.name, self.groups)


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Who may read the documents below a path."""

    path: str
    """A glob pattern of the end of a source: `hr/**`, `*.secret.md`; everything below a match belongs to it."""
    allow: tuple[str, ...] = ()

    def matches(self, source: str) -> bool:
        """Whether a source, or a folder or file that contains it, ends with the path."""
        return _pattern(self.path).search(normalize("NFC", source)) is not None


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """The users and rules of a knowledge base."""

    users: tuple[User, ...] = ()
    rules: tuple[AccessRule, ...] = ()

    def find_user(self, name: str) -> User | None:
        """The user with this name."""
        return next((user for user in self.users if user.name == name), None)

    def find_token(self, text: str) -> tuple[User, Token] | None:
        """The user of a token and what is stored of it, whether or not it has expired; compared in constant time."""
        given, found = hash_token(text), None
        for user in self.users:
            for token in user.tokens:
                if hmac.compare_digest(given, token.digest):
                    found = (user, token)
        return found

    def may_read(self, grants: Grants, source: str, metadata: Mapping[str, JSON]) -> bool:
        """Whether a principal may read a document."""
        if FIELD in metadata and not grants & _names(metadata[FIELD]):
            return False
        return all(grants & set(rule.allow) for rule in self.rules if rule.matches(source))

    def with_user(self, user: User) -> AccessSettings:
        """The settings with this user in place of one with the same name."""
        others = [other for other in self.users if other.name != user.name]
        return replace(self, users=tuple(sorted((*others, user), key=lambda other: other.name)))

    def with_rule(self, path: str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> AccessSettings:
        """The settings with names added to, and removed from, the rule of a path. A rule without names stays."""
        old = next((rule for rule in self.rules if rule.path == path), AccessRule(path))
        gone = set(remove)
        allow = tuple(name for name in dict.fromkeys((*old.allow, *add)) if name not in gone)
        others = [rule for rule in self.rules if rule.path != path]
        return replace(self, rules=tuple(sorted((*others, AccessRule(path, allow)), key=lambda rule: rule.path)))


def as_grants(user: str, groups: Iterable[str] = ()) -> Grants:
    """What a user with groups is. Raises InvalidOption for an invalid name."""
    return frozenset({EVERYONE, f"user:{check_name(user)}", *(f"group:{check_name(group)}" for group in groups)})


def check_name(name: str) -> str:
    """The name of a user or group. Raises InvalidOption."""
    if not _NAME.fullmatch(name):
        raise InvalidOption("name", name, "1 to 100 letters, digits and . _ @ + -")
    return name


def check_principal(name: str) -> str:
    """`user:NAME`, `group:NAME` or `everyone`; a name alone is a user. Raises InvalidOption."""
    kind, colon, rest = name.partition(":")
    if name == EVERYONE:
        return name
    if colon and kind not in ("user", "group"):
        raise InvalidOption("principal", name, "user:NAME, group:NAME or everyone")
    return f"{kind}:{check_name(rest)}" if colon else f"user:{check_name(name)}"


def sign(secret: str, user: str, groups: Iterable[str] = (), base: str = "", now: float | None = None) -> str:
    """The value of the header by which a proxy says who sends a request: `TIME;USER;GROUP,GROUP;BASE;SIGNATURE`.

    The signature is the HMAC-SHA256 of what precedes it, in hex; `base` is the name of the knowledge base.
    """
    text = f"{int(time.time() if now is None else now)};{user};{','.join(groups)};{base}"
    return f"{text};{_signature(secret, text)}"


def read_signed(secret: str, header: str, base: str = "") -> User | None:
    """The user of a signed header; None if it was forged, has expired, or is of another knowledge base."""
    text, _, signature = header.rpartition(";")
    expected = _signature(secret, text)
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace")):
        return None
    parts = text.split(";")
    if len(parts) != 4 or not parts[0].isdecimal() or parts[3] != base:
        return None
    if abs(time.time() - int(parts[0])) > SIGNATURE_SECONDS:
        return None
    names = (parts[1], *filter(None, parts[2].split(",")))
    return User(names[0], names[1:]) if all(map(_NAME.fullmatch, names)) else None


def _signature(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode("utf-8", "replace"), sha256).hexdigest()


def _names(value: JSON) -> set[str]:
    """The names in the field of a document; a name alone is a user. Anything else allows nobody."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if not isinstance(value, list | tuple):
        return set()
    names = {str(name).strip() for name in value if isinstance(name, str)}
    return {name if ":" in name or name == EVERYONE else f"user:{name}" for name in names if name}


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*|\?)", normalize("NFC", path.strip("/")))
    kinds = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    middle = "".join(kinds.get(part, re.escape(part)) for part in parts)
    return re.compile(rf"(?:^|/){middle}(?:\Z|[/#!])", re.DOTALL)  # names of files may contain line breaks


def to_json(settings: AccessSettings) -> str:
    """The settings as they are stored."""
    return json.dumps(asdict(settings))


def from_json(text: str, place: str) -> AccessSettings:
    """Settings as stored in `place`. Raises KnowledgeBaseDamaged."""
    try:
        data = json.loads(text)
        users = tuple(
            User(check_name(row["name"]), tuple(row["groups"]), _role(row["role"]), _tokens(row["tokens"]))
            for row in data["users"]
        )
        return AccessSettings(users, tuple(AccessRule(row["path"], tuple(row["allow"])) for row in data["rules"]))
    except (ValueError, KeyError, TypeError, InvalidOption) as error:
        fix = "correct it, or restore it from a backup: until then nobody reads anything"
        raise KnowledgeBaseDamaged(place, f"does not hold users and rules ({error})", fix) from error


def _tokens(values: Sequence[Any]) -> tuple[Token, ...]:
    return tuple(read_token(value, number) for number, value in enumerate(values, 1))


def _role(value: object) -> Role:
    if value not in ("reader", "editor", "owner"):
        raise InvalidOption("role", value, "reader, editor or owner")
    return value
