"""What `pip install ragkit-kb` brings, without extras: a short list of packages, of a bounded size."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ragkit

ROOT = Path(__file__).parents[2]
CORE = {
    "annotated-types", "anyio", "charset-normalizer", "click", "docstring-parser", "et-xmlfile", "flatbuffers", "idna",
    "json-repair", "jsonschema-rs", "lxml", "markdown-it-py", "mdurl", "numpy", "onnxruntime", "openpyxl", "packaging",
    "protobuf", "pydantic", "pydantic-core", "pypdfium2", "pystemmer", "ruamel-yaml", "simsimd", "typing-extensions",
    "typing-inspection", "watchfiles",
}  # fmt: skip
"""Without ragkit itself."""
MAX_BYTES = 240_000_000
"""Of all files, ragkit's included, without those that pip compiles, which are about 35 MB more."""


def required(lines: list[str]) -> Iterator[str]:
    """The names of the packages that requirements need on this system, without extras."""
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def core_packages() -> set[str]:
    """All packages that are installed with ragkit."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: set[str] = set()
    waiting = set(required(project["dependencies"]))
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= {*required(requires(name) or [])} - found
    return found


def installed_bytes(name: str) -> int:
    """The size of the files of a package."""
    paths = [Path(str(file.locate())) for file in distribution(name).files or ()]
    return sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.is_file())


def test_a_core_install_brings_these_packages_and_no_others() -> None:
    assert core_packages() == CORE


def test_a_core_install_is_small() -> None:
    sizes = {name: installed_bytes(name) for name in CORE}
    own = [path for path in Path(ragkit.__file__).parent.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    sizes["ragkit"] = sum(path.stat().st_size for path in own)
    assert min(sizes.values()) > 0
    assert sum(sizes.values()) <= MAX_BYTES, sorted(sizes.items(), key=lambda item: -item[1])[:8]
