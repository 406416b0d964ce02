"""How an index run is carried out: on this machine, or on a cluster. This is the table of the runners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from ragkit.index.runner import Runner
from ragkit.pipeline.run.options import LocalOptions, RayOptions
from ragkit.registry import Place, Registry

if TYPE_CHECKING:
    from ragkit.pipeline.assemble import Assembly

RUNNERS: Registry[Runner] = Registry(
    "runner",
    "runners",
    {
        "local": Place("ragkit.pipeline.run.local:LocalRunner", options="ragkit.pipeline.run.options:LocalOptions"),
        "ray": Place("ragkit.pipeline.run.ray:RayRunner", "ray", "ragkit.pipeline.run.options:RayOptions"),
    },
)


def runner_of(parts: Assembly, workers: int = 0) -> Runner:
    """The runner of a pipeline, for one build; `workers` stands over its own option unless it is 0.

    Raises:
        MissingExtra: what it needs is not installed.
        WorkerError: its cluster cannot be reached.
    """
    choice = parts.pipeline.runner
    options = choice.options
    if workers and isinstance(options, LocalOptions | RayOptions):
        options = replace(options, workers=workers)
    build = cast("Callable[[object, Assembly], Runner]", RUNNERS.find(choice.name))
    return build(options, parts)
