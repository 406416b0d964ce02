"""`ragkit init`: write the configuration files of a new project."""

from __future__ import annotations

from pathlib import Path

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


@click.command()
@click.argument("folder", default=".", metavar="[DIR]", type=click.Path(file_okay=False, path_type=Path))
@with_common_options
def command(context: CliContext, folder: Path) -> int:
    """Write a commented ragkit.yaml and .ragkitignore. Existing files are not changed."""
    folder.mkdir(parents=True, exist_ok=True)
    written, existing = [], []
    for name, text in (("ragkit.yaml", PIPELINE_TEMPLATE), (".ragkitignore", IGNORE_TEMPLATE)):
        try:
            with (folder / name).open("x", encoding="utf-8") as stream:
                stream.write(text)
            written.append(str(folder / name))
        except FileExistsError:
            existing.append(str(folder / name))
    if context.json:
        context.write_json({"written": written, "there": existing})
        return 0 if written else EXIT_ERROR
    for name in written:
        context.write(f"wrote {name}")
    for name in existing:
        context.log(f"{name} exists: not changed")
    if written:
        context.log("next: ragkit index .")
    return 0 if written else EXIT_ERROR
