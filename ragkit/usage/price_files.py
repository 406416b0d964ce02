"""Price files: YAML with prices and limits of models, by provider. Reads and finds them; prices nothing.

Two are laid over each other: the one that is shipped (`configs/prices.yaml` of the project), and above it the
user's: the file that RAGKIT_PRICES names, else `configs/prices.yaml` or `prices.yaml` in the working directory or
in its parents up to the repository root, else `ragkit/prices.yaml` in the user's config folder.
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
    """The file that is shipped: inside the package, or among the project's settings in a checkout."""
    packaged = _HERE / "prices.yaml"
    return packaged if packaged.is_file() else _HERE.parent.parent / "configs" / "prices.yaml"


def find_user_price_file(start: Path, environ: Mapping[str, str]) -> Path | None:
    """The user's price file for work in `start`; None when there is none. Outside of a repository no parent is asked.

    Raises:
        InvalidOption: RAGKIT_PRICES names a file that does not exist.
    """
    named = environ.get(PRICES_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise InvalidOption(PRICES_VARIABLE, named, "the name of a file that exists")
        return Path(named)
    above = [start, *start.parents]
    root = next((index for index, place in enumerate(above) if (place / ".git").exists()), 0)
    config = Path(environ.get("XDG_CONFIG_HOME", ""))
    config = config if config.is_absolute() else Path(environ.get("HOME") or Path.home()) / ".config"
    candidates = [place / name for place in above[: root + 1] for name in FILE_NAMES]
    return next((path for path in (*candidates, config / "ragkit" / "prices.yaml") if path.is_file()), None)


def load_configured_prices() -> Mapping[str, ModelInfo]:
    """What the price files say, by `provider:model`: the user's file over the shipped one, field by field.

    Raises:
        PipelineError: a file cannot be read, or holds something that is no price.
    """
    own, ours = find_user_price_file(Path.cwd(), os.environ), shipped_price_file()
    return _merge_files(*((str(path), path.stat().st_mtime_ns) for path in (ours, own) if path is not None))


@lru_cache(maxsize=16)
def _merge_files(*files: tuple[str, int]) -> Mapping[str, ModelInfo]:
    """Keyed by path and time of change, so that a file is read once."""
    found: dict[str, ModelInfo] = {}
    for path, _ in files:
        for name, info in read_price_file(Path(path)).items():
            found[name] = merge_model_info(info, found[name]) if name in found else info
    return found


def merge_model_info(above: ModelInfo, below: ModelInfo) -> ModelInfo:
    """The upper entry, with what it leaves open from the lower one. A price is taken whole, never in parts."""
    return ModelInfo(
        above.provider,
        above.model,
        above.context_window if above.context_window is not None else below.context_window,
        above.max_output_tokens if above.max_output_tokens is not None else below.max_output_tokens,
        above.price if above.price != Price() else below.price,
        above.kind if above.kind != "chat" else below.kind,
    )


def read_price_file(path: Path) -> dict[str, ModelInfo]:
    """The entries of a price file, by `provider:model`. Raises PipelineError with every problem, and its file."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - only who asks for a price pays for it
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - as above

    try:
        data = YAML(typ="safe").load(path)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise PipelineError([f"{path}: cannot be read: {' '.join(str(error).split())}"]) from error
    found: dict[str, ModelInfo] = {}
    problems: list[str] = []
    for provider, models in _require_mapping(data, f"{path}", problems).items():
        for model, values in _require_mapping(models, f"{path}: {provider}", problems).items():
            where = f"{path}: {provider}: {model}"
            info = _parse_entry(str(provider), str(model), _require_mapping(values, where, problems), where, problems)
            found[info.name] = info
    if problems:
        raise PipelineError(problems)
    return found


def _require_mapping(value: object, where: str, problems: list[str]) -> Mapping[object, object]:
    if isinstance(value, dict) or value is None:
        return value or {}
    problems.append(f"{where}: {value!r} is met, and keys with values are wanted")
    return {}


def _parse_entry(
    provider: str, model: str, values: Mapping[object, object], where: str, problems: list[str]
) -> ModelInfo:
    for key in values:
        if key not in _KNOWN_KEYS:
            problems.append(f"{where}: {key!r} is no key of a price; known: {', '.join(_KNOWN_KEYS)}")
    kind = values.get("kind", "chat")
    if kind not in get_args(ModelKind):
        problems.append(f"{where}: kind is {kind!r}: one of {', '.join(get_args(ModelKind))} is wanted")
    prices = {
        field: _parse_number(values.get(key), f"{where}: {key}", problems) for key, field in _PRICE_FIELDS.items()
    }
    limits = [_parse_number(values.get(key), f"{where}: {key}", problems) for key in _LIMIT_FIELDS]
    window, most = (None if limit is None else int(limit) for limit in limits)
    return ModelInfo(provider, model, window, most, Price(**prices), cast("ModelKind", kind))


def _parse_number(value: object, where: str, problems: list[str]) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0:
        return float(value)
    problems.append(f"{where} is {value!r}: a number of at least 0 is wanted")
    return None
