"""The groups of passages that say the same, in the catalog.

They are derived from the rows of the chunks, as the index of document fields is: a write session brings them up to date
at its end, without reading a file or embedding anything. A catalog that only older versions wrote has none.

The name of a group is the digest of its first passage, so that equal passages always share it. Every other passage was
compared with one that stands for the group.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ragkit.index.catalog.sqlite import Catalog, heading_from_json
from ragkit.lexical.near_duplicates import BANDS, DIGESTS_VERSION, Bands, Passage, digest_passages, says_the_same

TABLE = "passages"
MAX_COMPARISONS = 8
"""Passages of other groups that one passage is compared with."""
_BATCH = 500

_TABLES_SQL = (
    f"CREATE TABLE {TABLE} (chunk INTEGER PRIMARY KEY, exact INTEGER NOT NULL, bands BLOB NOT NULL,"
    " member_of INTEGER NOT NULL) STRICT",
    f"CREATE INDEX {TABLE}_by_group ON {TABLE} (member_of)",
    f"CREATE TABLE {TABLE}_documents (key INTEGER PRIMARY KEY, id TEXT NOT NULL) STRICT",
    # in a table of its own, since `meta` is copied to databases and this is not
    f"CREATE TABLE {TABLE}_state (version TEXT NOT NULL, groups INTEGER NOT NULL, stamp INTEGER NOT NULL) STRICT",
)


class DuplicateIndex:
    """The groups of a catalog. A passage that is alone has a group of its own."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def count_groups(self) -> int:
        """The number of groups with several passages; 0 in a catalog of an older version."""
        state = self._state()
        return state[1] if state else 0

    def stamp(self) -> int:
        """A number that changes whenever the groups do."""
        state = self._state()
        return state[2] if state else 0

    def _state(self) -> tuple[str, int, int] | None:
        """(version of the digests, number of groups with several passages, stamp)."""
        query = "SELECT count(*) FROM sqlite_master WHERE name = ?"
        if not self._connection.execute(query, (f"{TABLE}_state",)).fetchone()[0]:
            return None
        row: tuple[str, int, int] | None = self._connection.execute(f"SELECT * FROM {TABLE}_state").fetchone()  # noqa: S608
        return row

    def passages(self, chunk_ids: Sequence[str]) -> list[Passage]:
        """These chunks, each with its group; without those that are too short to have one."""
        query = f"{_PASSAGES_SQL} AND c.id IN (SELECT value FROM json_each(?))"  # noqa: S608 - constant
        return [Passage(*row) for row in self._connection.execute(query, (json.dumps([*chunk_ids]),))]

    def group(self, group: int) -> Iterator[tuple[int, str]]:
        """(key, source) of the live chunks of a group, by key."""
        return self._connection.execute(
            f"SELECT c.key, d.source FROM {TABLE} p JOIN chunks c ON c.key = p.chunk"  # noqa: S608 - constant name
            " JOIN documents d ON d.key = c.document WHERE c.live = 1 AND p.member_of = ? ORDER BY p.chunk",
            (group,),
        )

    def all_members(self) -> Iterator[Passage]:
        """The live passages of all groups with several passages."""
        several = f"SELECT member_of FROM {TABLE} GROUP BY member_of HAVING count(*) > 1"  # noqa: S608 - constant name
        for row in self._connection.execute(f"{_PASSAGES_SQL} AND p.member_of IN ({several})"):
            yield Passage(*row)

    def synchronize(self) -> None:
        """Group the passages of new documents, and forget those that are gone. Starts a transaction if needed."""
        catalog = Catalog(self._connection)
        current = (self._state() or ("", 0, 0))[0] == DIGESTS_VERSION
        added, removed = self._changes() if current else ([], [])
        if current and not added and not removed:
            return
        with catalog.transaction():
            if not current:
                self._recreate()
                added, removed = self._changes()
            self._forget(removed)
            if added:
                self._add(added)
            self._connection.execute(f"DELETE FROM {TABLE}_state")  # noqa: S608
            self._connection.execute(
                f"INSERT INTO {TABLE}_state SELECT ?, count(*), random() FROM (SELECT 1 FROM {TABLE}"  # noqa: S608
                " GROUP BY member_of HAVING count(*) > 1)",
                (DIGESTS_VERSION,),
            )

    def _changes(self) -> tuple[list[int], list[int]]:
        """The keys of live documents without digests, and the known keys that are none (or other ones)."""
        added = self._connection.execute(
            f"SELECT d.key FROM documents d LEFT JOIN {TABLE}_documents p ON p.key = d.key AND p.id = d.id"  # noqa: S608
            " WHERE p.key IS NULL AND d.live = 1 ORDER BY d.key"
        ).fetchall()
        removed = self._connection.execute(
            f"SELECT p.key FROM {TABLE}_documents p LEFT JOIN documents d ON d.key = p.key AND d.id = p.id"  # noqa: S608
            " AND d.live = 1 WHERE d.key IS NULL ORDER BY p.key"
        ).fetchall()
        return [row[0] for row in added], [row[0] for row in removed]

    def _recreate(self) -> None:
        for name in (TABLE, f"{TABLE}_documents", f"{TABLE}_state"):
            self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in _TABLES_SQL:
            self._connection.execute(statement)

    def _forget(self, documents: Sequence[int]) -> None:
        """Forget documents. A key of a chunk may have been given to another one, of a document that is added then."""
        if not documents:
            return
        keys = [(key,) for key in documents]
        self._connection.executemany(f"DELETE FROM {TABLE}_documents WHERE key = ?", keys)  # noqa: S608
        self._connection.execute(
            f"DELETE FROM {TABLE} WHERE chunk NOT IN (SELECT c.key FROM chunks c"  # noqa: S608
            f" JOIN {TABLE}_documents p ON p.key = c.document)"
        )

    def _add(self, documents: Sequence[int]) -> None:
        """Digest and group the passages of new documents."""
        known = self._connection.execute(f"SELECT chunk, exact, bands, member_of FROM {TABLE}").fetchall()  # noqa: S608
        grouping = _Grouping(self._connection, known)
        rows: list[tuple[int, int, bytes, int]] = []
        for start in range(0, len(documents), _BATCH):
            batch = json.dumps(documents[start : start + _BATCH])
            chunks = self._connection.execute(
                "SELECT c.key, c.text, c.heading, d.title FROM chunks c JOIN documents d ON d.key = c.document"
                " WHERE c.document IN (SELECT value FROM json_each(?)) ORDER BY c.key",
                (batch,),
            )
            while some := chunks.fetchmany(_BATCH):
                headings = [_headings(heading, title) for _, _, heading, title in some]
                digests = digest_passages([_statement(text, title) for _, text, _, title in some], headings)
                for (key, *_), exact, bands in zip(some, digests.exact.tolist(), digests.bands, strict=True):
                    if exact:
                        rows.append((key, exact, bands.tobytes(), 0))
            self._connection.execute(
                f"INSERT OR REPLACE INTO {TABLE}_documents SELECT key, id FROM documents"  # noqa: S608
                " WHERE key IN (SELECT value FROM json_each(?))",
                (batch,),
            )
        rows.sort()
        groups = grouping.assign(rows)
        self._connection.executemany(
            f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?, ?)",  # noqa: S608
            ((key, exact, bands, group) for (key, exact, bands, _), group in zip(rows, groups, strict=True)),
        )


