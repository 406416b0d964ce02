"""The command line: `ragkit VERB ...`. One file a verb, imported when the verb is used."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from ragkit import __version__
from ragkit.cli.terminal import echo
from ragkit.errors import (
    BudgetExceeded,
    InvalidFilter,
    InvalidOption,
    PipelineError,
    PriceUnknown,
    RagkitError,
    SettingsMismatch,
    UnknownName,
)

EXIT_ERROR, EXIT_USAGE, EXIT_SETTINGS_MISMATCH, EXIT_BUDGET_EXCEEDED = 1, 2, 3, 4
EXIT_VERIFY_FAILED, EXIT_UNSUPPORTED, EXIT_PARTIAL_FAILURE, EXIT_INTERRUPTED = 5, 6, 7, 130

VERBS = {
    "init": "write a commented ragkit.yaml and .ragkitignore, and a sample folder on request",
    "index": "bring the knowledge base in line with folders and files",
    "search": "find passages",
    "ask": "answer a question with citations",
    "chat": "answer questions, one after the other",
    "status": "say what is in the knowledge base",
    "list": "list documents or chunks",
    "show": "show a document or a chunk",
    "rm": "take a file or folder out",
    "clear": "take everything out",
    "copy": "move to another vector store without embedding anything again",
    "verify": "check that catalog, vectors and lexical index agree",
    "eval": "tell whether it finds and answers what it should",
    "tune": "find the settings that suit your documents and questions",
    "why": "say why a search does not bring a passage",
    "serve": "put it behind a page and OpenAI's API",
    "mcp": "serve the knowledge base to MCP clients",
    "models": "list models with limits and prices",
    "usage": "say what was spent",
    "bench": "measure vector stores side by side",
    "pipeline": "list, show and check pipeline files",
    "doctor": "say what is installed and what to run if not",
}


class VerbGroup(click.Group):
    """The group: verbs are found in `ragkit.cli.<verb>`, so that --help imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which one meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, imported."""
        if cmd_name not in VERBS:
            return None
        command = import_module(f"ragkit.cli.{cmd_name}_").command
        assert isinstance(command, click.Command)  # noqa: S101 - each file of the folder holds one
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs with a line each, from the table above."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Says the nearest right verb when there is none of this name."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(str(UnknownName("verb", args[0], tuple(VERBS))), ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ragkit")
@click.option("--kb", metavar="DIR", help="The knowledge base (default: .ragkit, or RAGKIT_KB).")
@click.option("--config", metavar="FILE", help="A pipeline file instead of the ragkit.yaml that is found.")
@click.option("-q", "--quiet", is_flag=True, help="Say only what was asked for, and errors.")
@click.option("-v", "--verbose", is_flag=True, help="Say more.")
@click.option("--no-color", is_flag=True, help="No colours (also NO_COLOR).")
@click.pass_context
def cli(ctx: click.Context, /, **flags: object) -> None:
    """Cited answers over a folder of documents.

    \b
        ragkit index docs/
        ragkit ask "How do I retry?"
    """
    ctx.obj = dict(flags)


def exit_code(error: RagkitError) -> int:
    """The exit code of an error."""
    codes: tuple[tuple[type[RagkitError], int], ...] = (
        (SettingsMismatch, EXIT_SETTINGS_MISMATCH),
        (BudgetExceeded, EXIT_BUDGET_EXCEEDED),
        (PriceUnknown, EXIT_BUDGET_EXCEEDED),
        (InvalidFilter, EXIT_USAGE),
        (InvalidOption, EXIT_USAGE),
        (UnknownName, EXIT_USAGE),
    )
    return next((code for kind, code in codes if isinstance(error, kind)), EXIT_ERROR)


def main(arguments: list[str] | None = None) -> None:
    """The entry point: runs a verb and turns errors into one line and an exit code."""
    try:
        code = cli.main(arguments, prog_name="ragkit", standalone_mode=False)
    except click.exceptions.Abort:
        echo("interrupted; what was done is kept", err=True)
        code = EXIT_INTERRUPTED
    except KeyboardInterrupt:
        echo("interrupted; what was done is kept", err=True)
        code = EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except RagkitError as error:
        lead = "" if isinstance(error, PipelineError) else "error: "
        echo(f"{lead}{error}", err=True)
        code = exit_code(error)
    except BrokenPipeError:
        # the reader has gone (head, less): point stdout at nothing, so that its flush at exit stays quiet
        sys.stdout = None
        code = EXIT_ERROR
    except OSError as error:
        # what no part foresaw: a folder that may not be entered, a disk that fails under a read
        click.echo(f"error: {error.filename or 'a file'}: {error.strerror or error}", err=True)
        code = EXIT_ERROR
    sys.exit(code if isinstance(code, int) else 0)
