"""Files that programs write for programs, by their names: lock files, source maps, minified scripts, runs of LaTeX."""

from __future__ import annotations

import re

from ragkit.load.file_types import file_name

_LOCK_FILE = re.compile(
    r"(?:package-lock|npm-shrinkwrap|packages\.lock|composer\.lock|deno\.lock)\.json|pnpm-lock\.ya?ml|go\.(?:work\.)?sum"
    r"|(?:cargo|composer|flake|gemfile|mix|pdm|pipfile|pixi|poetry|pubspec|uv|yarn|bun|deno|conda)\.lock|bun\.lockb"
)
_SOURCE_MAP = re.compile(r"[^/]+\.(?:js|mjs|cjs|css|ts|tsx|wasm)\.map")
_LATEX_OUTPUT = re.compile(r"[^/]+\.(?:aux|blg|bst|fdb_latexmk|fls|ilg|nav|snm|tlg)")
_MINIFIED = re.compile(r"[^/]+[.-]min\.(?:js|mjs|cjs|css)")


def generated_reason(source: str) -> str:
    """Why a file of that name is not read; '' for any other one."""
    name = file_name(source).lower()
    if _LOCK_FILE.fullmatch(name):
        return "a lock file: versions and hashes for a program"
    if _SOURCE_MAP.fullmatch(name):
        return "a source map: positions for a debugger"
    if _LATEX_OUTPUT.fullmatch(name):
        return "a file that LaTeX or BibTeX writes or runs"
    return "a minified script or style" if _MINIFIED.fullmatch(name) else ""
