"""Runs a benchmark: each store in its own process, asked in turn, so that what disturbs one disturbs all.

First every store is built, one after the other. Then come the rounds: in each of them every store is asked, from
another one on each time. At last rows are added and deleted. All but the figure for several threads runs on one core,
with libraries held to one thread; a server that a store speaks to is not held to anything.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from ragkit.bench import truth
from ragkit.bench.datasets import Dataset
from ragkit.bench.floor import NAME
from ragkit.bench.machine import machine, versions_of
from ragkit.bench.measure import Job
from ragkit.bench.process import StoreFailed, StoreProcess, TimeLimit, drop_from_cache, folder_bytes
from ragkit.bench.results import Figure, Latencies, Line, Outcome, Status
from ragkit.bench.settings import Entry, Setting, Settings, cores, expanded
from ragkit.errors import InvalidOption, UnknownName
from ragkit.records import JSON
from ragkit.store import STORES

SERVER_NAMES = ("collection", "table", "namespace")
"""Options that name a place on a server: a benchmark takes one of its own."""


@dataclass(frozen=True)
class Step:
    """What is done next: for whoever shows progress."""

    number: int
    """Counted from 1."""
    steps: int
    """In all; fewer are done when a store drops out."""
    label: str
    what: str


@dataclass(frozen=True)
class Dropped:
    """A store takes no further part."""

    label: str
    reason: str


Event = Step | Dropped


class Run:
    """One benchmark. `outcome` holds what there is at any time, also after an interrupt."""

    def __init__(self, settings: Settings, data: Dataset, tell: Callable[[Event], None]) -> None:
        self._settings, self._data, self._tell = settings, data, tell
        self._name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        self._machine = machine()
        self._players = [_Player(Line(entry), settings.store_seconds) for entry in settings.stores]
        each = 4 + settings.rounds * (2 + len(settings.shares))
        self._steps = sum(each + settings.rounds * (len([*entry.points()]) - 1) for entry in settings.stores)
        self._done = 0

    @property
    def outcome(self) -> Outcome:
        """What has been found so far."""
        data: dict[str, JSON] = {
            "name": self._data.name,
            "rows": self._data.base,
            "dimension": self._data.rows.shape[1],
            "queries": len(self._data.queries),
            "fingerprint": self._data.fingerprint(),
        }
        return Outcome(self._name, self._machine, data, self._stated(), tuple(p.line for p in self._players))

    def run(self) -> Outcome:
        """Measure everything. After an interrupt all processes have ended, and `outcome` holds what there is."""
        try:
            truth.save(self._data.folder, truth.compute(self._data, self._settings.shares, self._settings.top_k))
            for player in self._players:
                self._build(player)
            for number in range(self._settings.rounds):
                self._round(number)
            for player in self._players:
                self._finish(player)
        except KeyboardInterrupt:
            for player in self._players:
                if player.line.status == "ok" and not player.finished:
                    player.line.status, player.line.reason = "interrupted", "was not finished"
            raise
        finally:
            for player in self._players:
                player.end()
        return self.outcome

    def _build(self, player: _Player) -> None:
        line, entry = player.line, player.line.entry
        line.versions = versions_of(entry.name)
        try:
            job = self._job(entry)
        except (InvalidOption, UnknownName) as error:
            self._drop(player, StoreFailed(str(error), missing=True))
            return
        folder = self._folder(entry)
        player.start(job, folder)
        if not self._step(player, "starting", "hello"):
            return
        assert player.process is not None  # noqa: S101 - it was started above
        bare = player.process.memory.begin()
        if not self._step(player, "building", "build"):
            return
        self._memory(player, "build_memory", bare)
        if not player.persistent:
            return
        self._step(player, "", "close")
        files = self._files(entry)
        if files.exists():
            player.take({"disk_bytes": folder_bytes(files)})
            drop_from_cache(files)
        player.end()
        player.start(job, folder)
        if self._step(player, "", "hello"):
            player.bare = player.process.memory.begin()
            self._step(player, "opening", "open", setting={})

    def _round(self, number: int) -> None:
        turn = number % len(self._players)
        for player in self._players[turn:] + self._players[:turn]:
            self._step(player, "asking", "round", number, setting={})
            if player.line.entry.name == NAME:
                self._step(player, "", "read", number)
            for share in self._settings.shares:
                self._step(player, f"asking with a filter of {share:.1%}", "filtered", number, share=share)
            self._step(player, "asking with several threads", "threads", number)
            if number == 0 and player.persistent:
                self._memory(player, "query_memory", player.bare)
            for point in [*player.line.entry.points()][1:]:
                if player.process is not None and not player.persistent:  # opened again it would be empty
                    player.line.reason = "its sweep was left out: it keeps nothing when it is closed"
                    break
                self._step(player, f"asking with {shown(point)}", "round", number, setting=point)

    def _finish(self, player: _Player) -> None:
        self._step(player, "adding and deleting", "write")
        entry = player.line.entry
        figures = player.line.medians()
        dollars = entry.dollars_per_million_queries
        if dollars is None and entry.dollars_per_hour is not None and "qps_1" in figures:
            dollars = entry.dollars_per_hour / 3600 / figures["qps_1"] * 1e6
        if dollars is not None:
            player.take({"dollars": dollars})
        self._step(player, "", "close", clear=not self._files(entry).exists())
        player.finished = True
        player.end()

    def _step(self, player: _Player, shown: str, what: str, number: int = 0, **arguments: JSON) -> bool:
        """Have a store do something, unless it has dropped out; returns whether it has done it."""
        if shown:
            self._done += 1
        if player.process is None:
            return False
        if shown:
            self._tell(Step(self._done, self._steps, player.line.entry.label, shown))
        try:
            figures = player.ask(what, arguments)
        except StoreFailed as error:
            self._drop(player, error)
            return False
        player.persistent = bool(figures.pop("persistent", player.persistent))
        share, setting = arguments.get("share"), arguments.get("setting") or {}
        condition = truth.condition_of(cast("float", share)) if share else "all"
        latencies = cast("list[float]", figures.pop("latencies_ms", []))
        if latencies:
            kept = Latencies(cast("Setting", setting), condition, number, tuple(latencies))
            player.line.latencies.append(kept)
        prefix = f"{condition}:" if share else ""
        player.take({prefix + name: cast("float", value) for name, value in figures.items()}, setting, number)
        return True

    def _drop(self, player: _Player, error: StoreFailed) -> None:
        status: Status = "time limit" if isinstance(error, TimeLimit) else "missing" if error.missing else "failed"
        reason = f"took more than {self._settings.store_seconds:g} s" if status == "time limit" else str(error)
        player.line.status, player.line.reason = status, reason
        player.end()
        self._tell(Dropped(player.line.entry.label, reason))

    def _memory(self, player: _Player, name: str, bare: int) -> None:
        on_server = player.persistent and not self._files(player.line.entry).exists()  # whose memory nobody sees
        if player.process is not None and bare and not on_server:
            raw = self._data.base * self._data.rows.shape[1] * 4
            player.take({name: max(0, player.process.memory.peak - bare) / raw, "raw_bytes": raw})

    def _folder(self, entry: Entry) -> Path:
        number = [one.label for one in self._settings.stores].index(entry.label)
        return self._data.folder / f"{number:02}-{entry.name}"

    def _files(self, entry: Entry) -> Path:
        """Where a store's own files lie; it is there for those that have a `path`."""
        return self._folder(entry) / "files"

    def _job(self, entry: Entry) -> Job:
        settings = self._settings
        options = expanded(entry.options)
        kind = None if entry.name == NAME else STORES.options(entry.name)
        known = {one.name for one in fields(kind)} if kind else set()
        on_server = any(options.get(option) for option in ("host", "uri", "url", "dsn"))
        if "path" in known and "path" not in options and not on_server:
            self._files(entry).mkdir(parents=True, exist_ok=True)
            options["path"] = str(self._files(entry) / "store")
        for option in SERVER_NAMES:
            if option in known and option not in options:
                options[option] = f"ragkit_bench_{secrets.token_hex(4)}"
        allowed = cores()
        return Job(
            name=entry.name,
            options=options,
            folder=str(self._data.folder),
            data=self._data.name,
            base=self._data.base,
            seed=self._data.seed,
            top_k=settings.top_k,
            queries=settings.queries,
            filtered_queries=settings.filtered_queries,
            round_seconds=settings.round_seconds,
            warm_up=settings.warm_up,
            batch=settings.batch,
            threads=settings.thread_count,
            core=allowed[-1] if len(allowed) > 1 else None,
        )

    def _stated(self) -> dict[str, JSON]:
        """The settings but for the stores, with what they come to here."""
        plain = {one.name: getattr(self._settings, one.name) for one in fields(self._settings)}
        del plain["stores"], plain["data"]
        return {**plain, "shares": list(self._settings.shares), "threads": self._settings.thread_count}


class _Player:
    """A store that takes part: its line of the result, its process, and the time that it has left."""

    def __init__(self, line: Line, seconds: float) -> None:
        self.line = line
        self.process: StoreProcess | None = None
        self.persistent = False
        self.finished = False
        self.bare = 0
        self._left = seconds

    def start(self, job: Job, folder: Path) -> None:
        self.process = StoreProcess(job, folder)

    def ask(self, what: str, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        assert self.process is not None  # noqa: S101 - the caller has looked
        begun = time.monotonic()
        try:
            return self.process.ask(what, max(self._left, 0.0), **arguments)
        finally:
            self._left -= time.monotonic() - begun

    def take(self, figures: Mapping[str, float], setting: object = None, number: int = 0) -> None:
        point = cast("Setting", setting or {})
        self.line.figures.extend(Figure(point, name, float(value), number) for name, value in figures.items())

    def end(self) -> None:
        if self.process is not None:
            self.process.end()
            self.process = None


def shown(setting: Setting) -> str:
    """A point of a curve for people: `ef_search 64`."""
    return ", ".join(f"{name} {value}" for name, value in setting.items())
