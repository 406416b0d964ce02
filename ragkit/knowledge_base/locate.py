"""From the place that a user names to the location of a knowledge base."""

from __future__ import annotations

import os
from pathlib import Path

from ragkit.index.catalog.database_url import is_database_url
from ragkit.knowledge_base.location import Location


def find_location(place: str | os.PathLike[str]) -> Location:
    """The location at a directory, or at the address of a database: `postgresql://...`."""
    if isinstance(place, str) and is_database_url(place):
        from ragkit.index.catalog.database_url import DatabaseUrl
        from ragkit.knowledge_base.database_location import DatabaseLocation

        return DatabaseLocation(DatabaseUrl.parse(place))
    return Location(Path(place))
