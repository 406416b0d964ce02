"""Which files of a folder are loaded, and why others are skipped."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit.errors import InvalidOption
from ragkit.load.files.walk import FolderOptions, FoundFile, SkippedPath, walk_files


def tree(root: Path, *names: str) -> None:
    """Create files that contain their own name; a name that ends with `/` is a folder."""
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)


def found_names(root: Path, options: FolderOptions | None = None) -> list[str]:
    return [str(item.path.relative_to(root)) for item in walk_files(root, options) if isinstance(item, FoundFile)]


def skip_reasons(root: Path, options: FolderOptions | None = None) -> dict[str, str]:
    return {
        str(item.path.relative_to(root)): item.reason
        for item in walk_files(root, options)
        if isinstance(item, SkippedPath)
    }


def test_files_are_sorted_by_name_across_folders(tmp_path: Path) -> None:
    tree(tmp_path, "b.txt", "a/2.txt", "a/1.txt", "a/z/0.txt", "c/", "B.txt")
    assert found_names(tmp_path) == ["B.txt", "a/1.txt", "a/2.txt", "a/z/0.txt", "b.txt"]


def test_a_found_file_has_its_stat(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt")
    [item] = walk_files(tmp_path)
    status = (tmp_path / "a.txt").stat()
    assert isinstance(item, FoundFile)
    assert (item.stat.size, item.stat.mtime_ns) == (5, status.st_mtime_ns)
    assert (item.stat.ctime_ns, item.stat.inode) == (status.st_ctime_ns, status.st_ino)


def test_hidden_files_and_folders_are_reported_as_skipped(tmp_path: Path) -> None:
    tree(tmp_path, ".git/config", ".git/a/b", ".hidden.txt", "a.txt", ".gitignore", ".ragkitignore")
    (tmp_path / ".shortcut").symlink_to("a.txt")
    (tmp_path / ".env").symlink_to("a.txt")
    assert found_names(tmp_path) == ["a.txt"]
    assert skip_reasons(tmp_path) == {
        ".env": "looks like a secret",
        ".git": "hidden folder",
        ".hidden.txt": "hidden file",
        ".shortcut": "hidden file",
    }


def test_hidden_files_can_be_included(tmp_path: Path) -> None:
    tree(tmp_path, ".d/a.txt", ".b.txt")
    assert found_names(tmp_path, FolderOptions(hidden=True)) == [".b.txt", ".d/a.txt"]


def test_the_deepest_matching_gitignore_decides(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "d/a.log", "d/b.log", "d/e/c.log", "out/x")
    (tmp_path / ".gitignore").write_text("*.log\nout/\n")
    (tmp_path / "d/.gitignore").write_text("!a.log\n/e/\n")
    assert found_names(tmp_path) == ["d/a.log"]
    assert skip_reasons(tmp_path) == {"d/e": "ignored folder", "out": "ignored folder"}


def test_a_gitignore_with_bom_and_crlf_is_read(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "b.txt")
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbf*.log\r\n")
    assert found_names(tmp_path) == ["b.txt"]


def test_gitignore_files_of_parent_folders_apply(tmp_path: Path) -> None:
    tree(tmp_path, ".git/", "docs/a.md", "docs/a.tmp", "docs/api/b.md")
    (tmp_path / ".gitignore").write_text("*.tmp\n/docs/api/\n")
    assert found_names(tmp_path / "docs") == ["a.md"]


def test_an_ignored_folder_is_read_when_it_is_the_source(tmp_path: Path) -> None:
    tree(tmp_path, ".git/", "build/a.md")
    (tmp_path / ".gitignore").write_text("build/\n")
    assert found_names(tmp_path / "build") == ["a.md"]


def test_ragkitignore_applies_without_gitignore(tmp_path: Path) -> None:
    tree(tmp_path, "a.md", "b.md", "c.md")
    (tmp_path / ".gitignore").write_text("a.md\n")
    (tmp_path / ".ragkitignore").write_text("b.md\n")
    assert found_names(tmp_path) == ["c.md"]
    assert found_names(tmp_path, FolderOptions(gitignore=False)) == ["a.md", "c.md"]


def test_ragkitignore_overrides_gitignore(tmp_path: Path) -> None:
    tree(tmp_path, "a.md", "b.md")
    (tmp_path / ".gitignore").write_text("*.md\n")
    (tmp_path / ".ragkitignore").write_text("!b.md\n")
    assert found_names(tmp_path) == ["b.md"]


def test_include_accepts_patterns_names_and_folders(tmp_path: Path) -> None:
    tree(tmp_path, "a.md", "a.txt", "d/b.md", "docs/x.txt", "docs/e/y.txt")
    assert found_names(tmp_path, FolderOptions(include=("*.md",))) == ["a.md", "d/b.md"]
    assert found_names(tmp_path, FolderOptions(include=("/*.md",))) == ["a.md"]
    assert found_names(tmp_path, FolderOptions(include=("**/*.txt",))) == ["a.txt", "docs/e/y.txt", "docs/x.txt"]
    assert found_names(tmp_path, FolderOptions(include=("docs/",))) == ["docs/e/y.txt", "docs/x.txt"]
    assert skip_reasons(tmp_path, FolderOptions(include=("*.md",))) == {}


def test_exclude_skips_files_and_folders(tmp_path: Path) -> None:
    tree(tmp_path, "a.md", "drafts/b.md", "d/a.md", "d/c.md")
    options = FolderOptions(exclude=("drafts/", "/a.md"))
    assert found_names(tmp_path, options) == ["d/a.md", "d/c.md"]
    assert skip_reasons(tmp_path, options) == {"drafts": "excluded folder"}


def test_a_string_is_not_a_list_of_patterns() -> None:
    with pytest.raises(InvalidOption, match=r"include must be a list of patterns \(got '\*\.md'\)"):
        FolderOptions(include="*.md")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match=r"exclude must be a list of patterns \(got '\*\.md'\)"):
        FolderOptions(exclude="*.md")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    (
        *(
            ".env",
            ".env.local",
            "server.pem",
            "ID_RSA",
            "id_ed25519",
            "tls.key",
            "credentials.json",
            ".npmrc",
            ".netrc",
        ),
        *("a.p12", "store.jks", "secrets.yaml", ".pgpass", "service-account-x.json", "kubeconfig", "terraform.tfstate"),
    ),
)
def test_a_file_that_looks_like_a_secret_is_reported_as_skipped(tmp_path: Path, name: str) -> None:
    tree(tmp_path, name)
    assert found_names(tmp_path, FolderOptions(hidden=True)) == []
    keynote = " (a Keynote presentation must be exported as PDF)" if name.endswith(".key") else ""
    assert skip_reasons(tmp_path) == {name: f"looks like a secret{keynote}"}


def test_an_ignored_secret_is_reported_too(tmp_path: Path) -> None:
    tree(tmp_path, "server.pem")
    (tmp_path / ".gitignore").write_text("*.pem\n")
    assert skip_reasons(tmp_path) == {"server.pem": "looks like a secret"}


@pytest.mark.parametrize("name", ["id_rsa.pub", "keys.md", "secret-garden.txt", "environment.md"])
def test_a_file_with_a_similar_name_is_not_a_secret(tmp_path: Path, name: str) -> None:
    tree(tmp_path, name)
    assert found_names(tmp_path) == [name]


def test_a_file_above_the_limit_is_skipped_unread(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(1 << 40)
    tree(tmp_path, "a.txt")
    assert found_names(tmp_path) == ["a.txt"]
    assert skip_reasons(tmp_path) == {"huge.txt": "larger than 50 MB"}
    assert found_names(tmp_path, FolderOptions(max_file_mb=0.000001)) == []


def test_pipes_sockets_and_devices_are_skipped_by_type(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/sock")
        assert skip_reasons(Path(short)) == {"sock": "a socket, not a regular file"}
    assert skip_reasons(tmp_path) == {"pipe": "a named pipe, not a regular file"}
    assert list(walk_files(Path("/dev/null"))) == [SkippedPath(Path("/dev/null"), "a device, not a regular file")]


def test_links_are_never_followed_by_default(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    tree(tmp_path, "root/a.txt", "root/d/b.txt", "outside/c.txt")
    (root / "file").symlink_to(root / "a.txt")
    (root / "folder").symlink_to(root / "d")
    (root / "loop").symlink_to(root)
    (root / "out").symlink_to(outside)
    (root / "passwd").symlink_to("/etc/passwd")
    (root / "zero").symlink_to("/dev/zero")
    (root / "self").symlink_to(root / "self")
    (root / "gone").symlink_to(root / "nowhere")
    assert found_names(root) == ["a.txt", "d/b.txt"]
    assert skip_reasons(root) == {
        "file": "link",
        "folder": "link",
        "gone": "broken link",
        "loop": "link",
        "out": "link to a path outside the folder",
        "passwd": "link to a path outside the folder",
        "self": "broken link",
        "zero": "link to a path outside the folder",
    }


def test_links_out_of_the_folder_can_be_followed_once(tmp_path: Path) -> None:
    root = tmp_path / "root"
    tree(tmp_path, "root/a.txt", "outside/c.txt", "single.txt")
    (tmp_path / "outside/back").symlink_to(root)
    (tmp_path / "outside/up").symlink_to(tmp_path)
    (root / "one").symlink_to(tmp_path / "outside")
    (root / "single").symlink_to(tmp_path / "single.txt")
    (root / "two").symlink_to(tmp_path / "outside")
    items = list(walk_files(root, FolderOptions(follow_links=True)))
    assert [item.path for item in items if isinstance(item, FoundFile)] == [
        root / "a.txt",
        root / "one/c.txt",
        tmp_path / "single.txt",
    ]
    assert {item.path.name: item.reason for item in items if isinstance(item, SkippedPath)} == {
        "back": "link",
        "two": "link to a folder that is already included",
        "up": "link to a folder that is already included",
    }


def test_a_link_given_as_the_source_is_followed(tmp_path: Path) -> None:
    tree(tmp_path, "real/a.txt", "b.txt")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "file").symlink_to(tmp_path / "b.txt")
    assert found_names(tmp_path / "linked") == ["a.txt"]
    assert [item.path for item in walk_files(tmp_path / "file")] == [tmp_path / "b.txt"]


def test_a_knowledge_base_inside_the_folder_is_skipped(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt", "kb/ragkit-kb.json", "kb/catalog.txt", "kb/d/e.txt")
    assert found_names(tmp_path) == ["a.txt"]
    assert skip_reasons(tmp_path) == {"kb": "knowledge base"}


STRANGE = [" lead", "a b", "a\nb", "quote'\"", "-rf", "naïve", "\U0001f600", "tab\t", "back\\slash", "n" * 255]


@pytest.mark.parametrize("name", STRANGE)
def test_unusual_names_are_kept(tmp_path: Path, name: str) -> None:
    tree(tmp_path, name)
    assert found_names(tmp_path) == [name]


def test_a_name_that_is_not_utf8_is_kept(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    Path(os.fsdecode(raw)).write_text("x")
    [item] = walk_files(tmp_path)
    assert os.fsencode(item.path) == raw


def test_patterns_do_not_apply_to_a_file_as_source(tmp_path: Path) -> None:
    tree(tmp_path, ".notes.txt", "server.pem")
    (tmp_path / ".gitignore").write_text("*\n")
    [item] = walk_files(tmp_path / ".notes.txt", FolderOptions(include=("*.md",)))
    assert isinstance(item, FoundFile)
    assert list(walk_files(tmp_path / "server.pem")) == [SkippedPath(tmp_path / "server.pem", "looks like a secret")]


@pytest.mark.parametrize(("source", "reason"), [("nowhere", "does not exist"), ("n" * 300, "the path is too long")])
def test_an_inaccessible_source_is_skipped_with_its_reason(tmp_path: Path, source: str, reason: str) -> None:
    assert list(walk_files(tmp_path / source)) == [SkippedPath(tmp_path / source, reason)]


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder, and a user without root permissions."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        was_root = os.geteuid() == 0
        yield root
        if was_root:
            os.seteuid(0)
        for path in root.rglob("*"):
            path.chmod(0o700)


def test_an_unreadable_folder_is_skipped_and_the_rest_is_read(unprivileged: Path) -> None:
    tree(unprivileged, "a.txt", "closed/b.txt", "z.txt")
    (unprivileged / "closed").chmod(0)
    if os.geteuid() == 0:
        os.seteuid(65534)
    assert found_names(unprivileged) == ["a.txt", "z.txt"]
    [closed] = [item for item in walk_files(unprivileged) if isinstance(item, SkippedPath)]
    # `unreadable`: what was indexed below it is kept
    assert closed == SkippedPath(unprivileged / "closed", "folder: permission denied", unreadable=True)


def test_a_path_too_long_for_the_system_is_skipped(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        for _ in range(25):
            Path("d" * 200).mkdir()
            os.chdir("d" * 200)
    [item] = walk_files(tmp_path)
    assert isinstance(item, SkippedPath)
    assert item.reason == "folder: the path is too long"


def test_ten_thousand_files_are_listed_within_a_second(tmp_path: Path) -> None:
    for folder in range(100):
        (tmp_path / str(folder)).mkdir()
        for number in range(100):
            os.close(os.open(f"{tmp_path}/{folder}/{number}.txt", os.O_CREAT | os.O_WRONLY))
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n/out/**/x\n")
    started = time.process_time()
    assert len(found_names(tmp_path)) == 10_000
    assert time.process_time() - started < 1.0
