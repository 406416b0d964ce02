"""Names of parts -> the places that hold them. Nothing is imported until its name is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from typing import Any, Generic, TypeVar, cast, get_type_hints

from ragkit.errors import MissingExtra, UnknownName

Part = TypeVar("Part")


@dataclass(frozen=True)
class PartSpec:
    """Where a part lives, and what it needs beyond the core."""

    target: str
    """`module:attribute`."""
    extra: str = ""
    """The optional dependency group that it needs: `pip install 'ragkit-kb[extra]'`; empty for core parts."""
    options: str = ""
    """`module:Dataclass` of its options, importable without the extra; empty when it takes none."""


@dataclass(frozen=True)
class Registry(Generic[Part]):
    """The parts of one kind, by the name that a pipeline file gives them.

    A pipeline file reaches these names and no others, so it can never import code. Installed plugins
    add names through the entry point group `ragkit.<group>`; a plugin cannot take over a name of ours.
    """

    kind: str
    """One word for messages: loader, splitter, embedder, store, retriever, provider."""
    group: str
    """The entry point group, without its `ragkit.` prefix."""
    specs: Mapping[str, PartSpec] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Every name that can be chosen, sorted."""
        return sorted({*self.specs, *self._plugins()})

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def find(self, name: str) -> type[Part]:
        """The class behind `name`.

        Raises:
            UnknownName: no part has this name.
            MissingExtra: its optional dependency is not installed.
        """
        return cast("type[Part]", self._load(name, self._spec(name).target))

    def options_class(self, name: str) -> type[Any] | None:
        """The dataclass of the part's options, or None when it takes none.

        A part of ours names it in its place; of a plugin it is what its constructor's argument is annotated with.

        Raises:
            UnknownName: no part has this name.
            MissingExtra, ImportError, AttributeError: a plugin cannot be imported.
        """
        if name not in self.specs:
            return _options_annotation(self.find(name))
        place = self._spec(name)
        return cast("type[Any]", self._load(name, place.options)) if place.options else None

    def extra(self, name: str) -> str:
        """The optional dependency group that `name` needs, or ''. Raises UnknownName."""
        return self._spec(name).extra

    def _spec(self, name: str) -> PartSpec:
        if name in self.specs:
            return self.specs[name]
        plugin = self._plugins().get(name)
        if plugin is None:
            raise UnknownName(self.kind, name, tuple(self.names()))
        return PartSpec(plugin.value)

    def _plugins(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=f"ragkit.{self.group}")}

    def _load(self, name: str, target: str) -> object:
        module, _, attribute = target.partition(":")
        try:
            return getattr(import_module(module), attribute)
        except MissingExtra:
            raise
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("ragkit"):
                raise
            raise MissingExtra(f"the {self.kind} {name!r}", extra=self.extra(name) or name) from error


def _options_annotation(part: type[object]) -> type[Any] | None:
    """The dataclass that the first argument of a constructor is annotated with, if it is one."""
    hints = get_type_hints(part.__init__)
    parameters = list(signature(part.__init__).parameters)[1:]
    first = hints.get(parameters[0]) if parameters else None
    return first if isinstance(first, type) and is_dataclass(first) else None
