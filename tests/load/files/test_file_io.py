"""Reading one file safely."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.files import file_io
from ragkit.load.files.file_io import FileChanged, FileStat, read_bytes, read_bytes_with_stat


def test_bytes_and_stat_of_a_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert read_bytes_with_stat(path, FileStat.from_stat(path.stat()), 3) == (b"abc", FileStat.from_stat(path.stat()))


def test_a_path_may_be_bytes(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/\xff\xfe"
    Path(os.fsdecode(raw)).write_bytes(b"abc")
    assert read_bytes(raw, None, 10) == b"abc"


def test_a_file_that_changed_since_the_scan_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    old = FileStat.from_stat(path.stat())
    path.write_bytes(b"abcd")
    with pytest.raises(FileChanged, match="changed since the folder was scanned: retry"):
        read_bytes(path, old, 100)


def test_a_file_that_grows_while_it_is_read_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1000)
    read = file_io._read

    def read_and_grow(fd: int, size: int, source: str) -> bytes:
        data = read(fd, size, source)
        with path.open("ab") as file:
            file.write(b"y")
        return data

    monkeypatch.setattr(file_io, "_read", read_and_grow)
    with pytest.raises(FileChanged, match="changed while it was being read"):
        read_bytes(path, None, 1 << 40)


def test_a_file_that_reports_a_wrong_size_is_rejected() -> None:
    with pytest.raises(FileChanged, match="changed while it was being read"):
        read_bytes(Path("/proc/self/status"), None, 1000)


def test_a_pipe_is_rejected_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    started = time.monotonic()
    with pytest.raises(LoadError, match="a named pipe, not a regular file"):
        read_bytes(tmp_path / "pipe", None, 10)
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(("path", "reason"), [("/dev/zero", "a device"), ("/tmp", "a folder")])
def test_devices_and_folders_are_rejected_by_type(path: str, reason: str) -> None:
    with pytest.raises(LoadError, match=f"{reason}, not a regular file"):
        read_bytes(Path(path), None, 10)


def test_a_symbolic_link_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/etc/passwd")
    with pytest.raises(LoadError, match="a symbolic link, not a regular file"):
        read_bytes(tmp_path / "a", None, 1 << 20)


def test_a_file_above_the_limit_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(LoadLimitExceeded, match="larger than 1 MB: raise max_file_mb"):
        read_bytes(tmp_path / "a", None, 1 << 20)


@pytest.mark.parametrize(("name", "reason"), [("gone", "does not exist"), ("a\0b", "invalid file name")])
def test_a_missing_file_or_an_invalid_name_is_an_error(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(LoadError, match=reason):
        read_bytes(tmp_path / name, None, 10)
