"""Tables of file suffixes and file names -> loader and language.

Names only; detection by content is in `detect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath


def _invert(table: Mapping[str, str]) -> dict[str, str]:
    """Each word of a value -> its key."""
    return {word: key for key, words in table.items() for word in words.split()}


LANGUAGE_BY_SUFFIX: Mapping[str, str] = _invert(
    {
        "batch": ".bat",
        "bibtex": ".bib",
        "c": ".c .h",
        "clojure": ".clj",
        "cmake": ".cmake",
        "cpp": ".cc .cpp .cxx .hpp",
        "csharp": ".cs",
        "css": ".css",
        "cuda": ".cu",
        "dart": ".dart",
        "elixir": ".ex .exs",
        "erlang": ".erl",
        "fortran": ".f .f03 .f08 .f90 .f95 .for .fpp .fypp",
        "go": ".go",
        "graphql": ".graphql",
        "groovy": ".gradle .groovy",
        "haskell": ".hs",
        "ini": ".cfg .conf .ini .properties",
        "java": ".java",
        "javascript": ".cjs .js .jsx .mjs",
        "json": ".json5 .jsonc",
        "julia": ".jl",
        "kotlin": ".kt .kts",
        "less": ".less",
        "lisp": ".el .lisp .lsp .rkt .scm .sld .ss",
        "lua": ".lua",
        "nix": ".nix",
        "objectivec": ".m",
        "ocaml": ".ml",
        "perl": ".pl .pm",
        "php": ".php",
        "powershell": ".ps1",
        "protobuf": ".proto",
        "python": ".py .pyi .pyx",
        "r": ".r",
        "ruby": ".rb",
        "rust": ".rs",
        "scala": ".scala",
        "scss": ".scss",
        "shell": ".bash .sh .zsh",
        "sql": ".sql",
        "swift": ".swift",
        "terraform": ".tf",
        "toml": ".toml",
        "typescript": ".ts .tsx",
        "vb": ".vb",
        "vue": ".vue",
        "xml": ".xsd .xsl",
        "yaml": ".yaml .yml",
        "zig": ".zig",
    }
)
"""Suffix, in lower case -> language of source code or configuration."""

LOADER_BY_SUFFIX: Mapping[str, str] = {
    **_invert(
        {
            "csv": ".csv .tab .tsv",
            "doc": ".doc .dot",
            "docx": ".docm .docx .dotm .dotx",
            "eml": ".eml",
            "epub": ".epub",
            "html": ".htm .html .svg .xhtml",
            "json": ".geojson .json .webmanifest",
            "jsonl": ".jsonl .ndjson",
            "markdown": ".markdown .md .mdown .mdx .mkd",
            "mbox": ".mbox",
            "mhtml": ".mht .mhtml",
            "msg": ".msg",
            "notebook": ".ipynb",
            "odp": ".odp .otp",
            "ods": ".ods .ots",
            "odt": ".odt .ott",
            "parquet": ".feather .parquet",
            "pdf": ".pdf",
            "ppt": ".pot .pps .ppt",
            "pptx": ".potm .potx .ppsm .ppsx .pptm .pptx",
            "rtf": ".rtf",
            "subtitles": ".srt .vtt .sbv",
            "text": ".adoc .asciidoc .latex .log .ltx .org .rst .sty .tex .text .txt",
            "xls": ".xls .xlsb .xlt",
            "xlsx": ".xlsm .xlsx .xltm .xltx",
            "xml": ".xml",
        }
    ),
    **dict.fromkeys(LANGUAGE_BY_SUFFIX, "code"),
}
"""Suffix, in lower case -> name of the loader."""

LANGUAGE_BY_FILE_NAME: Mapping[str, str] = _invert(
    {
        "cmake": "cmakelists.txt",
        "dockerfile": "containerfile dockerfile",
        "groovy": "jenkinsfile",
        "makefile": "gnumakefile justfile makefile",
        "ruby": "gemfile rakefile vagrantfile",
    }
)
"""File name, in lower case -> language."""

LANGUAGE_BY_INTERPRETER: Mapping[str, str] = _invert(
    {"javascript": "node", "perl": "perl", "php": "php", "python": "python", "ruby": "ruby", "shell": "bash sh zsh"}
)
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
