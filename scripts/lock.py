"""Write requirements-ci.txt: every package that the tests run with, by version and hash, and no address.

    python scripts/lock.py              write it
    python scripts/lock.py --fits       exit with 0 where it is for this Python and this system

Hashes are those of the files for one Python and one system; the head of the file says which.
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


def here() -> str:
    """What decides which file of a package is installed."""
    python = f"{platform.python_implementation()} {sys.version_info[0]}.{sys.version_info[1]}"
    return f"{python}, {platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}"


def fits() -> bool:
    """Whether the file is for this Python and this system."""
    return LOCK.exists() and LOCK.read_text("utf-8").startswith(f"# {here()};")


def write() -> None:
    """Ask pip what it would install, and write it down."""
    groups = [part for name in ("dev", "build") for part in ("--group", f"{ROOT / 'pyproject.toml'}:{name}")]
    with TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        subprocess.run([sys.executable, "-m", "pip", *command, "--editable", f"{ROOT}[test]", *groups], check=True)
        found = json.loads(report.read_text("utf-8"))["install"]
    lines = [f"# {here()}; made by scripts/lock.py"]
    for one in sorted(found, key=lambda each: str(each["metadata"]["name"]).lower()):
        archive = one["download_info"].get("archive_info")
        if archive is None:
            continue  # this package itself
        lines.append(
            f"{one['metadata']['name']}=={one['metadata']['version']} --hash=sha256:{archive['hashes']['sha256']}"
        )
    LOCK.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{len(lines) - 1} packages in {LOCK.name}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--fits"]:
        sys.exit(0 if fits() else 1)
    write()
