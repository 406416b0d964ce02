"""`ragkit pipeline`: the pipeline files: which there are, what they say, and whether they can be used."""

from __future__ import annotations

import json

import click

from ragkit.cli.common import CliContext, with_common_options
from ragkit.cli.terminal import echo
from ragkit.errors import PipelineError
from ragkit.pipeline.discovery import pipeline_names, pipeline_summary
from ragkit.pipeline.render import render_mermaid_diagram, render_resolved, render_text_diagram
from ragkit.pipeline.schema import json_schema
from ragkit.pipeline.settings import Pipeline


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List, show and check pipeline files."""


@command.command("list")
@with_common_options
def list_(shell: CliContext) -> None:
    """The ready-made pipelines, a line each."""
    for name in pipeline_names():
        line = {"name": name, "summary": pipeline_summary(name)}
        shell.write_json(line) if shell.json else shell.write(f"{name:16} {line['summary']}")


@command.command()
@click.argument("pipeline", required=False, metavar="[FILE|NAME]")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Change one setting.")
@click.option("--profile", metavar="NAME", help="A profile of the file.")
@click.option("--resolved", is_flag=True, help="Every value, and where it came from.")
@click.option("--diagram", is_flag=True, help="Draw it.")
@click.option("--mermaid", is_flag=True, help="Draw it in Mermaid.")
@with_common_options
def show(
    shell: CliContext,
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
    for wanted, draw in (
        (resolved, render_resolved),
        (diagram, render_text_diagram),
        (mermaid, render_mermaid_diagram),
    ):
        if wanted:
            text = draw(chosen)
    shell.write_json({"name": chosen.name, "text": text}) if shell.json else shell.write(text.rstrip("\n"))


@command.command()
@click.argument("pipeline", required=False, metavar="[FILE|NAME]")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Change one setting.")
@click.option("--profile", metavar="NAME", help="A profile of the file.")
@with_common_options
def validate(shell: CliContext, pipeline: str | None, overrides: tuple[str, ...], profile: str | None) -> int:
    """Check a pipeline: every mistake at once, as file:line:column. Exits with 1 when there is one."""
    wanted = pipeline or shell.config or Pipeline.find() or "default"
    problems: tuple[str, ...] = ()
    try:
        Pipeline.load(wanted, overrides, profile, thorough=True)
    except PipelineError as error:
        problems = error.problems
    if shell.json:
        shell.write_json({"pipeline": str(wanted), "valid": not problems, "problems": list(problems)})
    elif problems:
        for problem in problems:
            echo(problem, err=True)
    else:
        shell.write(f"{wanted}: valid")
    return 1 if problems else 0


@command.command()
@click.option("--plugins", is_flag=True, help="With the parts of the plugins that are installed here.")
@with_common_options
def schema(shell: CliContext, plugins: bool) -> None:
    """The JSON Schema of pipeline files, for editors."""
    shell.write(json.dumps(json_schema(plugins=plugins), indent=2, ensure_ascii=False))
