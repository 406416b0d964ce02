"""Benchmark rows: generation, import and storage."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from ragkit.bench.datasets import (
    BUCKETS,
    Dataset,
    ExternalVectors,
    bucket_limit,
    generate_dataset,
    read_hdf5,
    write_dataset,
)
from ragkit.errors import InvalidOption, InvalidVector


def test_generated_rows_are_normalized_and_one_percent_more_than_requested(data: Dataset) -> None:
    assert data.rows.shape == (505, 8)
    assert (data.base_count, data.queries.shape) == (500, (10, 8))
    np.testing.assert_allclose(np.linalg.norm(data.rows, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(data.queries, axis=1), 1, atol=1e-6)


def test_the_seed_determines_the_rows(data: Dataset, tmp_path: Path) -> None:
    again = generate_dataset(tmp_path / "again", 500, 8, queries=10, seed=3)
    other = generate_dataset(tmp_path / "other", 500, 8, queries=10, seed=4)
    np.testing.assert_array_equal(again.rows, data.rows)
    np.testing.assert_array_equal(again.deleted_rows, data.deleted_rows)
    assert again.fingerprint() == data.fingerprint() != other.fingerprint()


def test_generated_rows_are_clustered(tmp_path: Path) -> None:
    data = generate_dataset(tmp_path / "d", 2000, 64, seed=1)
    cosines = np.array(data.rows[:500]) @ np.array(data.rows).T
    cosines[np.arange(500), np.arange(500)] = -1
    # the nearest of 2,000 rows without clusters has a score of about 0.45
    assert float(np.median(cosines.max(1))) > 0.6
    assert abs(float(np.median(cosines))) < 0.05


def test_a_filter_selects_its_share_of_the_rows(tmp_path: Path) -> None:
    buckets = generate_dataset(tmp_path / "d", 20_000, 4).buckets
    assert [bucket_limit(share) for share in (0.5, 0.1, 0.001)] == [5000, 1000, 10]
    assert abs((buckets < bucket_limit(0.1)).mean() - 0.1) < 0.01
    assert (int(buckets.min()), int(buckets.max())) == (0, BUCKETS - 1)


def test_one_percent_of_the_rows_are_deleted(data: Dataset) -> None:
    assert len(data.deleted_rows) == len(set(data.deleted_rows.tolist())) == 5
    assert 0 <= data.deleted_rows.min() <= data.deleted_rows.max() < data.base_count


def test_external_rows_are_normalized_and_some_are_held_out_as_queries(tmp_path: Path) -> None:
    rows = np.arange(1, 401, dtype=np.float32).reshape(100, 4)
    texts = [f"text {number}" for number in range(100)]
    data = write_dataset(tmp_path, ExternalVectors("mine", rows, texts=texts), queries=50)
    assert (data.name, data.base_count, data.rows.shape, data.queries.shape) == (
        "mine: 89 rows x 4",
        89,
        (90, 4),
        (10, 4),
    )
    result = {tuple(np.round(row, 5)) for row in np.concatenate([data.rows, data.queries])}
    assert result == {tuple(np.round(row / np.linalg.norm(row), 5)) for row in rows}
    # each text still belongs to its row
    for place, text in enumerate(data.texts(0, 90)):
        row = rows[int(text.split()[1])]
        np.testing.assert_allclose(data.rows[place], row / np.linalg.norm(row), atol=1e-6)


def test_texts_are_read_by_row(data: Dataset) -> None:
    assert data.texts(3, 5) == ["row 3", "row 4"]
    assert data.texts(504, 505) == ["row 504"]


def test_a_zero_row_is_refused_by_its_number(tmp_path: Path) -> None:
    rows = np.ones((40, 3), np.float32)
    rows[7] = 0
    with pytest.raises(InvalidVector, match="vector 7 has length 0"):
        write_dataset(tmp_path, ExternalVectors("bad", rows, np.ones((2, 3)), shuffle=False))


def test_too_few_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"data must be at least 30 rows \(got '15 rows'\)"):
        write_dataset(tmp_path, ExternalVectors("few", np.ones((15, 3))))


def test_a_file_of_ann_benchmarks_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    with h5py.File(tmp_path / "glove-25-angular.hdf5", "w") as file:
        file["train"], file["test"] = rng.normal(size=(200, 25)), rng.normal(size=(9, 25))
        file["neighbors"] = np.zeros((9, 100), np.int32)
    data = write_dataset(tmp_path / "d", read_hdf5(tmp_path / "glove-25-angular.hdf5"))
    assert (data.name, data.queries.shape) == ("glove-25-angular: 198 rows x 25", (9, 25))


def test_a_file_of_another_format_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "x.hdf5").write_text("no")
    with pytest.raises(InvalidOption, match="a file in the ann-benchmarks layout"):
        read_hdf5(tmp_path / "x.hdf5")
    with h5py.File(tmp_path / "y.hdf5", "w") as file:
        file["rows"] = np.ones((3, 3))
    with pytest.raises(InvalidOption, match="a file in the ann-benchmarks layout"):
        read_hdf5(tmp_path / "y.hdf5")
