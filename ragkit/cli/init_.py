"""`ragkit init`: the two files that a project begins with."""

from __future__ import annotations

from pathlib import Path

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, with_common_options

PIPELINE_TEMPLATE = """\
# How ragkit builds and searches the index of this folder. Every line may be left out.
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
# Files that ragkit does not index, written as in a .gitignore (which is honoured too).
node_modules/
*.log
"""


@click.command()
@click.argument("folder", default=".", metavar="[DIR]", type=click.Path(file_okay=False, path_type=Path))
@with_common_options
def command(shell: CliContext, folder: Path) -> int:
    """Write a commented ragkit.yaml and .ragkitignore. Files that exist are left as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    written, there = [], []
    for name, text in (("ragkit.yaml", PIPELINE_TEMPLATE), (".ragkitignore", IGNORE_TEMPLATE)):
        try:
            with (folder / name).open("x", encoding="utf-8") as stream:
                stream.write(text)
            written.append(str(folder / name))
        except FileExistsError:
            there.append(str(folder / name))
    if shell.json:
        shell.write_json({"written": written, "there": there})
        return 0 if written else EXIT_ERROR
    for name in written:
        shell.write(f"wrote {name}")
    for name in there:
        shell.log(f"{name} is there already: left as it is")
    if written:
        shell.log("next: ragkit index .")
    return 0 if written else EXIT_ERROR
