"""Cited answers over a folder of documents: no key, no model download, no server.

The public names are listed in `__init__.pyi`. Each is imported when it is first used, so `import ragkit` stays cheap.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

__version__ = "0.3.0"


@cache
def _modules() -> dict[str, str]:
    """Public name -> its module, from the lines `from MODULE import NAME as NAME` of the stub."""
    lines = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith("from ")]
    return {name: module for _, module, _, _, _, name in words}


class _StandIn(type):
    """The type of names whose extra is not installed: `hasattr`, `help` and `import *` find them, use raises."""

    reason: ImportError

    def __new__(cls, name: str, bases: tuple[_StandIn, ...], namespace: dict[str, object]) -> _StandIn:
        """Raises MissingExtra: somebody derives a class."""
        raise bases[0].reason.with_traceback(None)

    def __call__(cls, *args: object, **options: object) -> object:
        raise cls.reason.with_traceback(None)


def _create_stand_in(name: str, reason: ImportError) -> type:
    stand_in = type.__new__(_StandIn, name, (), {"__doc__": str(reason), "__module__": "ragkit"})
    stand_in.reason = reason
    return stand_in


def __getattr__(name: str) -> object:
    if name == "__all__":
        return __dir__()
    if name not in _modules():
        raise AttributeError(f"module 'ragkit' has no attribute {name!r}")
    try:
        return getattr(import_module(_modules()[name]), name)
    except ImportError as error:
        from ragkit.errors import MissingExtra  # noqa: PLC0415 - `import ragkit` stays cheap

        if isinstance(error, MissingExtra):
            return _create_stand_in(name, error)
        raise


def __dir__() -> list[str]:
    return sorted([*_modules(), "__version__"])
