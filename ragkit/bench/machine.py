"""What a benchmark ran on: figures of another machine say nothing about this one."""

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
    """Processor, cores, memory, system and the versions that every store runs on."""
    return {
        "cpu": _cpu_name(),
        "cores": len(available_cores()),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _installed_version(name) for name in ("ragkit", "numpy", "numkong")},
        "load_before": round(os.getloadavg()[0], 2),
    }


def package_versions(store: str) -> dict[str, str]:
    """The packages of a store's optional dependency group, with their versions; empty for stores of the core."""
    if store == REFERENCE_NAME:
        return {"numpy": _installed_version("numpy")}
    extra = STORES.extra(store) if store in STORES.names() else ""
    found = {}
    for line in requires(DISTRIBUTION) or []:
        said = match(r"([A-Za-z0-9_.-]+).*extra == ['\"]([a-z0-9-]+)['\"]", line)
        if extra and said and said[2] == extra:
            found[said[1]] = _installed_version(said[1])
    return found


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
