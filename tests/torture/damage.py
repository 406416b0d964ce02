"""Corrupt files of an idle knowledge base: flipped bits; deleted, emptied, halved or foreign files.

After each: a search returns the same hits, or a one-line error that names the repair; `verify` finds the damage, unless
it has no effect; `rm` fails, or leaves nothing damaged; `verify --repair` repairs it and embeds only lost texts.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.torture.bench import Bench, TrialResult, copy_tree, flip, seeds
from tests.torture.folder import DRAFT, edition_files, write_files
from tests.torture.forks import CommandResult
from tests.torture.oracle import Oracle

_LAST_DIGITS = 5e-6
DAMAGES = ("deleted", "emptied", "halved", "foreign", "zeroed page")
QUESTION = ("search", "canary part edition0 file03 mountain", "-k", "20", "--json")


class BitFlips:
    """One flipped bit: half of the trials choose the file by size, half uniformly."""

    name = "bit flip"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Flip one bit."""
        chance = random.Random(key)
        before = _search_undamaged(bench)
        paths = [path for path in files_of(bench.kb) if path.stat().st_size]
        sizes = [path.stat().st_blocks for path in paths] if chance.random() < 0.5 else [1] * len(paths)
        path = chance.choices(paths, [size or 1 for size in sizes])[0]
        flip(path, chance)
        return _check(bench, before, path, f"a bit of {path.relative_to(bench.kb)}")


class DamagedFiles:
    """Every file, with every kind of damage."""

    name = "file damaged"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """`index.sqlite:halved`."""
        names = [str(path.relative_to(bench.pristine)) for path in files_of(bench.pristine)]
        results = [f"{name}:{way}" for name in names for way in DAMAGES]
        chance.shuffle(results)
        yield from results[:count]

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Damage one file. Stores with random file names may lack the file: then nothing is damaged."""
        name, _, way = key.rpartition(":")
        path = bench.kb / name
        before = _search_undamaged(bench)
        if not path.exists():
            return TrialResult(reached=False)
        if not _damage(bench, path, way):
            return TrialResult(reached=False)
        return _check(bench, before, path, f"{name} {way}")


def files_of(kb: Path) -> list[Path]:
    """Every file of a knowledge base, sorted."""
    return sorted(path for path in kb.rglob("*") if path.is_file())


def _search_undamaged(bench: Bench) -> CommandResult:
    bench.reset()
    before = bench.commands.run(*QUESTION, *bench.kb_options)
    if before.code != 0:
        raise RuntimeError(before.summary())
    bench.reset()
    return before


def _damage(bench: Bench, path: Path, way: str) -> bool:
    """Damage a file. Returns whether it changed."""
    size = path.stat().st_size
    if way == "deleted":
        path.unlink()
        return True
    if way == "foreign":
        other = _foreign_kb(bench) / path.relative_to(bench.kb)
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


def _foreign_kb(bench: Bench) -> Path:
    """A knowledge base of another folder with the same settings; built once."""
    place = bench.root / "foreign"
    if not place.exists():
        write_files(bench.root / "others", edition_files(77))
        result = bench.commands.run("index", "others", "--kb", "foreign", "--config", "kb.yaml", "-q")
        if result.code != 0:
            raise RuntimeError(result.summary())
    return place


def _check(bench: Bench, before: CommandResult, path: Path, what: str) -> TrialResult:
    oracle = bench.oracle()
    after = oracle.run(*QUESTION)
    if after.code == 0:
        _check_hits(oracle, before, after, what)
    elif "ragkit verify --repair" not in after.err and "ragkit index" not in after.err:
        oracle.fault("unclear", f"{what}: {after.summary()}")
    verified = oracle.run("verify", "--json")
    if verified.code not in {0, 5}:
        oracle.fault("closed", f"{what}: {verified.summary()}")
    if verified.code == 0:
        # no problem was reported, so there must be none
        oracle.check_rebuilt(bench.listing)
    else:
        _check_repair(bench, oracle, path, what)
    return TrialResult(tuple(oracle.faults))


def _check_hits(oracle: Oracle, before: CommandResult, after: CommandResult, what: str) -> None:
    was, now = before.json["hits"], after.json["hits"]
    if was and not now:
        oracle.fault("empty", f"{what}: a search finds nothing")
    elif [_without_scores(hit) for hit in was] != [_without_scores(hit) for hit in now]:
        oracle.fault("wrong", f"{what}: a search returns other hits")
    elif not all(_scores_are_close(item, other) for item, other in zip(was, now, strict=True)):
        oracle.fault("wrong", f"{what}: a search returns other scores")


def _without_scores(hit: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in hit.items() if name not in {"score", "scores"}}


def _scores_are_close(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two hits have close scores: without the store, the catalog computes the cosine, and engines differ in the
    last digits."""
    pairs = [(one["score"], other["score"])]
    pairs += [(value, other.get("scores", {}).get(name)) for name, value in one.get("scores", {}).items()]
    return all(a == b or (a is not None and b is not None and abs(a - b) <= _LAST_DIGITS) for a, b in pairs)


def _check_repair(bench: Bench, oracle: Oracle, path: Path, what: str) -> None:
    """Check both repairs: `verify --repair`, which is not told the settings, and in a copy the next `index`."""
    damaged = bench.root / "spoilt"
    copy_tree(bench.kb, damaged)
    _check_change(bench, oracle, what)
    shutil.rmtree(bench.kb)
    copy_tree(damaged, bench.kb)
    result, embedded = bench.commands.run_counted("verify", "--repair", "--kb", "kb")
    oracle.check_output(result)
    if result.code != 0:
        oracle.fault("closed", f"{what}: {result.summary()}")
    oracle.check_rebuilt(bench.listing)
    allowed = _allowed_embeddings(bench, path)
    if embedded > allowed:
        oracle.fault("embedded", f"{what}: the repair embedded {embedded} texts, expected at most {allowed}")
    shutil.rmtree(bench.kb)
    damaged.rename(bench.kb)
    oracle.check_next_run(bench.listing)


def _check_change(bench: Bench, oracle: Oracle, what: str) -> None:
    """A command must not give new checksums to what is damaged: it fails, or only the store is damaged afterwards."""
    changed = oracle.run("remove", f"docs/{min(bench.files.keys() - {DRAFT})}")
    if changed.code == 0:
        verified = oracle.run("verify", "--json")
        problems = verified.json["problems"] if verified.out else [{"part": "", "what": verified.summary()}]
        if any(problem["part"] != "store" for problem in problems):
            oracle.fault("wrong", f"{what}: `rm` succeeded, and left {problems}"[:600])
    elif "ragkit verify --repair" not in changed.err and "ragkit index" not in changed.err:
        oracle.fault("unclear", f"{what}: {changed.summary()}")


def _allowed_embeddings(bench: Bench, path: Path) -> int:
    """Number of texts to embed again, because their vectors or the catalog are lost."""
    own = path.parent == bench.kb and (path.name == "index.sqlite" or path.suffix == ".f32")
    return len(bench.listing) if own else 0
