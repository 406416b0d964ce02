"""The source `imap`: the mails of one folder of an IMAP server."""

from __future__ import annotations

import imaplib
import re
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import quote

from ragkit.errors import LoadError
from ragkit.load.files.file_io import MB
from ragkit.load.sources.base import (
    DocumentGone,
    SourceContext,
    SourceFile,
    SourceItem,
    read_credential,
    require_network,
)
from ragkit.load.sources.options import ImapOptions

TIMEOUT_S = 60
_FIELDS = re.compile(rb"(UID|RFC822\.SIZE) (\d+)")
_NOT_ASCII = re.compile(r"&|[^\x20-\x7e]+")
_DELETED = b"\\deleted"
_Lines: TypeAlias = list[Any]


class ImapSource:
    """The key of a mail holds its UID and the UIDVALIDITY of its folder; mails never change."""

    def __init__(self, options: ImapOptions) -> None:
        self._options = options

    @property
    def location(self) -> str:
        """User, server and folder."""
        return f"{self._options.user}@{self._options.host}/{self._options.mailbox}"

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every mail; see `Source.list`. New mails are read over the same connection."""
        with self._open() as (connection, validity):
            for line in self._check(connection.uid("FETCH", "1:*", "(UID RFC822.SIZE FLAGS)")):
                found = dict(_FIELDS.findall(line)) if isinstance(line, bytes) else {}
                if len(found) < 2 or _DELETED in line.lower():
                    continue
                uid, size = found[b"UID"].decode(), int(found[b"RFC822.SIZE"])
                item = SourceItem(f"{self._prefix}/{validity}/{uid}", str(size), size, path=uid)
                if context.known_fingerprint(item.key) == item.fingerprint or size > context.max_file_mb * MB:
                    yield item
                    continue
                data = self._body(connection, uid)
                if data is not None:
                    yield replace(item, file=SourceFile(data, "message/rfc822", suffix=".eml"))

    def fetch(self, item: SourceItem, context: SourceContext) -> SourceFile:
        """The mail; see `Source.fetch`."""
        with self._open() as (connection, _):
            data = self._body(connection, item.path)
        if data is None:
            raise DocumentGone(item.key, "was deleted", "run again")
        return SourceFile(data, "message/rfc822", suffix=".eml")

    @property
    def _prefix(self) -> str:
        return f"imap://{quote(self._options.user)}@{self._options.host}/{quote(self._options.mailbox)}"

    @contextmanager
    def _open(self) -> Iterator[tuple[imaplib.IMAP4, str]]:
        """A connection with the folder selected for reading, and its UIDVALIDITY. Raises LoadError."""
        chosen = self._options
        require_network(self.location)
        password = read_credential(chosen.password_env, self.location)
        try:
            with ExitStack() as stack:
                connection = (
                    imaplib.IMAP4_SSL(
                        chosen.host, chosen.port, timeout=TIMEOUT_S, ssl_context=ssl.create_default_context()
                    )
                    if chosen.tls
                    else imaplib.IMAP4(chosen.host, chosen.port, timeout=TIMEOUT_S)
                )
                stack.callback(_close, connection)
                stack.enter_context(connection)
                if f"{chosen.user}{password}".isascii():
                    connection.login(_quoted(chosen.user), password)
                else:  # LOGIN takes ASCII only
                    connection.authenticate("PLAIN", lambda _: f"\0{chosen.user}\0{password}".encode())
                self._check(connection.select(f'"{_encode_mailbox(chosen.mailbox)}"', readonly=True))
                yield connection, (connection.response("UIDVALIDITY")[1][0] or b"0").decode()
        except (imaplib.IMAP4.error, OSError) as error:
            reason = f"the IMAP server failed ({' '.join(str(error).split())[:200]})"
            raise LoadError(self.location, reason, "check host, user, password and mailbox") from error

    def _body(self, connection: imaplib.IMAP4, uid: str) -> bytes | None:
        """The bytes of a mail; None if it was deleted."""
        answer = self._check(connection.uid("FETCH", uid, "(BODY.PEEK[])"))
        return next((part[1] for part in answer if isinstance(part, tuple)), None)

    @staticmethod
    def _check(answer: tuple[str, Any]) -> _Lines:
        """The data of an answer. Raises IMAP4.error unless it is OK."""
        if answer[0] != "OK":
            raise imaplib.IMAP4.error(str(answer[1][0]))
        lines: _Lines = answer[1]
        return lines


def _close(connection: imaplib.IMAP4) -> None:
    """Close the socket, which imaplib leaves open if LOGOUT fails."""
    with suppress(OSError):
        connection.shutdown()


def _quoted(user: str) -> str:
    """A user name for LOGIN; imaplib quotes the password only."""
    escaped = user.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _encode_mailbox(name: str) -> str:
    """The name of a folder in the UTF-7 of IMAP (RFC 3501, 5.1.3)."""
    return _NOT_ASCII.sub(_encode_characters, name)


def _encode_characters(found: re.Match[str]) -> str:
    if found[0] == "&":
        return "&-"
    return f"&{b64encode(found[0].encode('utf-16-be'), b'+,').decode().rstrip('=')}-"
