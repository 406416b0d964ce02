"""How an index run is carried out: on this machine, or on a cluster. The table of the runners, and their options.

What they do is in `run/`, which is imported when one of them is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragkit.errors import InvalidOption
from ragkit.index.build_runner import BuildRunner
from ragkit.registry import PartSpec, Registry

RUNNERS: Registry[BuildRunner] = Registry(
    "runner",
    "runners",
    {
        "local": PartSpec("ragkit.pipeline.run.local:LocalRunner", options="ragkit.pipeline.runners:LocalOptions"),
        "ray": PartSpec("ragkit.pipeline.run.ray:RayRunner", "ray", "ragkit.pipeline.runners:RayOptions"),
    },
)


@dataclass(frozen=True)
class LocalOptions:
    """Index on this machine: files are read, parsed and split in processes, while others are embedded and written."""

    workers: int = 0
    """Processes that read, parse and split; 0: one for each core, or none but the parsers where the files are few."""

    def __post_init__(self) -> None:
        _check_workers(self.workers)


@dataclass(frozen=True)
class RayOptions:
    """Index on a Ray cluster. Every machine of it sees the files under the same paths, and has ragkit installed.

    The knowledge base stays with the process that indexes: the cluster reads, splits and embeds.
    """

    address: str = ""
    """Of the cluster's head, `host:port`, or `auto` for the one that this machine is part of; empty: RAY_ADDRESS,
    or a cluster of its own on this machine."""
    workers: int = 0
    """Files and windows of texts that are worked on side by side, one CPU each; 0: one for each CPU of the cluster."""

    def __post_init__(self) -> None:
        _check_workers(self.workers)
        if self.address.startswith("ray://"):
            wanted = "host:port or auto, on a machine of the cluster (the Ray client streams no data)"
            raise InvalidOption("address", self.address, wanted)


def _check_workers(workers: int) -> None:
    if workers < 0:
        raise InvalidOption("workers", workers, ">= 0")
