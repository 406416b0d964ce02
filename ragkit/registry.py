"""Registries of components. A component is imported when it is requested by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from importlib import import_module
from inspect import getattr_static, signature
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_type_hints

from ragkit.errors import InvalidOption, MissingExtra, UnknownName

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Component = TypeVar("Component")
_MISSING = object()


@dataclass(frozen=True)
class ComponentSpec:
    """The import path of a component, and its requirements."""

    target: str
    """`module:attribute`."""
    extra: str = ""
    """The optional dependency group that it needs: `pip install 'ragkit-kb[extra]'`; empty: none."""
    options: str = ""
    """`module:Dataclass` of its options, importable without the extra; empty: no options."""


@dataclass(frozen=True)
class Registry(Generic[Component]):
    """The components of one kind, by name.

    A pipeline file can use registered names only, so it cannot import code. Installed plugins add names through the
    entry point group `ragkit.<group>`, and a program through `register`; they cannot replace a built-in name.
    """

    kind: str
    """The kind of component, for messages: loader, splitter, embedder, store, retriever, provider."""
    group: str
    """The entry point group, without its `ragkit.` prefix."""
    specs: Mapping[str, ComponentSpec] = field(default_factory=dict)
    of_program: dict[str, type[Any]] = field(default_factory=dict, repr=False, compare=False)
    """The classes that this program has registered, by name."""

    def register(self, name: str, component: type[Any], protocol: type) -> None:
        """Add a class under a name, for this process.

        Raises:
            InvalidOption: the name is that of a built-in component, or the class lacks methods of `protocol`.
        """
        if not name or name in self.specs:
            raise InvalidOption("name", name, f"a name that is not built in: {', '.join(sorted(self.specs))}")
        if not isinstance(component, type):
            raise InvalidOption("component", component, f"a class: the {self.kind} is created from its options")
        missing = self.missing_members(name, component, protocol)
        if missing:
            raise InvalidOption("component", component.__qualname__, f"a complete {self.kind}: {missing}")
        self.of_program[name] = component

    def names(self) -> list[str]:
        """All registered names, plugins included, sorted."""
        return sorted({*self.specs, *self.of_program, *self._plugins()})

    def __contains__(self, name: object) -> bool:
        """Whether a name is registered. Plugins are looked up for unknown names only, as that is slow."""
        return name in self.specs or name in self.of_program or name in self._plugins()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def find(self, name: str) -> type[Component]:
        """The class of a component.

        Raises:
            UnknownName: the name is not registered.
            MissingExtra: its optional dependency is not installed.
        """
        if name in self.of_program:
            return self.of_program[name]
        return cast("type[Component]", self._load(name, self._spec(name).target))

    def options_class(self, name: str) -> type[Any] | None:
        """The dataclass of a component's options, or None if it has no options.

        For a plugin it is the annotation of the first argument of its constructor.

        Raises:
            UnknownName: the name is not registered.
            MissingExtra, ImportError, AttributeError: a plugin cannot be imported.
        """
        if name not in self.specs:
            return _options_annotation(self.find(name))
        spec = self._spec(name)
        return cast("type[Any]", self._load(name, spec.options)) if spec.options else None

    def extra(self, name: str) -> str:
        """The optional dependency group that `name` needs, or ''. Raises UnknownName."""
        return self._spec(name).extra

    def missing_members(self, name: str, component: object, protocol: type) -> str:
        """The message about members of `protocol` that a component lacks, or ''.

        Of a class only methods are checked, because its instances may set attributes.
        """
        is_class = isinstance(component, type)
        abstract = getattr(component, "__abstractmethods__", ())
        missing: list[str] = []
        for member, definition in vars(protocol).items():
            is_method = callable(definition)
            if member.startswith("_") or (is_class and not is_method):
                continue
            # static: a property may load a model or call a service
            found = getattr_static(component, member, _MISSING)
            if member in abstract or found is _MISSING or getattr(found, "is_placeholder", False):
                missing.append(f"the {'method' if is_method else 'attribute'} {member}")
        if not missing:
            return ""
        plugin = self._plugins().get(name)
        package = f" (package {plugin.dist.name})" if plugin is not None and plugin.dist is not None else ""
        required_by = f"{protocol.__module__}.{protocol.__qualname__}"
        return f"the {self.kind} {name!r}{package} lacks {', '.join(missing)} (required by {required_by})"

    def _spec(self, name: str) -> ComponentSpec:
        if name in self.specs:
            return self.specs[name]
        if name in self.of_program:
            return ComponentSpec("")
        plugin = self._plugins().get(name)
        if plugin is None:
            raise UnknownName(self.kind, name, tuple(self.names()))
        return ComponentSpec(plugin.value)

    def _plugins(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, and only plugins need it

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


def _options_annotation(component: type[object]) -> type[Any] | None:
    """The annotation of a constructor's first argument if it is a dataclass."""
    hints = get_type_hints(component.__init__)
    parameters = list(signature(component.__init__).parameters)[1:]
    first = hints.get(parameters[0]) if parameters else None
    return first if isinstance(first, type) and is_dataclass(first) else None
