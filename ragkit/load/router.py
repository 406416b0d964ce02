"""From a file to its loader: routes say which loader, with which options, takes which suffixes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, cast

from ragkit.errors import UnsupportedFormat
from ragkit.load import LOADERS
from ragkit.load.base import Loader
from ragkit.load.detect import detect_loader
from ragkit.load.file_types import LOADER_BY_SUFFIX, file_suffix
from ragkit.load.options import LOADER_VERSIONS
from ragkit.load.secret_files import has_private_key
from ragkit.records import JSON, Document, content_id

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class LoaderRoute:
    """One loader as a pipeline asks for it."""

    name: str
    """The loader's name in `LOADERS`."""
    options: DataclassInstance | None = None
    """An instance of the loader's options; None: its defaults."""
    suffixes: tuple[str, ...] = ()
    """Suffixes that it takes, such as `.pdf`; empty: whatever is chosen for it by content."""


def options_to_json(options: DataclassInstance | None) -> dict[str, JSON]:
    """The options of a loader as JSON holds them; {} for None."""
    return asdict(options) if is_dataclass(options) else {}


def route_from_json(name: str, options: Mapping[str, JSON], suffixes: Sequence[str]) -> LoaderRoute:
    """The route whose options were written by `options_to_json`."""
    make = LOADERS.options_class(name)
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    return LoaderRoute(name, make(**values) if make else None, tuple(suffixes))


class Router:
    """The loaders of one set of routes; each is made when the first file asks for it."""

    def __init__(self, routes: Sequence[LoaderRoute] = ()) -> None:
        """Raises UnknownName for a route to a loader that is not there."""
        for route in routes:
            LOADERS.extra(route.name)
        self._by_suffix = {suffix.lower(): route for route in routes for suffix in route.suffixes}
        self._by_name = {route.name: route for route in routes if not route.suffixes}
        self._loaders: dict[LoaderRoute, Loader] = {}

    def select_route(self, data: bytes, source: str) -> LoaderRoute:
        """The route of a file.

        A route by suffix holds where the content agrees with the suffix, or is of no format that we know.
        Raises UnsupportedFormat or LoadError as `choose` does, and UnsupportedFormat for a private key.
        """
        if has_private_key(data):
            raise UnsupportedFormat(source, "looks like a secret (a private key)")
        suffix = file_suffix(source)
        wanted = self._by_suffix.get(suffix)
        try:
            name = detect_loader(data, source)
        except UnsupportedFormat:
            if wanted is None:
                raise
            return wanted
        if wanted is not None and name == LOADER_BY_SUFFIX.get(suffix, "text"):
            return wanted
        return self._by_name.get(name, LoaderRoute(name))

    def load(self, data: bytes, source: str, name: str = "") -> tuple[str, Document]:
        """The name of the loader that took the file, and its Document.

        Args:
            data: the whole file.
            source: its path or URL.
            name: the loader to use; empty: the one that `pick` finds.

        Raises:
            LoadError: no text can be taken from the file.
            MissingExtra: its loader needs a package that is not installed.
        """
        route = self._by_name.get(name, LoaderRoute(name)) if name else self.select_route(data, source)
        if route not in self._loaders:
            make = cast("Callable[..., Loader]", LOADERS.find(route.name))
            self._loaders[route] = make(route.options) if route.options is not None else make()
        return route.name, self._loaders[route].load(data, source)


def load_fingerprint(routes: Sequence[LoaderRoute] = ()) -> str:
    """The identity of everything that decides which text a file gives: 32 hex digits.

    Equal for equal routes, options and versions of ours, on every machine; imports no vendor package. The
    versions of vendor packages stay out: an update of lxml would otherwise read every folder again, for text
    that is nearly always the same. `ragkit index` after `ragkit clear` reads anew.
    """
    parts = [f"{name}={version}" for name, version in sorted(LOADER_VERSIONS.items())]
    for route in routes:
        if route.name not in LOADER_VERSIONS:
            parts.append(f"{route.name}={LOADERS.find(route.name).version}")
        options = {} if route.name == "folder" else options_to_json(route.options)  # it chooses files, not their text
        parts.append(json.dumps([route.name, options, list(route.suffixes)], sort_keys=True))
    return content_id("load", *parts)
