"""Finds, reads and merges price files: YAML with prices and limits of models, by provider.

The user's file overrides the packaged one (`configs/prices.yaml` of the project). It is the file in RAGKIT_PRICES,
else `configs/prices.yaml` or `prices.yaml` in the working directory or its parents up to the repository root, else
`ragkit/prices.yaml` in the user's config directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import cast, get_args

from ragkit.errors import InvalidOption, PipelineError
from ragkit.usage.model_info import ModelInfo, ModelKind, Price

PRICES_VARIABLE = "RAGKIT_PRICES"
FILE_NAMES = ("configs/prices.yaml", "prices.yaml")
_HERE = Path(__file__).resolve().parent
_PRICE_FIELDS = {"input": "input_usd", "output": "output_usd", "cached": "cached_usd", "searches": "search_usd"}
_LIMIT_FIELDS = ("context_window", "max_output_tokens")
_KNOWN_KEYS = (*_PRICE_FIELDS, *_LIMIT_FIELDS, "kind", "as_of", "source")


def shipped_price_file() -> Path:
    """The packaged price file, or `configs/prices.yaml` in a source checkout."""
    packaged = _HERE / "prices.yaml"
    return packaged if packaged.is_file() else _HERE.parent.parent / "configs" / "prices.yaml"


def find_user_price_file(start: Path, environ: Mapping[str, str]) -> Path | None:
    """The user's price file for the directory `start`, or None. Parents are searched inside a repository only.

    Raises:
        InvalidOption: the file in RAGKIT_PRICES does not exist.
    """
    named = environ.get(PRICES_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise InvalidOption(PRICES_VARIABLE, named, "an existing file")
        return Path(named)
    directories = [start, *start.parents]
    root = next((index for index, directory in enumerate(directories) if (directory / ".git").exists()), 0)
    config = Path(environ.get("XDG_CONFIG_HOME", ""))
    config = config if config.is_absolute() else Path(environ.get("HOME") or Path.home()) / ".config"
    candidates = [directory / name for directory in directories[: root + 1] for name in FILE_NAMES]
    return next((path for path in (*candidates, config / "ragkit" / "prices.yaml") if path.is_file()), None)


def load_configured_prices() -> Mapping[str, ModelInfo]:
    """The entries of the price files by `provider:model`; the user's file overrides fields of the packaged one.

    Raises:
        PipelineError: a file cannot be read or is invalid.
    """
    paths = (shipped_price_file(), find_user_price_file(Path.cwd(), os.environ))
    return _merge_files(*((str(path), path.stat().st_mtime_ns) for path in paths if path is not None))


@lru_cache(maxsize=16)
def _merge_files(*files: tuple[str, int]) -> Mapping[str, ModelInfo]:
    """Cached by path and modification time."""
    merged: dict[str, ModelInfo] = {}
    for path, _ in files:
        for name, info in read_price_file(Path(path)).items():
            merged[name] = merge_model_info(info, merged[name]) if name in merged else info
    return merged


def merge_model_info(above: ModelInfo, below: ModelInfo) -> ModelInfo:
    """The entry `above` with its missing fields from `below`. A price is replaced as a whole."""
    return ModelInfo(
        above.provider,
        above.model,
        above.context_window if above.context_window is not None else below.context_window,
        above.max_output_tokens if above.max_output_tokens is not None else below.max_output_tokens,
        above.price if above.price != Price() else below.price,
        above.kind if above.kind != "chat" else below.kind,
    )


def read_price_file(path: Path) -> dict[str, ModelInfo]:
    """The entries of a price file by `provider:model`. Raises PipelineError with every problem."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - imported for the first price lookup only
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - as above

    try:
        data = YAML(typ="safe").load(path)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise PipelineError([f"{path}: cannot be read: {' '.join(str(error).split())}"]) from error
    entries: dict[str, ModelInfo] = {}
    problems: list[str] = []
    for provider, models in _require_mapping(data, f"{path}", problems).items():
        for model, values in _require_mapping(models, f"{path}: {provider}", problems).items():
            where = f"{path}: {provider}: {model}"
            info = _parse_entry(str(provider), str(model), _require_mapping(values, where, problems), where, problems)
            entries[info.name] = info
    if problems:
        raise PipelineError(problems)
    return entries


def _require_mapping(value: object, where: str, problems: list[str]) -> Mapping[object, object]:
    if isinstance(value, dict) or value is None:
        return value or {}
    problems.append(f"{where}: must be a mapping (got {value!r})")
    return {}


def _parse_entry(
    provider: str, model: str, values: Mapping[object, object], where: str, problems: list[str]
) -> ModelInfo:
    for key in values:
        if key not in _KNOWN_KEYS:
            problems.append(f"{where}: unknown key {key!r}; available: {', '.join(_KNOWN_KEYS)}")
    kind = values.get("kind", "chat")
    if kind not in get_args(ModelKind):
        problems.append(f"{where}: kind must be one of {', '.join(get_args(ModelKind))} (got {kind!r})")
    prices = {
        field: _parse_number(values.get(key), f"{where}: {key}", problems) for key, field in _PRICE_FIELDS.items()
    }
    limits = [_parse_number(values.get(key), f"{where}: {key}", problems) for key in _LIMIT_FIELDS]
    window, max_output = (None if limit is None else int(limit) for limit in limits)
    return ModelInfo(provider, model, window, max_output, Price(**prices), cast("ModelKind", kind))


def _parse_number(value: object, where: str, problems: list[str]) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0:
        return float(value)
    problems.append(f"{where} must be a number >= 0 (got {value!r})")
    return None
