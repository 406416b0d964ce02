"""`ragkit pipeline`: the pipeline files: which there are, what they say, and whether they can be used."""

from __future__ import annotations

import json

import click

from ragkit.cli.common import Shell, verb
from ragkit.cli.terminal import echo
from ragkit.errors import PipelineError
from ragkit.pipeline.schema import json_schema
from ragkit.pipeline.settings import Pipeline
from ragkit.pipeline.shipped import names, summary
from ragkit.pipeline.show import diagram_mermaid, diagram_text, show_resolved


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List, show and check pipeline files."""


@command.command("list")
@verb
def list_(shell: Shell) -> None:
    """The ready-made pipelines, a line each."""
    for name in names():
        line = {"name": name, "summary": summary(name)}
        shell.out_json(line) if shell.json else shell.out(f"{name:16} {line['summary']}")


@command.command()
@click.argument("pipeline", required=False, metavar="[FILE|NAME]")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Change one setting.")
@click.option("--profile", metavar="NAME", help="A profile of the file.")
@click.option("--resolved", is_flag=True, help="Every value, and where it came from.")
@click.option("--diagram", is_flag=True, help="Draw it.")
@click.option("--mermaid", is_flag=True, help="Draw it in Mermaid.")
@verb
def show(
    shell: Shell,
    pipeline: str | None,
    overrides: tuple[str, ...],
    profile: str | None,
    resolved: bool,
    diagram: bool,
    mermaid: bool,
) -> None:
    """Show a pipeline: a file, a ready-made one, or the one that is in force here."""
    chosen = Pipeline.load(pipeline or shell.config or Pipeline.find() or "default", overrides, profile)
    text = chosen.to_yaml(hide=True)
    for wanted, draw in ((resolved, show_resolved), (diagram, diagram_text), (mermaid, diagram_mermaid)):
        if wanted:
            text = draw(chosen)
    shell.out_json({"name": chosen.name, "text": text}) if shell.json else shell.out(text.rstrip("\n"))


@command.command()
@click.argument("pipeline", required=False, metavar="[FILE|NAME]")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Change one setting.")
@click.option("--profile", metavar="NAME", help="A profile of the file.")
@verb
def validate(shell: Shell, pipeline: str | None, overrides: tuple[str, ...], profile: str | None) -> int:
    """Check a pipeline: every mistake at once, as file:line:column. Exits with 1 when there is one."""
    wanted = pipeline or shell.config or Pipeline.find() or "default"
    problems: tuple[str, ...] = ()
    try:
        Pipeline.load(wanted, overrides, profile, thorough=True)
    except PipelineError as error:
        problems = error.problems
    if shell.json:
        shell.out_json({"pipeline": str(wanted), "valid": not problems, "problems": list(problems)})
    elif problems:
        for problem in problems:
            echo(problem, err=True)
    else:
        shell.out(f"{wanted}: valid")
    return 1 if problems else 0


@command.command()
@click.option("--plugins", is_flag=True, help="With the parts of the plugins that are installed here.")
@verb
def schema(shell: Shell, plugins: bool) -> None:
    """The JSON Schema of pipeline files, for editors."""
    shell.out(json.dumps(json_schema(plugins=plugins), indent=2, ensure_ascii=False))
