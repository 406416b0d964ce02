"""Find pipeline files: shipped ones by name, and the `ragkit.yaml` of a directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PIPELINE_FILE_NAME = "ragkit.yaml"
"""The pipeline file of a project."""

_HERE = Path(__file__).resolve().parent


def pipelines_folder() -> Path:
    """The directory of the shipped pipelines: inside the package, or next to it in a checkout."""
    packaged = _HERE / "files"
    return packaged if packaged.is_dir() else _HERE.parent.parent / "pipelines"


def pipeline_names() -> list[str]:
    """The names of the shipped pipelines, sorted."""
    return sorted(path.stem for path in pipelines_folder().glob("*.yaml"))


DEFAULT_PIPELINE = "default"
"""The pipeline with the defaults for sections that a file omits."""


def pipeline_path(name: str) -> Path | None:
    """The file of a shipped pipeline, or None if there is no such pipeline."""
    return pipelines_folder() / f"{name}.yaml" if name in pipeline_names() else None


def pipeline_summary(name: str) -> str:
    """The description of a shipped pipeline: the first comment of its file, editor settings left out."""
    path = pipeline_path(name)
    lines = path.read_text("utf-8").splitlines() if path else []
    comments = (line.lstrip("# ").strip() for line in lines if line.startswith("#"))
    return next((comment for comment in comments if not comment.startswith("yaml-language-server")), "")


def find_pipeline_file(start: Path, environ: Mapping[str, str]) -> Path | None:
    """The `ragkit.yaml` of `start`, of its parents up to the repository root, or of the user's configuration.

    Outside of a repository the parents are not searched: a shared directory such as `/tmp` could hold a foreign file.
    """
    own = _user_config_folder(environ) / "ragkit" / PIPELINE_FILE_NAME
    return find_project_file(start) or (own if own.is_file() else None)


def find_project_file(start: Path) -> Path | None:
    """The `ragkit.yaml` of `start`, or of its parents up to the repository root."""
    folders = _folders_to_root(start.resolve())
    return next((path for folder in folders if (path := folder / PIPELINE_FILE_NAME).is_file()), None)


def _folders_to_root(start: Path) -> list[Path]:
    folders = [start, *start.parents]
    root = next((index for index, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    return folders[: root + 1]


def _user_config_folder(environ: Mapping[str, str]) -> Path:
    """The user's configuration directory. By the XDG specification a relative XDG_CONFIG_HOME is ignored."""
    path = Path(environ.get("XDG_CONFIG_HOME", ""))
    return path if path.is_absolute() else Path(environ.get("HOME") or Path.home()) / ".config"
