"""The registry of runners, and their options. The runners are in `run/`, imported on use."""

from __future__ import annotations

from dataclasses import dataclass

from ragkit.errors import InvalidOption
from ragkit.index.build_runner import BuildRunner
from ragkit.registry import ComponentSpec, Registry

RUNNERS: Registry[BuildRunner] = Registry(
    "runner",
    "runners",
    {
        "local": ComponentSpec("ragkit.pipeline.run.local:LocalRunner", options="ragkit.pipeline.runners:LocalOptions"),
        "ray": ComponentSpec("ragkit.pipeline.run.ray:RayRunner", "ray", "ragkit.pipeline.runners:RayOptions"),
    },
)


@dataclass(frozen=True)
class LocalOptions:
    """Index on this machine: worker processes read, parse and split files while others are embedded and written."""

    workers: int = 0
    """Worker processes; 0: as many as keep up with the embedder, at most one per core, or none if the files are few."""

    def __post_init__(self) -> None:
        _check_workers(self.workers)


@dataclass(frozen=True)
class RayOptions:
    """Index on a Ray cluster. Every machine needs the files under the same paths, and ragkit.

    The cluster reads, splits and embeds; the process that indexes writes the knowledge base.
    """

    address: str = ""
    """Address of the head node, `host:port`, or `auto` for the cluster of this machine; empty: RAY_ADDRESS, else a
    new cluster on this machine."""
    workers: int = 0
    """Parallel tasks with one CPU each; 0: one per CPU of the cluster."""

    def __post_init__(self) -> None:
        _check_workers(self.workers)
        if self.address.startswith("ray://"):
            expected = "host:port or auto, on a machine of the cluster (the Ray client protocol is not supported)"
            raise InvalidOption("address", self.address, expected)


def _check_workers(workers: int) -> None:
    if workers < 0:
        raise InvalidOption("workers", workers, ">= 0")
