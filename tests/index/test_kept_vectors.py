"""The file of vectors that searches have computed: whole records only, from any number of processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragkit.index.kept_vectors import KEPT_FILE, KeptVectors, empty_kept_vectors

HASHES = [bytes([n] * 16) for n in range(4)]
ROWS = np.eye(4, 8, dtype=np.float32)


def kept(folder: Path, fingerprint: str = "model") -> KeptVectors:
    return KeptVectors(folder, fingerprint, 8)


def found(folder: Path) -> list[bytes]:
    return list(kept(folder).find(HASHES))


def test_another_process_finds_what_one_has_added(tmp_path: Path) -> None:
    reader = kept(tmp_path)
    assert reader.find(HASHES) == {}
    kept(tmp_path).add(HASHES[:2], ROWS[:2])
    kept(tmp_path).add(HASHES[2:], ROWS[2:])
    vectors = reader.find(HASHES)
    assert [vectors[key].tolist() for key in HASHES] == ROWS.tolist()


@pytest.mark.parametrize("lost", [1, 30, 55])
def test_a_record_that_was_cut_off_is_left_out_and_replaced(tmp_path: Path, lost: int) -> None:
    kept(tmp_path).add(HASHES[:2], ROWS[:2])
    path = tmp_path / KEPT_FILE
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - lost)
    assert found(tmp_path) == HASHES[:1]
    kept(tmp_path).add(HASHES[2:3], ROWS[2:3])
    assert found(tmp_path) == [HASHES[0], HASHES[2]]


def test_a_flipped_bit_costs_one_record(tmp_path: Path) -> None:
    kept(tmp_path).add(HASHES[:3], ROWS[:3])
    path = tmp_path / KEPT_FILE
    data = bytearray(path.read_bytes())
    for place in range(len(data)):
        changed = data.copy()
        changed[place] ^= 4
        path.write_bytes(changed)
        vectors = kept(tmp_path).find(HASHES)
        assert len(vectors) == (0 if place < 32 else 2)
        assert all(row.tolist() == ROWS[HASHES.index(key)].tolist() for key, row in vectors.items())


def test_vectors_of_another_model_are_replaced(tmp_path: Path) -> None:
    kept(tmp_path).add(HASHES[:2], ROWS[:2])
    other = kept(tmp_path, "other model")
    assert other.find(HASHES) == {}
    other.add(HASHES[2:3], ROWS[2:3])
    assert found(tmp_path) == []
    assert list(kept(tmp_path, "other model").find(HASHES)) == HASHES[2:3]


def test_taking_empties_the_file_unless_it_fails(tmp_path: Path) -> None:
    with kept(tmp_path).take() as vectors:
        assert vectors == {}
    kept(tmp_path).add(HASHES[:2], ROWS[:2])
    with pytest.raises(OSError, match="full"), kept(tmp_path).take() as vectors:
        raise OSError("the disk is full")
    assert found(tmp_path) == HASHES[:2]
    reader = kept(tmp_path)
    assert list(reader.find(HASHES)) == HASHES[:2]
    with kept(tmp_path).take() as vectors:
        assert list(vectors) == HASHES[:2]
        kept(tmp_path).add(HASHES[2:3], ROWS[2:3])  # does not wait
    assert found(tmp_path) == []
    kept(tmp_path).add(HASHES[3:], ROWS[3:])
    assert list(reader.find(HASHES)) == [HASHES[0], HASHES[1], HASHES[3]]
    empty_kept_vectors(tmp_path)
    assert found(tmp_path) == []
