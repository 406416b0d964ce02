"""Measure what the quick start of ragkit and of other systems installs: a fresh environment for each.

    pip install uv
    python -m benchmarks.peer_install_size [--only NAME ...] [--find-links FOLDER --torch REQUIREMENT] [--write]

MB (10^6 bytes) of all files of the environment's packages, without bytecode, which differs by installer; the number of
distributions; and the three largest. On Linux PyPI's build of torch brings CUDA with it; with `--torch`, such as
`torch==2.13.0+cpu` in FOLDER, systems that need torch are installed a second time, with that build. `--write` puts the
figures into `docs/comparison.json` and writes the tables of the page.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
QUICK_STARTS = {
    "ragkit": ("ragkit-kb", ["ragkit-kb"]),
    "txtai": ("txtai", ["txtai"]),
    "Haystack": ("haystack-ai", ["haystack-ai", "sentence-transformers-haystack"]),
    "LlamaIndex": (
        "llama-index-core",
        ["llama-index-core", "llama-index-readers-file", "llama-index-embeddings-huggingface"],
    ),
    "LangChain": (
        "langchain",
        ["langchain", "langchain-community", "langchain-chroma", "langchain-huggingface", "sentence-transformers"],
    ),
    "selectools": ("selectools", ["selectools[rag]", "sentence-transformers"]),
    "Haystack, a service embeds": ("haystack-ai", ["haystack-ai"]),
    "LlamaIndex, a service embeds": ("llama-index-core", ["llama-index"]),
    "LangChain, a service embeds": (
        "langchain",
        ["langchain", "langchain-community", "langchain-chroma", "langchain-openai"],
    ),
    "selectools, a service embeds": ("selectools", ["selectools[rag]"]),
}
"""Name -> (the distribution whose version is reported, what is installed)."""


def measure(name: str, find_links: str, torch: str) -> dict[str, Any]:
    """Install what a system's quick start needs, and measure it; with another torch too if it has one."""
    main, packages = QUICK_STARTS[name]
    wanted = [str(ROOT) if package == "ragkit-kb" else package for package in packages]
    sizes, version, whole = installed(wanted, main)
    result = {
        "version": version,
        "command": f"pip install {' '.join(packages)}",
        "mb": round(whole / 1e6, 1),
        "distributions": len(sizes),
        "largest": {key: round(size / 1e6) for key, size in sorted(sizes.items(), key=lambda item: -item[1])[:3]},
    }
    if torch and "torch" in sizes:
        sizes, _, whole = installed([*wanted, torch, "--find-links", find_links], main)
        result |= {"mb_cpu": round(whole / 1e6, 1), "distributions_cpu": len(sizes)}
    return result


def installed(wanted: list[str], main: str) -> tuple[dict[str, int], str, int]:
    """Install into a fresh environment. Returns (distribution -> bytes, the version of `main`, bytes of all).

    Raises:
        SystemExit: the installation failed.
    """
    with tempfile.TemporaryDirectory() as work:
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--python", sys.executable, "env"], check=True, cwd=work, capture_output=True)
        command = [*uv, "pip", "install", "--python", "env/bin/python", *wanted]
        done = subprocess.run(command, check=False, cwd=work, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(wanted)}: {done.stderr[-2000:]}")
        packages = next((Path(work) / "env" / "lib").glob("python*/site-packages"))
        found = {each.metadata["Name"].lower(): each for each in distributions(path=[str(packages)])}
        return {name: _bytes(each) for name, each in found.items()}, found[main].version, _folder_bytes(packages)


def _bytes(distribution: Distribution) -> int:
    return sum(file.size or 0 for file in distribution.files or ())


def _folder_bytes(folder: Path) -> int:
    return sum(
        (Path(parent) / file).lstat().st_size
        for parent, _, files in os.walk(folder)
        if Path(parent).name != "__pycache__"
        for file in files
    )


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(QUICK_STARTS))
    parser.add_argument(
        "--find-links", default="", metavar="FOLDER", help="wheels to prefer, such as torch for the CPU"
    )
    parser.add_argument("--torch", default="", metavar="REQUIREMENT", help="a second installation with this torch")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/comparison.json and the page")
    options = parser.parse_args()
    for name in options.only or QUICK_STARTS:
        result = measure(name, options.find_links, options.torch)
        print(name, result, flush=True)
        if options.write:
            from benchmarks import comparison

            comparison.add("install", name, result)


if __name__ == "__main__":
    main()
