"""`ragkit init`: the files that a project begins with, and the sample folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, with_common_options

PIPELINE_TEMPLATE = """\
# How ragkit builds and searches the index of this folder. Every line is optional.
# Check it with `ragkit pipeline validate`; see all settings with `ragkit pipeline show --resolved`.
extends: default

# load:     {name: folder, include: ["**/*"], exclude: ["drafts/**"], max_file_mb: 50}
# split:    {name: recursive, chunk_size: 200, chunk_overlap: 40, unit: tokens}
# embed:    {name: minilm}
# store:    {name: sqlite}
# retrieve: {name: hybrid, top_k: 8}
# answer:   {provider: auto, max_iterations: 6, max_cost_usd: 0.05}
"""

IGNORE_TEMPLATE = """\
# Files that ragkit does not index, in the syntax of .gitignore (which is respected too).
node_modules/
*.log
"""


SAMPLE_NAMES = ("sample", "questions.jsonl")
"""The sample folder, and questions that it answers."""
_PACKAGED_SAMPLE = Path(__file__).with_name("sample_files")


def sample_directory() -> Path:
    """Where the sample folder lies: inside the package, or in `data/` of a checkout."""
    return _PACKAGED_SAMPLE if _PACKAGED_SAMPLE.is_dir() else Path(__file__).parents[3] / "data"


@click.command()
@click.argument("folder", default=".", metavar="[DIR]", type=click.Path(file_okay=False, path_type=Path))
@click.option("--sample", is_flag=True, help="Write the sample folder and its questions too, for a first try.")
@with_common_options
def command(context: CliContext, folder: Path, sample: bool) -> int:
    """Write a commented ragkit.yaml and .ragkitignore. Existing files are not changed.

    \b
        ragkit init
        ragkit init --sample    # and 43 documents in eleven formats, to try ragkit on
    """
    folder.mkdir(parents=True, exist_ok=True)
    templates = {"ragkit.yaml": PIPELINE_TEMPLATE, ".ragkitignore": IGNORE_TEMPLATE}
    created = {name: _write_template(folder / name, text) for name, text in templates.items()}
    if sample:
        created |= {name: _copy_sample(folder, name) for name in SAMPLE_NAMES}
    written = [str(folder / name) for name, is_new in created.items() if is_new]
    existing = [str(folder / name) for name, is_new in created.items() if not is_new]
    if context.json:
        context.write_json({"written": written, "there": existing})
        return 0 if written else EXIT_ERROR
    for name in written:
        context.write(f"wrote {name}")
    for name in existing:
        context.log(f"{name} exists: not changed")
    if written:
        context.log(f"next: ragkit index {folder / 'sample' if sample else '.'}")
    return 0 if written else EXIT_ERROR


def _write_template(path: Path, text: str) -> bool:
    """Whether `path` was written; False: it exists."""
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        return False
    return True


def _copy_sample(folder: Path, name: str) -> bool:
    """Copy a file or folder of the sample into `folder`, completely or not at all. False: it exists."""
    if (folder / name).exists():
        return False
    with TemporaryDirectory(prefix=".ragkit-sample-", dir=folder) as partial:
        source = sample_directory() / name
        if source.is_dir():
            # pip compiles the Python files of an installed package; the results are not part of the sample
            shutil.copytree(source, Path(partial) / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, Path(partial) / name)
        (Path(partial) / name).rename(folder / name)
    return True
