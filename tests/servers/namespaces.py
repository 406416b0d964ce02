"""Network namespaces: machines of their own for the kernel, each with a link to the database and one to the test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

FAULTS = ("down", "answers lost", "requests lost", "refused", "address lost")
"""What `Namespace.fault` can be, beside "".

down: no packet passes, and nobody is told. answers lost: packets to the machine vanish. requests lost: those from it
do. refused: the machine's own kernel refuses to send. address lost: the
machine has no address in the network of the database.
"""


class Namespace:
    """A machine `number` (1 to 99) with two links. A context manager."""

    def __init__(self, number: int) -> None:
        self.name = f"ragkit{number}-{os.getpid()}"
        self.prefix = ("ip", "netns", "exec", self.name)
        """What a command that runs in it begins with."""
        self.fault = ""
        self.database_address = f"10.77.{number}.1"
        """The other end of the link to the database."""
        self.address = f"10.78.{number}.2"
        """Its own end of the link to the test."""
        self._links = {f"rkd{number}": f"10.77.{number}", f"rkt{number}": f"10.78.{number}"}
        self._link = f"rkd{number}"

    def __enter__(self) -> Namespace:
        ip("netns", "add", self.name)
        try:
            self._inside("link", "set", "lo", "up")
            for link, network in self._links.items():
                ip("link", "add", link, "type", "veth", "peer", "name", "inside", "netns", self.name)
                self._inside("link", "set", "inside", "name", link)
                ip("addr", "add", f"{network}.1/24", "dev", link)
                ip("link", "set", link, "up")
                self._inside("addr", "add", f"{network}.2/24", "dev", link)
                self._inside("link", "set", link, "up")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for link in self._links:
            with suppress(subprocess.CalledProcessError):
                ip("link", "del", link)
        ip("netns", "del", self.name)

    def set_fault(self, fault: str) -> None:
        """Break the link to the database so; "": mend it."""
        network, link = self._links[self._link], self._link
        faults: dict[str, tuple[Sequence[str], Sequence[str]]] = {
            "down": (("link", "set", link, "down"), ("link", "set", link, "up")),
            "answers lost": (
                ("route", "add", "blackhole", f"{network}.2/32"),
                ("route", "del", "blackhole", f"{network}.2/32"),
            ),
            "requests lost": (
                ("neigh", "replace", f"{network}.1", "lladdr", "02:00:00:00:00:01", "nud", "permanent", "dev", link),
                ("neigh", "del", f"{network}.1", "dev", link),
            ),
            "refused": (
                ("route", "add", "prohibit", f"{network}.1/32"),
                ("route", "del", "prohibit", f"{network}.1/32"),
            ),
            "address lost": (
                ("addr", "del", f"{network}.2/24", "dev", link),
                ("addr", "add", f"{network}.2/24", "dev", link),
            ),
        }
        if self.fault:
            self._run(self.fault, faults[self.fault][1])
        if fault:
            self._run(fault, faults[fault][0])
        self.fault = fault

    def _run(self, fault: str, command: Sequence[str]) -> None:
        if fault in ("down", "answers lost"):
            ip(*command)
        else:
            self._inside(*command)

    def _inside(self, *arguments: str) -> None:
        ip("-n", self.name, *arguments)


def ip(*arguments: str) -> None:
    """Run `ip`, which configures the network."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
