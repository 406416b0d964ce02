"""Corrupt files of an idle knowledge base: flipped bits; deleted, emptied, halved or foreign files.

After each: a search gives what it gave before, or one line of error that names the repair; `verify` finds the damage,
or there was none that matters; `verify --repair` mends it, and embeds nothing that it could keep.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.torture.bench import Bench, Outcome, copy_tree, flip, seeds
from tests.torture.folder import edition, write_files
from tests.torture.forks import Said
from tests.torture.oracle import Oracle

_LAST_DIGITS = 5e-6
WAYS = ("deleted", "emptied", "halved", "foreign", "zeroed page")
QUESTION = ("search", "canary part edition0 file03 mountain", "-k", "20", "--json")


class Flips:
    """One bit of one file: half of them anywhere by size, half in any file."""

    name = "bit flip"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> Outcome:
        """One flip."""
        chance = random.Random(key)
        before = _before(bench)
        paths = [path for path in files_of(bench.kb) if path.stat().st_size]
        sizes = [path.stat().st_blocks for path in paths] if chance.random() < 0.5 else [1] * len(paths)
        path = chance.choices(paths, [size or 1 for size in sizes])[0]
        flip(path, chance)
        return _judged(bench, before, path, f"a bit of {path.relative_to(bench.kb)}")


class Files:
    """Every file, with every kind of damage."""

    name = "file damaged"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """`index.sqlite:halved`."""
        names = [str(path.relative_to(bench.pristine)) for path in files_of(bench.pristine)]
        found = [f"{name}:{way}" for name in names for way in WAYS]
        chance.shuffle(found)
        yield from found[:count]

    def trial(self, bench: Bench, key: str) -> Outcome:
        """Damage one file. Random file names of a store may have changed: then there is nothing to damage."""
        name, _, way = key.rpartition(":")
        path = bench.kb / name
        before = _before(bench)
        if not path.exists():
            return Outcome(reached=False)
        if not _damaged(bench, path, way):
            return Outcome(reached=False)
        return _judged(bench, before, path, f"{name} {way}")


def files_of(kb: Path) -> list[Path]:
    """Every file of a knowledge base, sorted."""
    return sorted(path for path in kb.rglob("*") if path.is_file())


def _before(bench: Bench) -> Said:
    bench.begin()
    before = bench.commands.run(*QUESTION, *bench.place)
    if before.code != 0:
        raise RuntimeError(before.short())
    bench.begin()
    return before


def _damaged(bench: Bench, path: Path, way: str) -> bool:
    """Whether there was anything to damage."""
    size = path.stat().st_size
    if way == "deleted":
        path.unlink()
        return True
    if way == "foreign":
        other = _foreign(bench) / path.relative_to(bench.kb)
        if not other.exists() or other.read_bytes() == path.read_bytes():
            return False
        path.write_bytes(other.read_bytes())
        return True
    if not size:
        return False
    with path.open("r+b") as stream:
        if way == "zeroed page":
            page = stream.read(4096)
            stream.seek(0)
            stream.write(bytes(len(page)))
            return any(page)
        stream.truncate(size // 2 if way == "halved" else 0)
    return True


def _foreign(bench: Bench) -> Path:
    """A knowledge base of another folder with the same settings; built once."""
    place = bench.root / "foreign"
    if not place.exists():
        write_files(bench.root / "others", edition(77))
        said = bench.commands.run("index", "others", "--kb", "foreign", "--config", "kb.yaml", "-q")
        if said.code != 0:
            raise RuntimeError(said.short())
    return place


def _judged(bench: Bench, before: Said, path: Path, what: str) -> Outcome:
    oracle = bench.oracle()
    after = oracle.run(*QUESTION)
    if after.code == 0:
        _same_hits(oracle, before, after, what)
    elif "ragkit verify --repair" not in after.err and "ragkit index" not in after.err:
        oracle.fault("unclear", f"{what}: {after.short()}")
    verified = oracle.run("verify", "--json")
    if verified.code not in {0, 5}:
        oracle.fault("closed", f"{what}: {verified.short()}")
    if verified.code == 0:
        # no problem was reported, so there must be none
        oracle.sound(bench.listed)
    else:
        _repaired(bench, oracle, path, what)
    # the next run, without a repair before it
    return Outcome(tuple(oracle.faults))


def _same_hits(oracle: Oracle, before: Said, after: Said, what: str) -> None:
    was, now = before.json["hits"], after.json["hits"]
    if was and not now:
        oracle.fault("empty", f"{what}: nothing is found")
    elif [_without_scores(hit) for hit in was] != [_without_scores(hit) for hit in now]:
        oracle.fault("wrong", f"{what}: a search gives something else")
    elif not all(_close(one, other) for one, other in zip(was, now, strict=True)):
        oracle.fault("wrong", f"{what}: a search gives other scores")


def _without_scores(hit: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in hit.items() if name not in {"score", "scores"}}


def _close(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two hits score alike: where a store is not trusted any more, the catalog computes the cosine, and engines
    differ in its last digits."""
    pairs = [(one["score"], other["score"])]
    pairs += [(value, other.get("scores", {}).get(name)) for name, value in one.get("scores", {}).items()]
    return all(a == b or (a is not None and b is not None and abs(a - b) <= _LAST_DIGITS) for a, b in pairs)


def _repaired(bench: Bench, oracle: Oracle, path: Path, what: str) -> None:
    """Repair it twice: by `verify --repair`, and, in a copy, by the next `index`."""
    spoilt = bench.root / "spoilt"
    copy_tree(bench.kb, spoilt)
    said, embedded = counted(bench, "verify", "--repair", *bench.place)
    oracle.manners(said)
    if said.code != 0:
        oracle.fault("closed", f"{what}: {said.short()}")
    oracle.sound(bench.listed)
    allowed = _may_embed(bench, path)
    if embedded > allowed:
        oracle.fault("embedded", f"{what}: the repair embedded {embedded} texts, {allowed} had to be")
    shutil.rmtree(bench.kb)
    spoilt.rename(bench.kb)
    oracle.mended(bench.listed)


def counted(bench: Bench, *arguments: str) -> tuple[Said, int]:
    """A command, and how many texts it embedded."""
    note = bench.commands.scratch / "embedded"
    note.unlink(missing_ok=True)

    def work() -> int:
        from ragkit.cli import main
        from ragkit.embed.hashing import HashingEmbedder

        embed = HashingEmbedder.embed_texts

        def counting(self: HashingEmbedder, texts: list[str]) -> object:
            # one text is the probe sentence or a question
            if len(texts) > 1 or (texts and "Canary" in texts[0]):
                with note.open("a") as stream:
                    stream.write(f"{len(texts)}\n")
            return embed(self, texts)

        HashingEmbedder.embed_texts = counting  # type: ignore[assignment, method-assign]
        try:
            main(list(arguments))
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0

    said = bench.commands.call(work, arguments).wait()
    return said, sum(map(int, note.read_text().split())) if note.exists() else 0


def _may_embed(bench: Bench, path: Path) -> int:
    """Number of texts to embed again, because their vectors or the catalog are lost."""
    own = path.parent == bench.kb and (path.name == "index.sqlite" or path.suffix == ".f32")
    return len(bench.listed) if own else 0
