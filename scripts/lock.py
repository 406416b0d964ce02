"""Write requirements-ci.txt: version and hash of every package that the tests need, without URLs.

    python scripts/lock.py              write the file
    python scripts/lock.py --fits       exit with 0 if the file is for this Python and this system

The hashes are those of the files for one Python and one system, named in the file's first line.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-ci.txt"


def platform_label() -> str:
    """The Python and the system, which decide which file of a package is installed."""
    python = f"{platform.python_implementation()} {sys.version_info[0]}.{sys.version_info[1]}"
    return f"{python}, {platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}"


def fits() -> bool:
    """Whether the file is for this Python and this system."""
    return LOCK.exists() and LOCK.read_text("utf-8").startswith(f"# {platform_label()};")


def write() -> None:
    """Resolve the packages with pip and write the file."""
    groups = [part for name in ("dev", "build") for part in ("--group", f"{ROOT / 'pyproject.toml'}:{name}")]
    with TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        subprocess.run([sys.executable, "-m", "pip", *command, "--editable", f"{ROOT}[test]", *groups], check=True)
        packages = json.loads(report.read_text("utf-8"))["install"]
    lines = [f"# {platform_label()}; written by scripts/lock.py"]
    for package in sorted(packages, key=lambda item: str(item["metadata"]["name"]).lower()):
        archive = package["download_info"].get("archive_info")
        if archive is None:
            continue  # this package itself
        name, version = package["metadata"]["name"], package["metadata"]["version"]
        lines.append(f"{name}=={version} --hash=sha256:{archive['hashes']['sha256']}")
    LOCK.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{len(lines) - 1} packages in {LOCK.name}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--fits"]:
        sys.exit(0 if fits() else 1)
    write()
