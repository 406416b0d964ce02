"""The settings that a knowledge base was built with, as its catalog keeps them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ragkit.errors import Damaged, PipelineError
from ragkit.index.catalog import Catalog
from ragkit.index.home import CATALOG, exists, open_catalog, repair_command
from ragkit.index.recipe import Recipe
from ragkit.index.schema import UNREADABLE
from ragkit.index.seal import broken_seals
from ragkit.pipeline.settings import Pipeline


@dataclass(frozen=True)
class Stored:
    """What a knowledge base says that it was built with."""

    directory: Path
    recipe: Recipe
    text: str
    """The pipeline file."""
    name: str

    def pipeline(self) -> Pipeline:
        """The pipeline; the default one where the text is damaged, which is said by whoever opens the files.

        Raises:
            PipelineError: the pipeline cannot be used here, as a variable is not set.
        """
        try:
            return Pipeline.from_yaml(self.text, name=self.name)
        except PipelineError:
            if broken_seals(self.directory):
                return Pipeline.default()
            raise


def stored_settings(directory: Path) -> Stored | None:
    """None where there is no knowledge base yet, and where its settings are damaged: whoever opens it says so."""
    if not exists(directory):
        return None
    try:
        with closing(open_catalog(directory, check_seal=False)) as connection:
            catalog = Catalog(connection)
            recipe, text = catalog.get("recipe"), catalog.get("pipeline")
            name = catalog.get("pipeline_name") or "pipeline"
        return Stored(directory, Recipe.from_json(recipe), text, name) if recipe and text else None
    except (Damaged, sqlite3.DatabaseError, *UNREADABLE):
        return None


def recipe_in(catalog: Catalog, directory: Path) -> Recipe:
    """The recipe in an open catalog. Raises Damaged where it is none."""
    try:
        return Recipe.from_json(catalog.get("recipe") or "")
    except UNREADABLE as error:
        reason = "holds settings that cannot be read"
        raise Damaged(str(directory / CATALOG), reason, repair_command(directory)) from error


def stored_pipeline(directory: Path) -> str | None:
    """The pipeline file that a knowledge base was built with, as text; None when there is none."""
    stored = stored_settings(directory)
    return stored.text if stored else None