class _Grouping:
    """Gives new passages their groups."""

    def __init__(self, connection: sqlite3.Connection, known: Sequence[tuple[int, int, bytes, int]]) -> None:
        """`known`: (chunk, exact, bands, group) of the passages that have one."""
        self._connection = connection
        self._known = known
        self._texts: dict[int, str] = {}

    def assign(self, rows: Sequence[tuple[int, int, bytes, int]]) -> list[int]:
        """The group of each new passage: that of an equal one, or of one that says the same, or its own."""
        group_of = {exact: group for _, exact, _, group in self._known}
        first_of: dict[int, tuple[int, bytes]] = {}  # one passage of each digest
        for key, exact, bands, _ in (*self._known, *rows):
            first_of.setdefault(exact, (key, bands))
        digests = [*first_of]
        speaker: dict[int, int] = {}  # group -> the passage that stands for it
        for exact, group in group_of.items():
            if exact == group or group not in speaker:
                speaker[group] = first_of[exact][0]
        similar = _pairs_with_equal_bands([bands for _, bands in first_of.values()])
        for place, exact in enumerate(digests):
            if exact in group_of:
                continue
            key, found = first_of[exact][0], exact
            candidates = dict.fromkeys(group_of[digests[other]] for other in similar.get(place, ()))
            for group in [*candidates][:MAX_COMPARISONS]:
                if says_the_same(self._text(speaker[group]), self._text(key)):
                    found = group
                    break
            group_of[exact] = found
            speaker.setdefault(found, key)
        return [group_of[exact] for _, exact, _, _ in rows]

    def _text(self, key: int) -> str:
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) > _BATCH:
                self._texts.clear()
            query = "SELECT c.text, d.title FROM chunks c JOIN documents d ON d.key = c.document WHERE c.key = ?"
            text = self._texts[key] = _statement(*self._connection.execute(query, (key,)).fetchone())
        return text


def _pairs_with_equal_bands(rows: Sequence[bytes]) -> dict[int, list[int]]:
    """For each passage, the earlier ones that share a band: the first one with it, and the one before."""
    if len(rows) < 2:
        return {}
    bands: Bands = np.frombuffer(b"".join(rows), np.uint32).reshape(-1, BANDS)
    pairs: dict[int, list[int]] = {}
    for band in range(BANDS):
        for first, before, place in _runs(bands[:, band]).tolist():
            others = pairs.setdefault(place, [])
            others += [other for other in dict.fromkeys((first, before)) if other not in others]
    return pairs


def _runs(values: NDArray[np.uint32]) -> NDArray[np.int64]:
    """(first place with the value, the place with it before, place) of each value that came before: (n, 3)."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_repeated = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    first = starts[np.searchsorted(starts, is_repeated, side="right") - 1]
    return np.stack([order[first], order[is_repeated - 1], order[is_repeated]], axis=1)


def _statement(text: str, title: str) -> str:
    """The text of a chunk without front matter and the title on its first line, which differ between versions."""
    if text.startswith("---\n") and (end := text.find("\n---\n", 3)) >= 0:
        text = text[end + len("\n---\n") :]
    first, _, rest = text.lstrip().partition("\n")
    return rest if title and first.lstrip("#").strip() == title else text


def _headings(heading: str, title: str) -> str:
    """The heading path of a chunk, without the title: versions of a document have different ones."""
    return " > ".join(part for part in heading_from_json(heading)[0] if part != title)


_PASSAGES_SQL = (
    "SELECT c.key, c.id, p.member_of, d.source, d.title, d.metadata FROM passages p JOIN chunks c ON c.key = p.chunk"
    " JOIN documents d ON d.key = c.document WHERE c.live = 1"
)
