"""Find GGUF files where Ollama, LM Studio, llama.cpp and the Hugging Face hub keep them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragkit.errors import InvalidOption
from ragkit.gguf.header import GGUFFile, read_gguf

_MAX_DEPTH = 8
_MAX_MANIFEST_BYTES = 1_000_000
_OLLAMA_MODEL = "application/vnd.ollama.image.model"


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A file that was found."""

    file: GGUFFile
    label: str
    """The name by which the program that keeps it knows it, such as `llama3.2:1b`; or the name of the file."""


def model_places(environ: Mapping[str, str]) -> list[Path]:
    """The folders of the programs, as far as they exist; variables of these programs name others."""
    home = Path(environ.get("HOME") or Path.home())
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    hub = Path(environ.get("HF_HUB_CACHE") or Path(environ.get("HF_HOME") or cache / "huggingface") / "hub")
    places = [
        *(Path(part) for part in environ.get("RAGKIT_MODELS", "").split(os.pathsep) if part),
        Path("models"),
        Path(environ.get("OLLAMA_MODELS") or home / ".ollama" / "models"),
        Path("/usr/share/ollama/.ollama/models"),
        home / ".lmstudio" / "models",
        cache / "lm-studio" / "models",
        Path(environ.get("LLAMA_CACHE") or cache / "llama.cpp"),
        home / "Library" / "Caches" / "llama.cpp",
        hub,
    ]
    return [place for place in dict.fromkeys(places) if place.is_dir()]


def find_models(places: list[Path]) -> Iterator[FoundModel]:
    """The models below these folders, by folder and name. Files that are no whole model are skipped."""
    seen = set[Path]()
    for place in places:
        for path, label in (*_ollama_models(place), *_gguf_files(place)):
            real = path.resolve()
            if real in seen:
                continue
            seen.add(real)
            try:
                yield FoundModel(read_gguf(path), label)
            except InvalidOption:
                continue


def _gguf_files(place: Path) -> Iterator[tuple[Path, str]]:
    for root, names, files in os.walk(place, followlinks=False):
        names.sort()
        if len(Path(root).relative_to(place).parts) >= _MAX_DEPTH:
            names.clear()
        yield from ((Path(root, name), name) for name in sorted(files) if name.lower().endswith(".gguf"))


def _ollama_models(place: Path) -> Iterator[tuple[Path, str]]:
    """Ollama's files are named by their digests; manifests say which model they are."""
    manifests = place / "manifests"
    for manifest in sorted(path for path in manifests.rglob("*") if path.is_file()):
        digest = _read_digest(manifest)
        if digest:
            *owner, name, tag = manifest.relative_to(manifests).parts[1:]
            label = "/".join(part for part in (*owner, name) if part != "library")
            yield place / "blobs" / digest.replace(":", "-"), f"{label}:{tag}"


def _read_digest(manifest: Path) -> str:
    """The digest of the weights in a manifest; '' if it is none."""
    try:
        if manifest.stat().st_size > _MAX_MANIFEST_BYTES:
            return ""
        layers = json.loads(manifest.read_bytes())["layers"]
        return next(str(layer["digest"]) for layer in layers if layer["mediaType"] == _OLLAMA_MODEL)
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return ""
