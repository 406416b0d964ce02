"""GGUF files in the folders of other programs."""

from __future__ import annotations

import json
from pathlib import Path

from ragkit.gguf.files import find_models, model_places
from tests.gguf_models import write_chat_model


def make(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_chat_model(path)


def make_ollama(folder: Path, name: str, digest: str) -> Path:
    """A model as Ollama keeps it: a manifest, and blobs named by their digests."""
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:00"},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
    ]
    manifest = folder / "manifests" / "registry.ollama.ai" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"layers": layers}))
    return make(folder / "blobs" / f"sha256-{digest}")


def test_files_of_all_programs_are_found_with_the_names_by_which_these_know_them(tmp_path: Path) -> None:
    ollama = tmp_path / ".ollama" / "models"
    expected = [
        (make_ollama(ollama, "library/llama3.2/1b", "aa"), "llama3.2:1b"),
        (make_ollama(ollama, "somebody/tuned/latest", "bb"), "somebody/tuned:latest"),
        (make(tmp_path / ".lmstudio/models/org/repo/studio.gguf"), "studio.gguf"),
        (make(tmp_path / ".cache/llama.cpp/org_cpp.gguf"), "org_cpp.gguf"),
        (make(tmp_path / ".cache/huggingface/hub/models--o--r/snapshots/1/hub.GGUF"), "hub.GGUF"),
    ]
    places = [place for place in model_places({"HOME": str(tmp_path)}) if place.is_relative_to(tmp_path)]
    assert [(found.file.path, found.label) for found in find_models(places)] == expected


def test_variables_of_the_programs_name_other_folders(tmp_path: Path) -> None:
    variables = ("OLLAMA_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "RAGKIT_MODELS")
    environ = {name: str(tmp_path / name) for name in variables}
    for folder in environ.values():
        Path(folder).mkdir()
    assert set(map(Path, environ.values())) <= set(model_places({**environ, "HOME": str(tmp_path)}))


def test_damaged_files_and_manifests_are_skipped_and_links_are_listed_once(tmp_path: Path) -> None:
    whole = make(tmp_path / "a.gguf")
    (tmp_path / "b.gguf").symlink_to(whole)
    (tmp_path / "c.gguf").write_bytes(whole.read_bytes()[:1000])
    for number, content in enumerate(["{}", "no JSON", '{"layers": [{}]}', "[]"]):
        manifest = tmp_path / "manifests" / "host" / "library" / f"broken{number}" / "latest"
        manifest.parent.mkdir(parents=True)
        manifest.write_text(content)
    assert [found.file.path for found in find_models([tmp_path])] == [whole]
