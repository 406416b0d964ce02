"""What a knowledge base holds, in a few lines for a model that searches it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ragkit.index.reader import CatalogSnapshot
from ragkit.records import JSON, Metadata

MAX_SAMPLED = 1000
"""Documents whose metadata is read."""
MAX_FIELDS = 3
"""Fields that are named, those of most documents first."""
MAX_VALUES = 3
"""Values of a field that are named."""
MAX_NAMES = 4
"""Names of files or folders."""
MAX_VALUE_CHARS = 30
_PLAIN = re.compile(r"[\w .,:/+@()-]{1,60}")
"""Names and values that are shown: documents choose them, and they must not read as instructions."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")
"""The beginning of a date, by which conditions compare."""
_NOT_FILTERED = frozenset(
    {"title", "name", "suffix", "source", "format", "columns", "encoding", "characters_left_out", "links", "layout"}
    | {"running_heads", "letters_read", "letters_outside_page", "letters_in_running_heads", "letters_lost"}
    | {"pages_with_loss", "pages_with_pictures"}
)
"""Fields that are described otherwise, or tell nothing."""


def describe_contents(snapshot: CatalogSnapshot, where: Mapping[str, JSON] | None) -> str:
    """The number, kinds and names of the documents that match a filter, and the fields that filters know.

    Counts of kinds and values are those of a sample where there are many documents.
    """
    count, sample = snapshot.documents.sample_metadata(where, MAX_SAMPLED)
    if not sample:
        return ""
    kinds = Counter(str(metadata.get("format", "text")) for metadata in sample)
    shown = ", ".join(f"{kind} {n}" if count == len(sample) else kind for kind, n in kinds.most_common(MAX_NAMES))
    files = [str(metadata["source"]) for metadata in sample]
    shown += " and others" if len(kinds) > MAX_NAMES else ""
    lines = [f"They are {count:,} document{'s' * (count > 1)} ({shown}): {_describe_names(files)}."]
    fields = ['format ("' + kinds.most_common(1)[0][0] + '")', f'name ("{os.path.basename(files[0])}")']  # noqa: PTH119
    fields += list(_describe_fields(sample))
    return "\n".join([*lines, f"Fields for `where`: {', '.join(fields)}."])


def _describe_names(files: Sequence[str]) -> str:
    """The names of a few files, or of the folders that they are in."""
    names = [os.path.basename(name) for name in files]  # noqa: PTH119 - also of a URL
    if len(names) > MAX_NAMES:
        folders = Counter(_folder_below(name, files) for name in files)
        names = [name for name, _ in folders.most_common() if name] or names
    more = " and others" if len(names) > MAX_NAMES else ""
    return ", ".join(filter(_PLAIN.fullmatch, names[:MAX_NAMES])) + more


def _folder_below(file: str, files: Sequence[str]) -> str:
    """The first folder in which a file is, below the one of all files; '' for none."""
    if not all(name.startswith("/") for name in files):
        return file.rpartition("/")[0]
    parts = Path(file).relative_to(os.path.commonpath(files)).parts
    return parts[0] if len(parts) > 1 else ""


def _describe_fields(sample: Sequence[Metadata]) -> Iterable[str]:
    counts = Counter(key for metadata in sample for key in metadata if key not in _NOT_FILTERED)
    for key, _ in counts.most_common(MAX_FIELDS):
        values = [metadata[key] for metadata in sample if key in metadata]
        described = _describe_values(values)
        if described and _PLAIN.fullmatch(key):
            yield f"{key} ({described})"


def _describe_values(values: Sequence[JSON]) -> str:
    """The range of numbers, or a few values; '' for values that no condition compares."""
    flat = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
    numbers = [value for value in flat if isinstance(value, int | float) and not isinstance(value, bool)]
    if numbers and len(numbers) == len(flat):
        low, high = min(numbers), max(numbers)
        return f"{low}" if low == high else f"{low} to {high}"
    days = [str(value)[:10] for value in flat if isinstance(value, str) and _DAY.match(value)]
    if days and len(days) == len(flat):
        return f'"{min(days)}" to "{max(days)}"' if min(days) != max(days) else f'"{days[0]}"'
    texts = Counter(_format_value(value) for value in flat if _is_shown(value))
    if not texts:
        return ""
    usual = [text for text, _ in texts.most_common(MAX_VALUES if len(texts) <= 2 * MAX_VALUES else 2)]
    return ", ".join(usual) + (" and others" if len(texts) > len(usual) else "")


def _is_shown(value: JSON) -> bool:
    short = isinstance(value, str) and len(value) <= MAX_VALUE_CHARS
    return isinstance(value, bool) or (short and _PLAIN.fullmatch(str(value)) is not None)


def _format_value(value: JSON) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'
