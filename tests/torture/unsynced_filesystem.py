"""An in-memory FUSE file system that loses unsynced data at a simulated power failure (Linux).

Each file has two contents: the written and the synced one (`fsync`, `fdatasync`, `O_SYNC` is not known). Each
change of a name (create, link, rename, unlink, mkdir, rmdir) is in a journal until a sync. At the cut, by the seed:

- a file keeps its synced content, perhaps with some later pages, or with its new length filled with zeros;
- a prefix of the journal is kept, which may be empty.

By default a sync of a file writes the whole journal, as in ext4, XFS and Btrfs. With `strict` it writes nothing of the
journal, as POSIX allows: only a sync of a directory writes the names in it.

Creating the directory `.cut-SEED` in the root is the power cut: the remaining data is written to an outside directory.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import mfusepy as fuse

PAGE = 4096
CUT = "/.cut-"


@dataclass
class Node:
    """A file or directory."""

    mode: int
    data: bytearray = field(default_factory=bytearray)
    synced: bytes | None = b""
    """Content that survives."""
    dirty: set[int] = field(default_factory=set)
    """Pages written since."""
    changed: float = field(default_factory=time.time)

    def sync(self) -> None:
        """Mark the current content as synced."""
        self.synced = bytes(self.data)
        self.dirty.clear()

    def after_cut(self, chance: random.Random) -> bytes:
        """The content after a power failure."""
        stored = self.synced or b""
        way = chance.choice(["nothing", "some", "length"])
        if way == "nothing" or (not self.dirty and len(stored) == len(self.data)):
            return stored
        left = bytearray(stored.ljust(len(self.data), b"\0")[: len(self.data)])
        if way == "some":
            for page in self.dirty:
                if chance.random() < 0.5:
                    part = slice(page * PAGE, min((page + 1) * PAGE, len(self.data)))
                    left[part] = self.data[part]
        return bytes(left)


Names = dict[str, Node]
"""Path from the root -> node; the root is `/`."""
Change = tuple[str, str, str]
"""A change of a name: (add, path, ''), (drop, path, '') or (move, old, new)."""


class UnsyncedLossFileSystem(fuse.Operations):  # type: ignore[misc]
    """The file system. It starts with the files of a directory, all synced."""

    use_ns = False

    def __init__(self, source: Path, left: Path, *, strict: bool) -> None:
        self.left = left
        self.strict = strict
        self.names: Names = {"/": Node(stat.S_IFDIR | 0o700)}
        for path in sorted(source.rglob("*")) if source.exists() else []:
            name = f"/{path.relative_to(source)}"
            mode = path.stat().st_mode
            node = Node(mode, bytearray(b"" if stat.S_ISDIR(mode) else path.read_bytes()))
            node.sync()
            self.names[name] = node
        self.kept: Names = dict(self.names)
        self.journal: list[tuple[Change, Node | None]] = []
        self.handles: dict[int, Node] = {}
        self.is_cut = False
        self._next = 1

    # names

    def getattr(self, path: str, fh: int | None = None) -> dict[str, float]:
        """The result of stat."""
        node = self._node(path)
        return {
            "st_mode": node.mode,
            "st_size": len(node.data),
            "st_nlink": 1,
            "st_uid": os.getuid(),
            "st_gid": os.getgid(),
            "st_mtime": node.changed,
            "st_ctime": node.changed,
            "st_atime": node.changed,
        }

    def readdir(self, path: str, fh: int) -> list[str]:
        """Names in a directory."""
        inside = path.rstrip("/") + "/"
        results = [name[len(inside) :] for name in self.names if name.startswith(inside) and name != "/"]
        return [".", "..", *(name for name in results if name and "/" not in name)]

    def create(self, path: str, mode: int, fi: object = None) -> int:
        """Create and open a file."""
        self._require_power()
        node = Node(stat.S_IFREG | (mode & 0o777))
        self.names[path] = node
        self.journal.append((("add", path, ""), node))
        return self._handle(node)

    def mkdir(self, path: str, mode: int) -> None:
        """Create a directory, or cut the power."""
        if path.startswith(CUT):
            self._cut(random.Random(path[len(CUT) :]))
            self.names[path] = Node(stat.S_IFDIR | 0o700)  # mkdir is followed by getattr
            return
        self._require_power()
        node = Node(stat.S_IFDIR | (mode & 0o777))
        self.names[path] = node
        self.journal.append((("add", path, ""), node))

    def unlink(self, path: str) -> None:
        """Delete a file name."""
        self._require_power()
        self._node(path)
        del self.names[path]
        self.journal.append((("drop", path, ""), None))

    def link(self, target: str, source: str) -> None:
        """Create a hard link: LanceDB publishes versions by links."""
        self._require_power()
        if target in self.names:
            raise fuse.FuseOSError(errno.EEXIST)
        node = self._node(source)
        self.names[target] = node
        self.journal.append((("add", target, ""), node))

    def rmdir(self, path: str) -> None:
        """Delete an empty directory."""
        if any(name.startswith(f"{path}/") for name in self.names):
            raise fuse.FuseOSError(errno.ENOTEMPTY)
        self.unlink(path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory."""
        self._require_power()
        self._node(old)
        _move(self.names, old, new)
        self.journal.append((("move", old, new), None))

    def chmod(self, path: str, mode: int) -> None:
        """Modes are stored at once."""
        node = self._node(path)
        node.mode = stat.S_IFMT(node.mode) | (mode & 0o7777)

    def chown(self, path: str, uid: int, gid: int) -> None:
        """Ownership is ignored."""

    def utimens(self, path: str, times: tuple[float, float] | None = None) -> None:
        """Set the modification time."""
        self._node(path).changed = times[1] if times else time.time()

    def statfs(self, path: str) -> dict[str, int]:
        """Report free space."""
        return {"f_bsize": PAGE, "f_frsize": PAGE, "f_blocks": 1 << 20, "f_bavail": 1 << 19, "f_bfree": 1 << 19}

    # file contents

    def open(self, path: str, flags: int) -> int:
        """Open a file."""
        node = self._node(path)
        if flags & os.O_TRUNC:
            self._resize(node, 0)
        return self._handle(node)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Read bytes."""
        return bytes(self.handles[fh].data[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Write bytes, unsynced."""
        self._require_power()
        node = self.handles[fh]
        if len(node.data) < offset:
            self._resize(node, offset)
        node.data[offset : offset + len(data)] = data
        node.dirty.update(range(offset // PAGE, (offset + len(data) - 1) // PAGE + 1))
        node.changed = time.time()
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        """Change the length."""
        self._require_power()
        self._resize(self.handles[fh] if fh is not None else self._node(path), length)

    def flush(self, path: str, fh: int) -> None:
        """Closing a file syncs nothing."""

    def release(self, path: str, fh: int) -> None:
        """Close a handle."""
        self.handles.pop(fh, None)

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        """Sync the content, and the journal unless `strict`."""
        self._require_power()
        self.handles[fh].sync()
        if not self.strict:
            self._commit(len(self.journal))

    def fsyncdir(self, path: str, datasync: int, fh: int) -> None:
        """Sync the names in a directory: the journal up to the last of them is written."""
        self._require_power()
        inside = path.rstrip("/") + "/"
        last = 0
        for place, ((_, item, other), _node) in enumerate(self.journal):
            if any(name.startswith(inside) and "/" not in name[len(inside) :] for name in (item, other) if name):
                last = place + 1
        self._commit(len(self.journal) if not self.strict else last)

    # helpers

    def _node(self, path: str) -> Node:
        if path not in self.names:
            raise fuse.FuseOSError(errno.ENOENT)
        return self.names[path]

    def _require_power(self) -> None:
        if self.is_cut:
            raise fuse.FuseOSError(errno.EIO)

    def _handle(self, node: Node) -> int:
        self._next += 1
        self.handles[self._next] = node
        return self._next

    def _resize(self, node: Node, length: int) -> None:
        if length < len(node.data):
            del node.data[length:]
            node.dirty.add(length // PAGE)
        else:
            node.data.extend(bytes(length - len(node.data)))
        node.changed = time.time()

    def _commit(self, count: int) -> None:
        for (what, item, other), node in self.journal[:count]:
            if what == "add" and node is not None:
                self.kept[item] = node
            elif what == "drop":
                self.kept.pop(item, None)
            elif item in self.kept:
                _move(self.kept, item, other)
        del self.journal[:count]

    def _cut(self, chance: random.Random) -> None:
        """Simulate the power failure: write the surviving content."""
        self.is_cut = True
        self._commit(chance.choice([0, chance.randint(0, len(self.journal)), len(self.journal)]))
        self.left.mkdir(mode=0o700)
        results: dict[int, bytes] = {}  # a file with two names has one content
        for path, node in sorted(self.kept.items(), key=lambda pair: pair[0]):
            there = self.left / path[1:]
            if stat.S_ISDIR(node.mode):
                there.mkdir(exist_ok=True, parents=True)
            else:
                there.parent.mkdir(exist_ok=True, parents=True)
                if id(node) not in results:
                    results[id(node)] = node.after_cut(chance)
                there.write_bytes(results[id(node)])
                there.chmod(node.mode & 0o777)
        (self.left.parent / f"{self.left.name}.done").touch()


def _move(names: Names, old: str, new: str) -> None:
    for name in [name for name in names if name == new or name.startswith(f"{new}/")]:
        del names[name]
    for name in [name for name in names if name == old or name.startswith(f"{old}/")]:
        names[new + name[len(old) :]] = names.pop(name)


def serve(source: Path, mount: Path, left: Path, *, strict: bool) -> None:
    """Serve until it is unmounted, in a separate process."""
    options: Mapping[str, object] = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0, "fsname": "unsynced"}
    fuse.FUSE(
        UnsyncedLossFileSystem(source, left, strict=strict), str(mount), foreground=True, nothreads=True, **options
    )
