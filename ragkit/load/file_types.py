"""Tables of file suffixes and file names -> loader and language.

Names only; detection by content is in `detect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

LANGUAGE_BY_SUFFIX: Mapping[str, str] = {
    ".bash": "shell",
    ".bat": "batch",
    ".c": "c",
    ".cc": "cpp",
    ".cfg": "ini",
    ".cjs": "javascript",
    ".clj": "clojure",
    ".cmake": "cmake",
    ".conf": "ini",
    ".cpp": "cpp",
    ".cs": "csharp",
    ".css": "css",
    ".cu": "cuda",
    ".cxx": "cpp",
    ".dart": "dart",
    ".erl": "erlang",
    ".ex": "elixir",
    ".exs": "elixir",
    ".go": "go",
    ".gradle": "groovy",
    ".graphql": "graphql",
    ".groovy": "groovy",
    ".h": "c",
    ".hpp": "cpp",
    ".hs": "haskell",
    ".ini": "ini",
    ".java": "java",
    ".jl": "julia",
    ".js": "javascript",
    ".jsx": "javascript",
    ".kt": "kotlin",
    ".kts": "kotlin",
    ".less": "less",
    ".lua": "lua",
    ".m": "objectivec",
    ".mjs": "javascript",
    ".ml": "ocaml",
    ".nix": "nix",
    ".php": "php",
    ".pl": "perl",
    ".pm": "perl",
    ".properties": "ini",
    ".proto": "protobuf",
    ".ps1": "powershell",
    ".py": "python",
    ".pyi": "python",
    ".pyx": "python",
    ".r": "r",
    ".rb": "ruby",
    ".rs": "rust",
    ".scala": "scala",
    ".scss": "scss",
    ".sh": "shell",
    ".sql": "sql",
    ".swift": "swift",
    ".tf": "terraform",
    ".toml": "toml",
    ".ts": "typescript",
    ".tsx": "typescript",
    ".vb": "vb",
    ".vue": "vue",
    ".xml": "xml",
    ".xsd": "xml",
    ".xsl": "xml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".zig": "zig",
    ".zsh": "shell",
}
"""Suffix, in lower case -> language of source code or configuration."""

LOADER_BY_SUFFIX: Mapping[str, str] = {
    ".adoc": "text",
    ".csv": "csv",
    ".docm": "docx",
    ".docx": "docx",
    ".eml": "eml",
    ".epub": "epub",
    ".htm": "html",
    ".html": "html",
    ".json": "json",
    ".jsonl": "jsonl",
    ".log": "text",
    ".markdown": "markdown",
    ".md": "markdown",
    ".mdown": "markdown",
    ".mdx": "markdown",
    ".mkd": "markdown",
    ".ndjson": "jsonl",
    ".org": "text",
    ".pdf": "pdf",
    ".pptm": "pptx",
    ".pptx": "pptx",
    ".rst": "text",
    ".tab": "csv",
    ".tex": "text",
    ".text": "text",
    ".tsv": "csv",
    ".txt": "text",
    ".xhtml": "html",
    ".xlsm": "xlsx",
    ".xlsx": "xlsx",
    **dict.fromkeys(LANGUAGE_BY_SUFFIX, "code"),
}
"""Suffix, in lower case -> name of the loader."""

LANGUAGE_BY_FILE_NAME: Mapping[str, str] = {
    "cmakelists.txt": "cmake",
    "containerfile": "dockerfile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "gnumakefile": "makefile",
    "jenkinsfile": "groovy",
    "justfile": "makefile",
    "makefile": "makefile",
    "rakefile": "ruby",
    "vagrantfile": "ruby",
}
"""File name, in lower case -> language."""

LANGUAGE_BY_INTERPRETER: Mapping[str, str] = {
    "bash": "shell",
    "node": "javascript",
    "perl": "perl",
    "php": "php",
    "python": "python",
    "ruby": "ruby",
    "sh": "shell",
    "zsh": "shell",
}
"""Interpreter of a `#!` line, without its version -> language."""


def file_name(source: str) -> str:
    """The last component of a path or URL, without a query: `guide.md`."""
    tail = source.split("?", 1)[0].split("#", 1)[0] if "://" in source else source
    return PurePath(tail).name


def file_suffix(source: str) -> str:
    """The suffix of a path or URL in lower case with its dot, or ''."""
    return PurePath(file_name(source)).suffix.lower()


def detect_language(source: str, text: str = "") -> str:
    """The programming language by the file name, or else by the `#!` line of the text; '' when unknown."""
    name = file_name(source)
    known = LANGUAGE_BY_FILE_NAME.get(name.lower()) or LANGUAGE_BY_SUFFIX.get(file_suffix(source))
    if known or not text.startswith("#!"):
        return known or ""
    words = text[:200].splitlines()[0][2:].split()
    program = [word for word in words if not word.startswith("-") and "=" not in word and not word.endswith("/env")]
    return LANGUAGE_BY_INTERPRETER.get(PurePath(program[0]).name.rstrip("0123456789."), "") if program else ""
