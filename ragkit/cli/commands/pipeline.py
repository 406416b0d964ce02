"""`ragkit pipeline`: list, show and validate pipeline files."""

from __future__ import annotations

import json

import click

from ragkit.cli.common import CliContext, with_common_options
from ragkit.cli.terminal import echo
from ragkit.errors import PipelineError
from ragkit.pipeline.discovery import pipeline_names, pipeline_summary
from ragkit.pipeline.render import render_resolved
from ragkit.pipeline.schema import json_schema
from ragkit.pipeline.settings import Pipeline


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List, show and validate pipeline files."""


@command.command("list")
@with_common_options
def list_(context: CliContext) -> None:
    """List the built-in pipelines."""
    for name in pipeline_names():
        line = {"name": name, "summary": pipeline_summary(name)}
        context.write_json(line) if context.json else context.write(f"{name:16} {line['summary']}")


@command.command()
@click.argument("pipeline", required=False, metavar="[FILE|NAME]")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override a setting.")
@click.option("--profile", metavar="NAME", help="Profile of the file.")
@click.option("--resolved", is_flag=True, help="Show every value with its origin.")
@with_common_options
def show(
    context: CliContext, pipeline: str | None, overrides: tuple[str, ...], profile: str | None, resolved: bool
) -> None:
    """Show a pipeline: a file, a built-in one, or the active one."""
    loaded = Pipeline.load(pipeline or context.config or Pipeline.find() or "default", overrides, profile)
    text = render_resolved(loaded) if resolved else loaded.to_yaml(hide=True)
    context.write_json({"name": loaded.name, "text": text}) if context.json else context.write(text.rstrip("\n"))


@command.command()
@click.argument("pipeline", required=False, metavar="[FILE|NAME]")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override a setting.")
@click.option("--profile", metavar="NAME", help="Profile of the file.")
@with_common_options
def validate(context: CliContext, pipeline: str | None, overrides: tuple[str, ...], profile: str | None) -> int:
    """Validate a pipeline; prints all problems as file:line:column. Exits with 1 if there are any."""
    target = pipeline or context.config or Pipeline.find() or "default"
    problems: tuple[str, ...] = ()
    try:
        Pipeline.load(target, overrides, profile, thorough=True)
    except PipelineError as error:
        problems = error.problems
    if context.json:
        context.write_json({"pipeline": str(target), "valid": not problems, "problems": list(problems)})
    elif problems:
        for problem in problems:
            echo(problem, err=True)
    else:
        context.write(f"{target}: valid")
    return 1 if problems else 0


@command.command()
@click.option("--plugins", is_flag=True, help="Include the components of installed plugins.")
@with_common_options
def schema(context: CliContext, plugins: bool) -> None:
    """Print the JSON Schema of pipeline files, for editors."""
    context.write(json.dumps(json_schema(plugins=plugins), indent=2, ensure_ascii=False))
