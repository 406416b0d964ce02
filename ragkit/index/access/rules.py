"""Who may read which documents: users with groups and a role, and rules by path.

A document is read by whoever its own metadata field `access` allows (front matter, a column, `metadata` of a source)
and every rule allows whose path it matches. Without both: everyone, or nobody with the default `closed`. What cannot be
understood allows nobody. Owners read all.
"""

from __future__ import annotations

import hmac
import json
import posixpath
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, TypeAlias
from unicodedata import normalize
from urllib.parse import unquote

from ragkit.errors import InvalidOption, KnowledgeBaseDamaged
from ragkit.index.access.tokens import Token, hash_token, read_token
from ragkit.load.shared.access_field import EVERYONE, FIELD, NAME, read_names
from ragkit.records import JSON

SIGNATURE_SECONDS = 60
"""How far the time of a signed header may be from now."""
MAX_DECODINGS = 4
"""How often percent-encodings inside of percent-encodings are read."""
IGNORES_CASE = sys.platform == "darwin"
"""Whether the file systems of this machine take `HR` and `hr` for the same folder."""
Role = Literal["reader", "editor", "owner"]
Default = Literal["open", "closed"]
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

    def find_token(self, digest: str) -> Token | None:
        """The token with this hash, whether or not it has expired."""
        return next((token for token in self.tokens if token.digest == digest), None)


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Who may read the documents below a path."""

    path: str
    """A glob pattern of the end of a source: `hr/**`, `*.secret.md`; everything below a match belongs to it."""
    allow: tuple[str, ...] = ()

    def matches(self, source: str) -> bool:
        """Whether a source, or a folder or file that contains it, ends with the path.

        Names of files are compared as the system does. Of an address, with its percent-encodings read, the part before
        `?`, `;` and `#` may match as well as all of it; upper and lower case of the host are the same.
        """
        return self._matches(source, ignore_case=IGNORES_CASE)

    def matches_in_any_case(self, source: str) -> bool:
        """Whether it would match if upper and lower case were the same."""
        return self._matches(source, ignore_case=True)

    def _matches(self, source: str, *, ignore_case: bool) -> bool:
        pattern = _pattern(self.path, ignore_case, "://" in source)
        return any(pattern.search(form) is not None for form in source_forms(source))


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """The users and rules of a knowledge base."""

    users: tuple[User, ...] = ()
    rules: tuple[AccessRule, ...] = ()
    default: Default = "open"
    """Who reads a document that has no field and matches no rule: everyone, or `closed`: owners only."""

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
        return all(grants & allowed for allowed, _ in self.conditions(source, metadata))

    def conditions(self, source: str, metadata: Mapping[str, JSON]) -> list[tuple[Grants, str]]:
        """Each set of names of which a reader must have one, with the reason: the field, a rule, or the default."""
        found: list[tuple[Grants, str]] = []
        if FIELD in metadata:
            found.append((read_names(metadata[FIELD]) or frozenset(), "field"))
        found += [(frozenset(rule.allow), f"rule {rule.path}") for rule in self.rules if rule.matches(source)]
        if not found and self.default == "closed":
            found.append((frozenset(), "default"))
        return found

    def with_user(self, user: User) -> AccessSettings:
        """The settings with this user in place of one with the same name."""
        others = [other for other in self.users if other.name != user.name]
        return replace(self, users=tuple(sorted((*others, user), key=lambda other: other.name)))

    def without_user(self, name: str) -> AccessSettings:
        """The settings without this user, and so without their tokens."""
        return replace(self, users=tuple(other for other in self.users if other.name != name))

    def with_default(self, default: str) -> AccessSettings:
        """The settings with another default, `open` or `closed`. Raises InvalidOption."""
        return replace(self, default=_default(default))

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
    if not NAME.fullmatch(name):
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
    return User(names[0], names[1:]) if all(map(NAME.fullmatch, names)) else None


def _signature(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode("utf-8", "replace"), sha256).hexdigest()


@lru_cache(maxsize=4096)
def source_forms(source: str) -> tuple[str, ...]:
    """The texts of a source that rules are compared with: one for a file, several for an address."""
    if "://" not in source:
        return (normalize("NFC", source),)
    scheme, _, rest = source.partition("://")
    forms = [rest]
    while (plain := unquote(forms[-1])) != forms[-1] and len(forms) < MAX_DECODINGS:
        forms.append(plain)
    forms += [re.split(r"[?#]", form)[0] for form in forms]
    forms += [re.sub(r";[^/]*", "", form) for form in forms]
    forms += [posixpath.normpath(form) for form in forms]
    hosts = [form.partition("/") for form in forms]
    forms += [f"{host.lower().removesuffix(':443').removesuffix(':80')}/{path}" for host, _, path in hosts]
    return tuple(dict.fromkeys(normalize("NFC", f"{scheme.lower()}://{form}") for form in forms))


@lru_cache(maxsize=1024)
def _pattern(path: str, ignore_case: bool, is_address: bool) -> re.Pattern[str]:
    texts = {path: None}
    if is_address:  # its first part may be a host
        scheme, separator, rest = path.rpartition("://")
        host, slash, below = rest.lstrip("/").partition("/")
        for text in (path, f"{scheme.lower()}{separator}{host.lower()}{slash}{below}"):
            texts |= {text: None, unquote(text): None}
    alternatives = "|".join(map(_glob, texts))
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)  # names of files may contain line breaks
    return re.compile(rf"(?:^|/)(?:{alternatives})(?:\Z|[/#!])", flags)


def _glob(path: str) -> str:
    parts = re.split(r"(\*\*|\*|\?)", normalize("NFC", path.strip("/")))
    kinds = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(kinds.get(part, re.escape(part)) for part in parts)


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
        rules = tuple(AccessRule(row["path"], tuple(row["allow"])) for row in data["rules"])
        return AccessSettings(users, rules, _default(data.get("default", "open")))
    except (ValueError, KeyError, TypeError, InvalidOption) as error:
        fix = "correct it, or restore it from a backup: until then nobody reads anything"
        raise KnowledgeBaseDamaged(place, f"does not hold users and rules ({error})", fix) from error


def _default(value: object) -> Default:
    if value not in ("open", "closed"):
        raise InvalidOption("default", value, "open or closed")
    return value


def _tokens(values: Sequence[Any]) -> tuple[Token, ...]:
    return tuple(read_token(value, number) for number, value in enumerate(values, 1))


def _role(value: object) -> Role:
    if value not in ("reader", "editor", "owner"):
        raise InvalidOption("role", value, "reader, editor or owner")
    return value
