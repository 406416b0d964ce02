"""Random histories of uploads: what several clients do, while servers are killed, against a reference model."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from tests.server.state.forked_server import SECONDS, ForkedServer, ServerFactory

NAMES = ("ant.txt", "bee.txt", "pond/newt.txt", "pond/toad.txt")
MAX_KILLS = 2
"""A job that was interrupted three times fails."""


class Reference:
    """What must be there: the acknowledged uploads, without those that were deleted as they were seen."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def upload(self, name: str, text: str) -> None:
        self.files[name] = text

    def delete(self, name: str, seen: str) -> None:
        if self.files.get(name) == seen:
            del self.files[name]

    def clear(self) -> None:
        self.files.clear()


@dataclass
class History:
    """Histories of one knowledge base, each from empty folders of uploads to the comparison."""

    factory: ServerFactory
    place: str
    folders: list[Path]
    """Of the copies of a knowledge base in a database, one for each server."""
    rng: random.Random
    parsers: bool = True
    """Whether files are parsed in processes of their own."""
    reference: Reference = field(default_factory=Reference)
    kills: int = 0
    """Of all histories."""
    killed: int = 0
    """Of this one."""
    steps: list[str] = field(default_factory=list)
    unsure: dict[str, str] = field(default_factory=dict)
    """Uploads that were not acknowledged, as their server was killed."""
    must_index: bool = False
    """Something was uploaded without a job, or a job was cancelled: a last job indexes everything."""
    servers: list[ForkedServer] = field(default_factory=list)
    homes: dict[str, int] = field(default_factory=dict)
    """The server that has a name: each has a folder of its own."""

    def __enter__(self) -> Self:
        self.servers = [self._start(number) for number in range(len(self.folders))]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.kill()

    def run(self, steps: int) -> None:
        """Carry out random steps and compare. Raises AssertionError with the steps."""
        self.steps.clear()
        self.must_index, self.killed = False, 0
        self.unsure.clear()
        try:
            for _ in range(steps):
                self.rng.choice(STEPS)(self)
            self._drain()
            self._compare()
            for number in range(len(self.servers)):
                self._clear(number)
            self._drain()
            self._compare()
        except (AssertionError, httpx2.HTTPError) as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n" + "\n".join(self.steps)) from error

    @property
    def client(self) -> httpx2.Client:
        """Any of the servers."""
        return self.rng.choice(self.servers).client

    def upload(self) -> None:
        """Upload a new file, or a new version, or the same content again."""
        name, text = self._choose()
        index = self.rng.random() < 0.85
        self.must_index |= not index
        self._post(name, text, index)
        self.reference.upload(name, text)

    def delete(self) -> None:
        """Delete a document as it is listed now, which may be an earlier version than the file."""
        client = self.client
        seen = self._pick(client)
        if seen:
            self._remove(client, *seen)

    def replace(self) -> None:
        """Delete a document and upload another version, one after the other or at once."""
        client = self.client
        seen = self._pick(client)
        if not seen:
            return
        _, name, old = seen
        text = next(text for text in _texts(name) if text != old)
        if self.rng.random() < 0.5:
            self._remove(client, *seen)
            self._post(name, text, True)
        else:
            with ThreadPoolExecutor(2) as pool:
                for task in (pool.submit(self._remove, client, *seen), pool.submit(self._post, name, text, True)):
                    task.result()
        self.reference.upload(name, text)

    def index(self) -> None:
        """Index all sources, or one document again."""
        client = self.client
        seen = self._pick(client) if self.rng.random() < 0.4 else None
        path = f"/documents/{seen[0]}/index" if seen else "/jobs"
        self.steps.append(f"POST {path} {client.post(path).status_code}")

    def cancel(self) -> None:
        """Cancel the latest job, or resume it."""
        client = self.client
        jobs = client.get("/jobs").json()["jobs"]
        if jobs:
            job = self.rng.choice(jobs[:3])
            if job["kind"] == "remove":  # a cancelled removal is none
                return
            verb = "resume" if job["status"] == "cancelled" else "cancel"
            answer = client.post(f"/jobs/{job['id']}/{verb}")
            self.steps.append(f"{verb} {job['id']} {answer.status_code}")
            self.must_index = True

    def clear(self) -> None:
        """Remove the source of uploads of a server."""
        self._clear(self.rng.randrange(len(self.servers)))

    def _clear(self, number: int) -> None:
        client = self.servers[number].client
        key = client.get("/sources").json()["uploads"]["id"]
        answer = client.delete(f"/sources/{key}")
        self.steps.append(f"DELETE uploads of server {number}: {answer.status_code}")
        if answer.status_code == 200:
            self.reference.files = {
                name: text for name, text in self.reference.files.items() if self.homes[name] != number
            }

    def kill(self) -> None:
        """Kill a server and start it again, maybe while it receives a file."""
        if self.killed == MAX_KILLS:
            return
        self.killed += 1
        self.kills += 1
        number = self.rng.randrange(len(self.servers))
        self.steps.append(f"kill server {number}")
        if self.rng.random() < 0.5:
            self.servers[number].kill()
            self.servers[number] = self._start(number)
            return
        name, _ = self._choose(number)
        text = f"{_stem(name)}k{self.kills}x lives in the pond."  # never sent before
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(self._post, name, text, True)
            time.sleep(self.rng.random() * 0.03)
            self.servers[number].kill()
            try:
                sent.result()
            except httpx2.HTTPError:
                self.must_index = True
                stored = self._folder(number) / name
                if not stored.is_file() or stored.read_text() != text:
                    text = ""
                else:  # stored, and not acknowledged: a removal that was asked for before may take it
                    self.unsure[name] = text
        self.servers[number] = self._start(number)
        if text:
            self.reference.upload(name, text)

    def wait(self) -> None:
        """Let the jobs go on for a moment."""
        time.sleep(self.rng.choice([0.0, 0.01, 0.05, 0.2]))

    def _start(self, number: int) -> ForkedServer:
        return self.factory.start(self.place, self.folders[number], parsers=self.parsers)

    def _choose(self, number: int | None = None) -> tuple[str, str]:
        name = self.rng.choice(NAMES)
        home = self.rng.randrange(len(self.servers)) if number is None else number
        name = f"{home}-{name}"
        self.homes[name] = home
        return name, self.rng.choice(_texts(name))

    def _post(self, name: str, text: str, index: bool) -> None:
        params = {"name": name, "index": str(index).lower()}
        self.steps.append(f"upload {name}: {text!r} index={index}")
        answer = self.servers[self.homes[name]].client.post("/documents", params=params, content=text.encode())
        assert answer.status_code == 200, answer.text

    def _pick(self, client: httpx2.Client) -> tuple[str, str, str] | None:
        """A listed upload: id, name, text."""
        answer = client.get("/documents")
        listed = [row for row in answer.json().get("documents", []) if "/uploads/" in row["source"]]
        if not listed:
            return None
        row = self.rng.choice(listed)
        shown = client.get(f"/documents/{row['id']}")
        if shown.status_code != 200:  # removed in between
            return None
        return row["id"], row["source"].partition("/uploads/")[2], shown.json()["text"]

    def _remove(self, client: httpx2.Client, identity: str, name: str, seen: str) -> None:
        answer = client.delete(f"/documents/{identity}")
        self.steps.append(f"delete {name}: {seen!r} {answer.status_code}")
        assert answer.status_code in (200, 404), answer.text
        if answer.status_code == 200:
            self.reference.delete(name, seen)

    def _folder(self, number: int) -> Path:
        folder = self.folders[number]
        return next(iter(folder.glob("**/uploads")), folder / "uploads")

    def _drain(self) -> None:
        """Wait until no job waits or runs."""
        deadline = time.monotonic() + 2 * SECONDS
        if self.must_index:
            for server in self.servers:
                server.client.post("/jobs", json={"sources": [server.client.get("/sources").json()["uploads"]["id"]]})
        while True:
            jobs = self.servers[0].client.get("/jobs", params={"limit": 200}).json()["jobs"]
            if not [job for job in jobs if job["status"] in ("queued", "running")]:
                break
            assert time.monotonic() < deadline, jobs
            time.sleep(0.02)
        assert not [job for job in jobs if job["status"] == "failed"], jobs

    def _compare(self) -> None:
        """Files, listed documents and what is found are those of the reference, on every server."""
        wanted = self.reference.files
        files: dict[str, str] = {}
        for number in range(len(self.servers)):
            folder = self._folder(number)
            found = [path for path in folder.rglob("*") if path.is_file()]
            files |= {path.relative_to(folder).as_posix(): path.read_text() for path in found}
        for name, text in self.unsure.items():
            if wanted.get(name) == text and name not in files:
                del wanted[name]
        assert files == wanted, f"files are {files}, not {wanted}"
        versions = [text for name in self.homes for text in _texts(name)]
        words = " ".join(text.split()[0] for text in (*versions, *self.unsure.values(), *wanted.values()))
        for server in self.servers:
            _wait_until(lambda: self._listed(server.client), sorted(wanted))  # noqa: B023 - called here
            body: dict[str, Any] = {"query": words or "nothing", "mode": "lexical", "top_k": 100}
            hits = server.client.post("/v1/search", json=body).json()["hits"]
            texts = sorted(hit["text"].strip() for hit in hits if "/uploads/" in hit["source"])
            assert texts == sorted(wanted.values()), f"found: {texts}, not {wanted}"

    def _listed(self, client: httpx2.Client) -> list[str]:
        rows = client.get("/documents", params={"limit": 200}).json()["documents"]
        return sorted(row["source"].partition("/uploads/")[2] for row in rows if "/uploads/" in row["source"])


STEPS: tuple[Callable[[History], None], ...] = (
    *[History.upload] * 5, *[History.replace] * 4, *[History.delete] * 3, *[History.index] * 2, History.cancel,
    History.clear, History.kill, *[History.wait] * 2,
)  # fmt: skip


def _texts(name: str) -> tuple[str, ...]:
    """The versions of a file, each with a word of its own."""
    return tuple(f"{_stem(name)}{version}x lives in the pond." for version in "pqr")


def _stem(name: str) -> str:
    return "".join(filter(str.isalnum, name))


def _wait_until(get: Callable[[], list[str]], wanted: list[str]) -> None:
    """Copies of a database are updated within a second or so."""
    deadline = time.monotonic() + 10
    while (got := get()) != wanted:
        assert time.monotonic() < deadline, f"listed: {got}, not {wanted}"
        time.sleep(0.05)
