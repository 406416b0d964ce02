"""Files are compared with their checksums; every kind of damage is reported."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragkit.index.catalog.checksums import (
    _BLOCK_BYTES,
    CHECKSUM_FILE,
    delete_checksums,
    find_changed_files,
    read_checksums,
    write_checksums,
    write_file_durably,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "b").write_bytes(b"")
    write_checksums(tmp_path, ["a", "b"])
    return tmp_path


def test_unchanged_files_have_no_problems(folder: Path) -> None:
    assert find_changed_files(folder) == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(b""), "has 0 bytes, expected 10240"),
        (lambda path: path.write_bytes(path.read_bytes()[:99]), "has 99 bytes, expected 10240"),
        (lambda path: path.write_bytes(path.read_bytes()[::-1]), "has a checksum mismatch"),
    ],
)
def test_damage_is_reported(folder: Path, damage: Callable[[Path], object], reason: str) -> None:
    damage(folder / "a")
    assert [(change.file, change.reason) for change in find_changed_files(folder)] == [("a", reason)]


def test_every_single_flipped_bit_is_found(folder: Path) -> None:
    original = (folder / "a").read_bytes()
    rng = random.Random(7)
    for _ in range(200):
        bit = rng.randrange(len(original) * 8)
        data = bytearray(original)
        data[bit // 8] ^= 1 << (bit % 8)
        (folder / "a").write_bytes(data)
        assert len(find_changed_files(folder)) == 1


@pytest.mark.parametrize("text", ["", "{", "{}", '{"files": "{}", "crc": 1}', "[]", '{"files": 3, "crc": 1}'])
def test_a_damaged_checksum_file_is_ignored(folder: Path, text: str) -> None:
    (folder / CHECKSUM_FILE).write_text(text)
    assert read_checksums(folder) is None
    assert find_changed_files(folder) == []


def test_without_a_checksum_file_no_change_is_reported(folder: Path) -> None:
    delete_checksums(folder)
    delete_checksums(folder)
    (folder / "a").unlink()
    assert find_changed_files(folder) == []


def test_a_file_is_replaced_atomically(tmp_path: Path) -> None:
    write_file_durably(tmp_path / "x", b"one")
    write_file_durably(tmp_path / "x", b"two")
    assert (tmp_path / "x").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_file_that_many_replace_at_once_has_the_content_of_one(tmp_path: Path) -> None:
    contents = [bytes([number]) * (1 << 18) for number in range(8)]
    with ThreadPoolExecutor(len(contents)) as pool:
        for _ in pool.map(lambda data: write_file_durably(tmp_path / "x", data), contents * 10):
            assert (tmp_path / "x").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("size", [0, 1, _BLOCK_BYTES - 1, _BLOCK_BYTES, _BLOCK_BYTES + 1, 3 * _BLOCK_BYTES + 5])
def test_a_file_of_any_size_is_compared_to_its_last_byte(tmp_path: Path, size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    path = tmp_path / "a"
    path.write_bytes(data)
    write_checksums(tmp_path, ["a"])
    assert read_checksums(tmp_path) == {"a": {"size": size, "crc": zlib.crc32(data)}}
    assert find_changed_files(tmp_path) == []
    if size:
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert [change.file for change in find_changed_files(tmp_path)] == ["a"]
