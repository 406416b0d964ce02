"""Describes the machine and the package versions of a benchmark run."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from re import match

from ragkit.bench.numpy_reference import REFERENCE_NAME
from ragkit.bench.settings import available_cores
from ragkit.distribution import DISTRIBUTION
from ragkit.records import JSON
from ragkit.store import STORES


def describe_machine() -> dict[str, JSON]:
    """Processor, cores, memory, operating system and the versions of the core packages."""
    return {
        "cpu": _cpu_name(),
        "cores": len(available_cores()),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {
            "ragkit": _installed_version(DISTRIBUTION),
            **{n: _installed_version(n) for n in ("numpy", "simsimd")},
        },
        "load_before": round(os.getloadavg()[0], 2),
    }


def package_versions(store: str) -> dict[str, str]:
    """Versions of the packages in a store's optional dependency group; empty for stores without one."""
    if store == REFERENCE_NAME:
        return {"numpy": _installed_version("numpy")}
    extra = STORES.extra(store) if store in STORES.names() else ""
    versions = {}
    with suppress(PackageNotFoundError):  # not installed: run from the source tree
        for line in requires(DISTRIBUTION) or []:
            requirement = match(r"([A-Za-z0-9_.-]+).*extra == ['\"]([a-z0-9-]+)['\"]", line)
            if extra and requirement and requirement[2] == extra:
                versions[requirement[1]] = _installed_version(requirement[1])
    return versions


def _installed_version(package: str) -> str:
    with suppress(PackageNotFoundError):
        return version(package)
    return ""


def _cpu_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
