"""The source `git`: the files of a repository at a branch, tag or commit, read with the program `git`.

The commit is fetched into a bare repository of the source's own: nothing of the repository is checked out, and none of
its hooks and settings apply. git does not sync all that it writes, and leaves locks when it is killed: what it cannot
read or write anymore is fetched anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ragkit.errors import LoadError
from ragkit.load.sources.base import SourceContext, SourceFile, SourceItem, require_network
from ragkit.load.sources.options import GitOptions
from ragkit.masking import mask_passwords

TIMEOUT_S = 600
"""Of one git command, in seconds."""
_REGULAR_FILES = ("100644", "100755")
_Tree = list[tuple[str, str, str, str]]
"""Mode, blob, size in bytes (`-` for a submodule) and path of each entry."""


class GitSource:
    """The fingerprint of a file is its blob, so that equal contents of two commits are not read again."""

    def __init__(self, options: GitOptions) -> None:
        self._options = options
        repository = options.repository
        is_path = "://" not in repository and (repository.startswith((".", "/", "~")) or Path(repository).exists())
        self._fetched_anew = False
        self._repository = os.path.abspath(Path(repository).expanduser()) if is_path else repository  # noqa: PTH100

    @property
    def location(self) -> str:
        """The repository without a password, and the ref."""
        return f"{mask_passwords(self._repository)}@{self._options.ref}"

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every regular file; see `Source.list`."""
        folder = context.folder / "repository.git"
        if not Path(self._repository).is_absolute():
            require_network(self.location)
        try:
            tree = self._read_tree(folder)
        except LoadError as error:
            tree = self._read_tree_anew(folder, error)
        base = self._repository if "://" in self._repository else f"git://{self._repository}"
        for mode, blob, size, name in tree:
            if mode in _REGULAR_FILES and not any(part.startswith(".") for part in name.split("/")):
                path = os.fsencode(name).decode("utf-8", "backslashreplace")
                key = f"{mask_passwords(base)}@{quote(self._options.ref)}/{quote(path)}"
                yield SourceItem(key, blob, int(size), path=path)

    def fetch(self, item: SourceItem, context: SourceContext) -> SourceFile:
        """The blob; see `Source.fetch`."""
        folder, command = context.folder / "repository.git", ("cat-file", "blob", item.fingerprint)
        try:
            return SourceFile(self._git(folder, *command))
        except LoadError as error:
            self._read_tree_anew(folder, error)
            return SourceFile(self._git(folder, *command))

    def _read_tree(self, folder: Path) -> _Tree:
        """Fetch the commit and return its entries. Raises LoadError, also if a file of it is missing."""
        if not (folder / "HEAD").is_file():
            self._git(Path(), "init", "--bare", "--quiet", "--template=", str(folder))
        remote = ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--force")
        self._git(folder, *remote, "--", self._repository, f"{self._options.ref}:refs/ragkit/current")
        entries = self._git(folder, "ls-tree", "-r", "-l", "-z", "refs/ragkit/current").split(b"\0")
        tree = []
        for entry in filter(None, entries):
            head, _, name = entry.decode("utf-8", "surrogateescape").partition("\t")
            mode, _, blob, size = head.split()
            if size == "BAD":  # what git prints, without an error, for a blob that it cannot read
                raise LoadError(self.location, f"git ls-tree cannot read {name!r}", "check the repository and the ref")
            tree.append((mode, blob, size, name))
        return tree

    def _read_tree_anew(self, folder: Path, error: LoadError) -> _Tree:
        """Replace a copy that may be damaged, once in a run. Raises the error if a new copy has one as well."""
        if self._fetched_anew or error.__cause__ is not None:  # which is a timeout, or that there is no git
            raise error
        self._fetched_anew = True
        new = folder.with_name("repository.new")
        shutil.rmtree(new, ignore_errors=True)
        try:
            tree = self._read_tree(new)
        except LoadError:
            shutil.rmtree(new, ignore_errors=True)
            raise error from None
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
        return tree

    def _git(self, folder: Path, *arguments: str) -> bytes:
        """The output of a git command. Raises LoadError."""
        where = ("--git-dir", str(folder)) if folder != Path() else ()
        settings = ("-c", "protocol.ext.allow=never", "-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null")
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environ |= {name: os.environ[name] for name in _CREDENTIAL_VARIABLES if name in os.environ}
        command = ("git", *settings, *where, *arguments)
        try:
            done = subprocess.run(  # noqa: S603 - no shell; options are checked, and `--` ends those of git
                command,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
                stdin=subprocess.DEVNULL,
                env={**environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            )
        except FileNotFoundError as error:
            raise LoadError(self.location, "the program git is not installed", "install git") from error
        except subprocess.TimeoutExpired as error:
            raise LoadError(self.location, f"git needed more than {TIMEOUT_S} s", "check the network") from error
        if done.returncode:
            lines = mask_passwords(done.stderr.decode("utf-8", "replace")).strip().splitlines() or ["no message"]
            reason = f"git {arguments[0]} failed ({lines[0][:200]})"
            raise LoadError(self.location, reason, "check the repository and the ref")
        return done.stdout


_CREDENTIAL_VARIABLES = ("GIT_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO")
"""Variables of git that stay; others, such as GIT_DIR in a hook, would redirect it."""
