"""Write requirements-ci.txt: every package that the tests run with, by version and hash, and no address.

    python scripts/lock.py

Hashes are those of the files for this Python and this system; the head of the file says which.
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


def main() -> None:
    """Ask pip what it would install, and write it down."""
    with TemporaryDirectory() as folder:
        report = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder, "report.json")
        if not report.exists():
            command = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
            what = ["--editable", f"{ROOT}[test]", "--group", f"{ROOT / 'pyproject.toml'}:dev"]
            subprocess.run([sys.executable, "-m", "pip", *command, *what], check=True)
        found = json.loads(report.read_text("utf-8"))["install"]
    lines = [
        f"# {platform.python_implementation()} {sys.version_info[0]}.{sys.version_info[1]},"
        f" {platform.system()} {platform.machine()}; made by scripts/lock.py"
    ]
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
    main()
