"""The expected messages of the files in `broken/`.

`python -m tests.pipeline.golden` rewrites them; review the diff.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ragkit.errors import PipelineError
from ragkit.pipeline import discovery
from ragkit.pipeline.read import ReadOptions, read_path
from tests.pipeline.sample import SECTIONS

BROKEN = Path(__file__).parent / "broken"
SHIPPED = Path(__file__).parent / "sample_pipelines"
ENVIRON = {"MODEL_NAME": "small-2", "SAMPLE_API_KEY": "sk-never-to-be-seen"}

REQUESTS: Mapping[str, ReadOptions] = {
    "profile-unknown": ReadOptions(ENVIRON, profile="prodution", sections=SECTIONS),
    "profile-from-the-environment-unknown": ReadOptions({"RAGKIT_PROFILE": "staging"}, sections=SECTIONS),
    "profile-that-extends": ReadOptions(ENVIRON, profile="production", sections=SECTIONS),
    "profile-with-a-wrong-value": ReadOptions(ENVIRON, profile="production", sections=SECTIONS),
    "profile-never-chosen-with-a-wrong-value": ReadOptions(ENVIRON, thorough=True, sections=SECTIONS),
    "provider-not-installed": ReadOptions(ENVIRON, thorough=True, sections=SECTIONS),
    "extra-not-installed": ReadOptions(ENVIRON, thorough=True, sections=SECTIONS),
    "set-without-equals": ReadOptions(
        ENVIRON, ("split.chunk_size", "=300", "profiles.x=1", "split.chunk_size=[1"), sections=SECTIONS
    ),
    "set-with-wrong-values": ReadOptions(
        ENVIRON,
        (
            "split.chunk_size=many",
            "stroe.name=files",
            "load.max_file_mb=2",
            "load.2.name=pdf",
            "load.1.max_pages=no",
            "retrieve.name=fixed",
            "answer.provider.name=auto",
        ),
        sections=SECTIONS,
    ),
}
"""Broken file -> read options, if they differ from the defaults."""


def messages(name: str) -> str:
    """The problems of a broken file. Runs in `broken/`, with the sample pipelines as the shipped ones."""
    try:
        read_path(Path(f"{name}.yaml"), REQUESTS.get(name, ReadOptions(ENVIRON, sections=SECTIONS)))
    except PipelineError as error:
        return f"{error}\n"
    raise AssertionError(f"{name}.yaml is not broken")


def names() -> list[str]:
    """The names of all broken files."""
    return sorted(path.stem for path in BROKEN.glob("*.yaml"))


if __name__ == "__main__":
    os.chdir(BROKEN)
    discovery.pipelines_folder = lambda: SHIPPED
    for broken in names():
        Path(f"{broken}.txt").write_text(messages(broken), encoding="utf-8")
