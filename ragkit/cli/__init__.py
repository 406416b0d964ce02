"""The command line: `ragkit COMMAND ...`. One module per command, imported when the command is used."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from importlib import import_module

import click

from ragkit import __version__, errors
from ragkit.cli.renamed import OLD_COMMANDS, rename_options
from ragkit.cli.terminal import echo
from ragkit.errors import PipelineError, RagkitError, UnknownName

EXIT_ERROR, EXIT_USAGE, EXIT_SETTINGS_MISMATCH, EXIT_BUDGET_EXCEEDED = 1, 2, 3, 4
EXIT_VERIFY_FAILED, EXIT_UNSUPPORTED, EXIT_PARTIAL_FAILURE, EXIT_INTERRUPTED = 5, 6, 7, 130

COMMANDS = {
    "init": "write ragkit.yaml, .ragkitignore and a sample folder",
    "index": "index files, folders, web pages and configured sources",
    "worker": "embed texts for index runs of other machines",
    "search": "search for passages",
    "ask": "answer a question with citations",
    "chat": "answer questions in a conversation",
    "summarize": "summarize a document with citations",
    "sources": "list the sources with their last run",
    "access": "say who may read which documents",
    "status": "show what the knowledge base holds",
    "list": "list documents or chunks",
    "show": "show a document or a chunk",
    "remove": "remove files and folders from the index",
    "clear": "remove all documents",
    "copy": "copy to another vector store without embedding again",
    "verify": "check catalog, vectors and lexical index",
    "eval": "evaluate retrieval and answers",
    "tune": "find the best settings for your documents and questions",
    "explain": "explain why a search misses a passage",
    "serve": "serve a web UI and an OpenAI-compatible API",
    "mcp": "serve the knowledge base to MCP clients",
    "models": "list models with limits and prices",
    "usage": "show tokens and costs",
    "bench": "benchmark vector stores",
    "pipeline": "list, show and validate pipeline files",
    "doctor": "check the installation",
}


MEASURING = frozenset({"bench", "eval", "tune"})
"""Commands that are in `ragkit.cli.measure`; the others are in `ragkit.cli.commands`."""
SHORT_COMMANDS = frozenset({"status", "search", "ask", "list", "show", "usage"})
"""Commands that multiply no large matrices."""
GC_THRESHOLD = 200_000
"""New objects between two collections of garbage in such a command: imports create many objects and no garbage, and
with the default of 700 it spends 6 % of its time on collections."""


def command_module(name: str) -> str:
    """The module that defines a command."""
    return f"ragkit.cli.{'measure' if name in MEASURING else 'commands'}.{name}"


class CommandGroup(click.Group):
    """The group of all commands. --help imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in SHORT_COMMANDS:
            # threads that OpenBLAS starts when numpy is imported spin longer than these commands compute
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
        command = import_module(command_module(cmd_name)).command
        assert isinstance(command, click.Command)  # noqa: S101 - every module defines it
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one line per command, from COMMANDS."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command. The error for an unknown name suggests the closest one; old names still work."""
        if args and args[0] in OLD_COMMANDS:
            echo(f"note: `ragkit {args[0]}` is now `ragkit {OLD_COMMANDS[args[0]]}`", err=True)
            args = [OLD_COMMANDS[args[0]], *args[1:]]
        if args:
            args = [args[0], *rename_options(args[0], args[1:])]
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(str(UnknownName("command", args[0], tuple(COMMANDS))), ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="ragkit")
@click.option(
    "--kb",
    multiple=True,
    metavar="DIR|URL",
    help="Knowledge base: a directory, or postgresql://... (default: .ragkit, or RAGKIT_KB).",
)
@click.option("--config", metavar="FILE", help="Pipeline file (default: the ragkit.yaml found).")
@click.option("-q", "--quiet", is_flag=True, help="Print only results and errors.")
@click.option("-v", "--verbose", is_flag=True, help="Print more details.")
@click.option("--no-color", is_flag=True, help="Disable colors (also NO_COLOR).")
@click.pass_context
def cli(ctx: click.Context, /, **flags: object) -> None:
    """Search documents and answer questions with citations.

    \b
        ragkit index docs/
        ragkit ask "How do I retry?"
    """
    ctx.obj = dict(flags)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def exit_code(error: RagkitError) -> int:
    """The exit code of an error."""
    if isinstance(error, errors.SettingsMismatch):
        return EXIT_SETTINGS_MISMATCH
    if isinstance(error, errors.BudgetExceeded | errors.PriceUnknown):
        return EXIT_BUDGET_EXCEEDED
    return EXIT_USAGE if isinstance(error, errors.InvalidFilter | errors.InvalidOption | UnknownName) else EXIT_ERROR


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C, or follows from it: `threading` raises a RuntimeError if it comes within a lock."""
    while error is not None and not isinstance(error, click.exceptions.Abort | KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _with_closest_option(error: click.NoSuchOption) -> click.NoSuchOption:
    """The error with one suggestion at most: click counts the dashes too, by which `--quiet` is close to `--set`."""
    known = {option.lstrip("-"): option for option in error.possibilities or ()}
    near = errors.closest_match(error.option_name.lstrip("-"), known)
    return click.NoSuchOption(error.option_name, possibilities=[known[near]] if near else None, ctx=error.ctx)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: run a command; print errors as one line and exit with their code."""
    atexit.register(gc.freeze)  # a process that ends need not look for garbage: that takes 0.1 s
    threshold = gc.get_threshold()
    try:
        code = cli.main(arguments, prog_name="ragkit", standalone_mode=False)
    except (KeyboardInterrupt, RuntimeError) as error:
        if not _is_interrupt(error):
            raise
        echo("interrupted; completed work is kept", err=True)
        code = EXIT_INTERRUPTED
    except click.ClickException as error:
        (_with_closest_option(error) if isinstance(error, click.NoSuchOption) else error).show()
        code = error.exit_code
    except RagkitError as error:
        lead = "" if isinstance(error, PipelineError) else "error: "
        echo(f"{lead}{error}", err=True)
        code = exit_code(error)
    except BrokenPipeError:
        # the reader closed the pipe (head, less): without stdout, the flush at exit raises no error
        sys.stdout = None
        code = EXIT_ERROR
    except OSError as error:
        click.echo(f"error: {error.filename or 'a file'}: {error.strerror or error}", err=True)
        code = EXIT_ERROR
    finally:
        gc.set_threshold(*threshold)  # `main` may be called by a program
    sys.exit(code if isinstance(code, int) else 0)
