"""An IMAP server in this process, for tests: one folder for reading, over the wire format of RFC 3501."""

from __future__ import annotations

import re
import socketserver
import ssl
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_COMMAND = re.compile(rb"(\S+) (UID )?(\S+) ?(.*)\r\n", re.DOTALL)
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"|(\S+)')


@dataclass
class Mailbox:
    """The state of the server. Tests change it, also while a client reads."""

    port: int = 0
    user: str = "anna"
    password: str = "geheim"
    name: bytes = b"INBOX"
    """In the UTF-7 of IMAP."""
    validity: int = 7
    mails: dict[int, bytes] = field(default_factory=dict)
    """UID -> mail."""
    deleted: set[int] = field(default_factory=set)
    """UIDs with the flag \\Deleted."""
    bodies: list[int] = field(default_factory=list)
    """UIDs whose bodies were sent."""
    refused: str = ""
    """The command that is answered with NO: `FETCH`."""
    hang_up_after: int | None = None
    """Bodies after which the server ends the connection."""
    on_body: Callable[[int], None] = lambda uid: None
    """Called with a UID before its body is sent."""
    read_only: bool = False
    """Whether the folder was opened by EXAMINE, and by nothing else."""

    def sent(self) -> list[int]:
        """The bodies since the last call."""
        bodies, self.bodies = self.bodies, []
        return bodies


class _Client(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        box = self.server.mailbox
        self._send(b"* OK [CAPABILITY IMAP4rev1 AUTH=PLAIN] ready")
        while found := _COMMAND.fullmatch(self.rfile.readline()):
            tag, _, verb, rest = found.groups()
            command = verb.upper().decode()
            if command == box.refused:
                self._send(tag + b" NO [UNAVAILABLE] try later")
                continue
            answer: Callable[[bytes], bytes | None] | None = getattr(self, f"do_{command.lower()}", None)
            result = b"BAD unknown command" if answer is None else answer(rest)
            if result is None:
                return
            self._send(tag + b" " + result)
            if command == "LOGOUT":
                return

    def do_capability(self, rest: bytes) -> bytes:
        self._send(b"* CAPABILITY IMAP4rev1 AUTH=PLAIN")
        return b"OK done"

    def do_login(self, rest: bytes) -> bytes:
        words = [re.sub(rb"\\(.)", rb"\1", quoted) or word for quoted, word in _QUOTED.findall(rest)]
        return self._greet(b"\0".join(words).decode())

    def do_authenticate(self, rest: bytes) -> bytes:
        self._send(b"+ ")
        return self._greet(b64decode(self.rfile.readline()).decode().removeprefix("\0"))

    def do_examine(self, rest: bytes) -> bytes:
        box = self.server.mailbox
        if rest.strip(b'"') != box.name:
            return b"NO [NONEXISTENT] no such mailbox"
        box.read_only = True
        self._send(b"* %d EXISTS" % len(box.mails), b"* 0 RECENT", b"* FLAGS (\\Seen \\Deleted)")
        self._send(b"* OK [UIDVALIDITY %d] valid" % box.validity)
        return b"OK [READ-ONLY] done"

    def do_fetch(self, rest: bytes) -> bytes | None:
        """UID FETCH of a set of UIDs. Between the answers stand some that no one asked for."""
        box, (numbers, wanted) = self.server.mailbox, rest.split(b" ", 1)
        first, _, last = numbers.partition(b":")
        for position, (uid, mail) in enumerate(list(box.mails.items()), 1):
            if not (int(first) <= uid <= (int(last or first) if last != b"*" else uid)) or uid not in box.mails:
                continue
            if wanted == b"(BODY.PEEK[])":
                if box.hang_up_after is not None and len(box.bodies) >= box.hang_up_after:
                    return None
                box.on_body(uid)
                if uid not in box.mails:
                    continue
                box.bodies.append(uid)
                self._send(b"* %d FETCH (FLAGS (\\Seen))" % position)
                self._send(b"* %d FETCH (UID %d BODY[] {%d}" % (position, uid, len(mail)), mail + b")")
            else:
                flags = b"\\Deleted" if uid in box.deleted else b"\\Seen"
                self._send(b"* %d FETCH (FLAGS (%b) RFC822.SIZE %d UID %d)" % (position, flags, len(mail), uid))
        return b"OK done"

    def do_logout(self, rest: bytes) -> bytes:
        self._send(b"* BYE ended")
        return b"OK done"

    def _greet(self, login: str) -> bytes:
        box = self.server.mailbox
        return b"OK welcome" if login == f"{box.user}\0{box.password}" else b"NO [AUTHENTICATIONFAILED] wrong password"

    def _send(self, *lines: bytes) -> None:
        self.wfile.write(b"".join(line + b"\r\n" for line in lines))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, mailbox: Mailbox, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Client)
        self.mailbox = mailbox
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that hang up are part of the tests."""


@contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[Mailbox]:
    """A server on a free port of this machine."""
    mailbox = Mailbox()
    with _Server(mailbox, tls) as server:
        mailbox.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield mailbox
        finally:
            server.shutdown()
            thread.join()
