"""Where pipeline files lie: those that are shipped, by name, and the one that a folder belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PIPELINE_FILE_NAME = "ragkit.yaml"
"""The pipeline file of a project."""

_HERE = Path(__file__).resolve().parent


def pipelines_folder() -> Path:
    """The folder of the shipped pipelines: inside the package, or beside it in a checkout."""
    packaged = _HERE / "files"
    return packaged if packaged.is_dir() else _HERE.parent.parent / "pipelines"


def pipeline_names() -> list[str]:
    """The names of the shipped pipelines, sorted."""
    return sorted(path.stem for path in pipelines_folder().glob("*.yaml"))


DEFAULT_PIPELINE = "default"
"""The pipeline whose sections hold where a file has none of its own."""


def pipeline_path(name: str) -> Path | None:
    """The file of a shipped pipeline, or None when none has this name."""
    return pipelines_folder() / f"{name}.yaml" if name in pipeline_names() else None


def pipeline_summary(name: str) -> str:
    """What a shipped pipeline is for: the first comment of its file that is no instruction to an editor."""
    path = pipeline_path(name)
    lines = path.read_text("utf-8").splitlines() if path else []
    comments = (line.lstrip("# ").strip() for line in lines if line.startswith("#"))
    return next((comment for comment in comments if not comment.startswith("yaml-language-server")), "")


def find_pipeline_file(start: Path, environ: Mapping[str, str]) -> Path | None:
    """The `ragkit.yaml` that holds in `start`: there, in its parents up to the repository root, or the user's own.

    Outside of a repository only `start` itself is looked at: what lies in a folder that many people write to,
    such as `/tmp`, is not picked up by chance.
    """
    start = start.resolve()
    candidates = [*_folders_to_root(start), _user_config_folder(environ) / "ragkit"]
    return next((place / PIPELINE_FILE_NAME for place in candidates if (place / PIPELINE_FILE_NAME).is_file()), None)


def _folders_to_root(start: Path) -> list[Path]:
    above = [start, *start.parents]
    root = next((index for index, place in enumerate(above) if (place / ".git").exists()), 0)
    return above[: root + 1]


def _user_config_folder(environ: Mapping[str, str]) -> Path:
    """The user's folder for settings, by the XDG rules: a relative XDG_CONFIG_HOME does not count."""
    named = Path(environ.get("XDG_CONFIG_HOME", ""))
    return named if named.is_absolute() else Path(environ.get("HOME") or Path.home()) / ".config"
