"""The vector file: exactly the committed rows are read back."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ragkit.errors import KnowledgeBaseDamaged, StoreError
from ragkit.store.base import Rows
from ragkit.store.native.vector_file import HEADER_BYTES, VectorFile, row_checksums
from ragkit.testing.store_factory import unit_rows

FIX = "`ragkit verify --repair`"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.f32"


def write_rows(path: Path, rows: Rows) -> VectorFile:
    file = VectorFile.create(path, rows.shape[1], fix=FIX)
    file.append(rows)
    file.sync()
    return file


def reopened(file: VectorFile, rows: int, *, writable: bool = False) -> VectorFile:
    return VectorFile.open(
        file.path, dimension=file.dimension, file_id=file.file_id, rows=rows, fix=FIX, writable=writable
    )


def test_rows_are_read_back_unchanged(path: Path) -> None:
    rows = unit_rows(100, 6, seed=1)
    file = write_rows(path, rows)
    assert np.array_equal(file.matrix(), rows)
    assert np.array_equal(reopened(file, 100).matrix(), rows)
    assert path.stat().st_size == HEADER_BYTES + rows.nbytes


def test_append_returns_the_first_row_number(path: Path) -> None:
    file = VectorFile.create(path, 3, fix=FIX)
    assert [file.append(unit_rows(n, 3, seed=n)) for n in (2, 0, 5)] == [0, 2, 2]
    assert file.rows == 7


def test_a_new_file_has_no_rows(path: Path) -> None:
    file = VectorFile.create(path, 3, fix=FIX)
    assert file.matrix().shape == (0, 3)
    assert reopened(file, 0).matrix().shape == (0, 3)
    assert file.checksums().tolist() == []


def test_the_matrix_cannot_be_written_to(path: Path) -> None:
    matrix = write_rows(path, unit_rows(2, 3, seed=1)).matrix()
    with pytest.raises(ValueError, match="read-only"):
        matrix[0, 0] = 1


def test_a_reader_sees_what_was_appended_since_and_keeps_its_old_view(path: Path) -> None:
    rows = unit_rows(5000, 4, seed=1)
    file = write_rows(path, rows[:10])
    reader = reopened(file, 10)
    before = reader.matrix(10)
    file.append(rows[10:])
    assert np.array_equal(reader.matrix(5000), rows)
    assert np.array_equal(before, rows[:10])
    assert reader.matrix(7).shape == (7, 4)


def test_a_view_outlives_the_file(path: Path) -> None:
    rows = unit_rows(9, 4, seed=1)
    file = write_rows(path, rows)
    view = file.matrix()
    file.close()
    file.close()
    path.unlink()
    assert np.array_equal(view, rows)


def test_rows_behind_the_committed_ones_are_overwritten(path: Path) -> None:
    rows = unit_rows(9, 4, seed=1)
    file = write_rows(path, rows[:6])
    writer = reopened(file, 2, writable=True)
    assert writer.append(rows[6:]) == 2
    assert np.array_equal(writer.matrix(), rows[[0, 1, 6, 7, 8]])


def test_rows_of_any_float_and_stride_are_written_as_float32(path: Path) -> None:
    rows = unit_rows(8, 4, seed=1)
    file = VectorFile.create(path, 4, fix=FIX)
    file.append(rows.astype(np.float64)[::2].astype(np.float32))
    file.append(np.asfortranarray(rows))
    assert np.array_equal(file.matrix(), np.vstack([rows[::2], rows]))


def test_an_existing_file_is_never_overwritten(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(FileExistsError, match=r"vectors\.f32"):
        VectorFile.create(path, 3, fix=FIX)
    assert path.read_text() == "precious"


def test_a_file_that_cannot_be_created_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        VectorFile.create(tmp_path / "missing" / "vectors.f32", 3, fix=FIX)


def test_a_read_only_file_is_not_appended_to(path: Path) -> None:
    file = reopened(write_rows(path, unit_rows(2, 3, seed=1)), 2)
    with pytest.raises(StoreError, match="cannot be written: Bad file descriptor"):
        file.append(unit_rows(1, 3, seed=2))


def test_a_directory_in_place_of_the_file_is_damage(path: Path) -> None:
    file = write_rows(path, unit_rows(1, 4, seed=1))
    path.unlink()
    path.mkdir()
    with pytest.raises(KnowledgeBaseDamaged, match=r"cannot be read \(Is a directory\)"):
        reopened(file, 1)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.unlink(), "is missing: run `ragkit verify --repair`"),
        (lambda path: os.truncate(path, HEADER_BYTES + 9 * 16 - 1), r"is truncated \(8 of 9 rows\)"),
        (lambda path: os.truncate(path, 3), "is not a vector file, or has a damaged header"),
        (lambda path: path.write_bytes(b"%PDF" + bytes(1000)), "is not a vector file"),
        (lambda path: path.write_bytes(b"ragkvec\n" + bytes(1000)), "has a checksum mismatch in its header"),
        (
            lambda path: write_rows(path.with_suffix(".b"), unit_rows(9, 4, seed=2)).path.replace(path),
            "to another index",
        ),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be opened .Is a directory"),
    ],
)
def test_a_damaged_file_is_detected(path: Path, damage: object, reason: str) -> None:
    file = write_rows(path, unit_rows(9, 4, seed=1))
    assert callable(damage)
    damage(path)
    with pytest.raises(KnowledgeBaseDamaged, match=reason) as caught:
        reopened(file, 9, writable=True)
    assert caught.value.path == str(path)


def test_an_unknown_layout_is_rejected(path: Path) -> None:
    file = write_rows(path, unit_rows(1, 4, seed=1))
    head = bytearray(path.read_bytes())
    head[8] = 2
    head[32:36] = zlib.crc32(head[:32]).to_bytes(4, "little")
    path.write_bytes(head)
    with pytest.raises(KnowledgeBaseDamaged, match="has layout 2, expected 1"):
        reopened(file, 1)


def test_a_file_that_is_truncated_while_open_is_detected(path: Path) -> None:
    file = write_rows(path, unit_rows(9, 4, seed=1))
    os.truncate(path, HEADER_BYTES)
    with pytest.raises(KnowledgeBaseDamaged, match=r"is truncated \(0 of 9 rows\)"):
        file.matrix()


@pytest.mark.parametrize("dimension", [1, 3, 8])
def test_checksums_detect_the_altered_rows(path: Path, dimension: int) -> None:
    file = write_rows(path, unit_rows(40_000, dimension, seed=1))
    expected = file.checksums()
    assert np.array_equal(file.checksums(), expected)
    for row in (7, 39_999):
        with path.open("r+b") as raw:
            raw.seek(HEADER_BYTES + row * dimension * 4 + 1)
            byte = raw.read(1)
            raw.seek(-1, os.SEEK_CUR)
            raw.write(bytes([byte[0] ^ 0x10]))
    assert np.flatnonzero(file.checksums() != expected).tolist() == [7, 39_999]
    assert np.array_equal(file.checksums(10, 20), expected[10:30])


@given(
    arrays.arrays(np.float32, st.tuples(st.just(1), st.integers(1, 9)), elements=st.floats(-1, 1, width=32)), st.data()
)
def test_every_single_flipped_bit_changes_the_checksum(rows: Rows, data: st.DataObject) -> None:
    flipped = bytearray(rows.tobytes())
    bit = data.draw(st.integers(0, len(flipped) * 8 - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    altered = np.frombuffer(bytes(flipped), np.float32).reshape(rows.shape)
    assert row_checksums(altered)[0] != row_checksums(rows)[0]


def test_a_checksum_depends_on_the_row_alone() -> None:
    rows = unit_rows(50, 7, seed=1)
    sums = row_checksums(rows)
    assert len(set(sums.tolist())) == 50
    assert [row_checksums(row[None])[0] for row in rows] == sums.tolist()
    assert row_checksums(rows[:, ::-1])[0] != sums[0]


def checksum_in_whole_numbers(row: bytes, word: int) -> int:
    """The documented checksum in Python arithmetic; `word` is 8 bytes, or 4 for odd dimensions."""
    total = 0
    for place in range(len(row) // word):
        weight = (place + 1) * 0x9E3779B97F4A7C15 % 2**64
        weight = (weight ^ weight >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        weight = (weight ^ weight >> 27) * 0x94D049BB133111EB % 2**64
        weight = (weight ^ weight >> 31) | 1
        total += weight * int.from_bytes(row[place * word : (place + 1) * word], "little")
    return (total + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize(("dimension", "word"), [(384, 8), (2, 8), (3, 4), (1, 4)])
def test_the_checksum_is_the_same_on_every_machine(dimension: int, word: int) -> None:
    rows = unit_rows(5, dimension, seed=1)
    assert row_checksums(rows).tolist() == [checksum_in_whole_numbers(row.tobytes(), word) for row in rows]


def test_checking_fifty_thousand_rows_is_fast() -> None:
    rows = unit_rows(2_000, 384, seed=1)[np.arange(50_000) % 2_000]
    start = time.process_time()
    row_checksums(rows)
    assert time.process_time() - start < 0.15  # 75 MB; about 3 ms on a current machine
