"""The settings that a knowledge base was built with, as stored in its catalog."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.errors import KnowledgeBaseDamaged, PipelineError, SettingsMismatch
from ragkit.index.build_fingerprint import BuildFingerprint
from ragkit.index.catalog.checksums import find_changed_files
from ragkit.index.catalog.directory import (
    CATALOG_FILE,
    knowledge_base_exists,
    place_name,
    read_settings,
    repair_command,
)
from ragkit.index.catalog.schema import CORRUPT_DATA_ERRORS
from ragkit.index.catalog.sqlite import Catalog
from ragkit.pipeline.settings import Pipeline

if TYPE_CHECKING:
    from ragkit.answer.score_calibration import ScoreCalibration


@dataclass(frozen=True)
class StoredSettings:
    """The build settings in a catalog."""

    directory: Path
    build_fingerprint: BuildFingerprint
    pipeline_yaml: str
    """The pipeline file as text."""
    pipeline_name: str

    def load_pipeline(self) -> Pipeline:
        """The pipeline; the default one if the text is damaged, which opening the catalog reports.

        Raises:
            PipelineError: the pipeline needs a variable that is not set.
        """
        try:
            return Pipeline.from_yaml(self.pipeline_yaml, name=self.pipeline_name)
        except PipelineError:
            if find_changed_files(self.directory):
                return Pipeline.default()
            raise


def read_stored_settings(directory: Path) -> StoredSettings | None:
    """The stored settings; None if there is no knowledge base, or if they are damaged, which opening it reports.

    If those in the catalog are damaged, they are those in the marker file.
    """
    if not knowledge_base_exists(directory):
        return None
    settings = read_settings(directory) or {}
    recipe, text = settings.get("recipe"), settings.get("pipeline")
    if not recipe or not text:
        return None
    try:
        fingerprint = BuildFingerprint.from_json(recipe)
    except CORRUPT_DATA_ERRORS:
        return None
    return StoredSettings(directory, fingerprint, text, settings.get("pipeline_name") or "pipeline")


def check_settings(directory: Path, stored: BuildFingerprint, current: BuildFingerprint) -> None:
    """Compare the settings that a knowledge base was built with to those of a pipeline.

    Raises:
        SettingsMismatch: loader, splitter or embedder settings differ.
    """
    differences = stored.differences(current)
    if differences:
        place = place_name(directory)
        fix = f"`ragkit index --rebuild --kb {place}` with the settings that you want"
        raise SettingsMismatch(place, differences, fix)


def read_build_fingerprint(catalog: Catalog, directory: Path) -> BuildFingerprint:
    """The build fingerprint in an open catalog.

    Raises:
        KnowledgeBaseDamaged: it is missing or invalid.
    """
    try:
        return BuildFingerprint.from_json(catalog.get_meta("recipe") or "")
    except CORRUPT_DATA_ERRORS as error:
        reason = "has invalid settings"
        raise KnowledgeBaseDamaged(str(directory / CATALOG_FILE), reason, repair_command(directory)) from error


def read_stored_pipeline(directory: Path) -> str | None:
    """The pipeline file that a knowledge base was built with, as text, or None."""
    stored = read_stored_settings(directory)
    return stored.pipeline_yaml if stored else None


def read_calibration(catalog: Catalog, embedder: str) -> ScoreCalibration | None:
    """The stored score calibration of the embedder with this fingerprint; None if there is none."""
    from ragkit.answer.score_calibration import ScoreCalibration

    try:
        return ScoreCalibration.from_json(catalog.get_meta("calibration") or "{}", embedder)
    except CORRUPT_DATA_ERRORS:
        return None


def write_calibration(catalog: Catalog, calibration: ScoreCalibration, embedder: str) -> None:
    """Store a score calibration in the catalog."""
    with catalog.transaction():
        catalog.set_meta("calibration", calibration.to_json(embedder))
