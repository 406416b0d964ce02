"""Install a package that a page shows, without pip: its modules and entry points, for the page's commands."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path


def install(project: Path = Path()) -> None:
    """Install the package of `project/pyproject.toml` into `project/installed`, as `pip install` would."""
    described = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = described["entry-points"]
    target = project / "installed"
    info = target / f"{described['name'].replace('-', '_')}-{described['version']}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    head = f"Metadata-Version: 2.1\nName: {described['name']}\nVersion: {described['version']}\n"
    (info / "METADATA").write_text(head, encoding="utf-8")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {place}\n" for key, place in parts.items())
        for group, parts in groups.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    for place in {place for parts in groups.values() for place in parts.values()}:
        module = place.partition(":")[0]
        shutil.copyfile(project / f"{module}.py", target / f"{module}.py")
