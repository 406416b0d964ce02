"""The synchronous and the asynchronous path share their code.

Asynchronous functions exist only in the few files that wait for something, where they are thin wrappers around shared
functions, and no two functions of the package have the same body.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ragkit.agent

ROOT = Path(ragkit.agent.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

ALLOWED = {
    "agent.py": {"abatch", "arun", "arun_to_completion", "run_one"},
    "async_driver.py": {
        *("_complete", "_notify", "_run_tools", "_stream_completion", "_wait_for_result", "adrive"),
        *("get", "job", "listen", "perform", "work"),
    },
    "background_tasks.py": {"_feed_items", "items", "iterate_in_thread", "iterate_on_loop"},
    "anthropic.py": {"_send_request"},
    "adapter.py": {"acomplete", "astream"},
    "base.py": {"acomplete", "astream"},
    "chat_completions.py": {"_send_request"},
    "fallback.py": {"acomplete", "astream"},
    "gemini.py": {"_send_request", "close"},
    "gguf.py": {"_send_request"},
    "http_provider.py": {"_complete", "_stream_deltas", "acomplete", "astream"},
    "mcp.py": {
        *("__aenter__", "__aexit__", "_call", "_close", "_close_session", "_connect", "_list_tools", "_open_session"),
        *("_run", "aclose", "call", "close", "function", "open_client"),
    },
    "observers.py": {"_gather"},
    "ollama.py": {"_send_request"},
    "scripted.py": {"acomplete", "astream"},
    "runner.py": {"arun"},
    "tool_execution.py": {"_await_output", "acollect_output", "aexecute_tool"},
}
"""The only asynchronous functions allowed."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_asynchronous_functions_exist_only_where_they_wait() -> None:
    async_functions: dict[str, set[str]] = {}
    for path in FILES:
        names = {function.name for function in functions(path) if isinstance(function, ast.AsyncFunctionDef)}
        if names:
            async_functions.setdefault(path.name, set()).update(names)
    assert async_functions == ALLOWED


@pytest.mark.parametrize("name", ["loop.py", "model_step.py", "tool_step.py", "run_state.py", "side_effects.py"])
def test_the_loop_imports_no_threads_tasks_or_clocks(name: str) -> None:
    tree = ast.parse((ROOT / "loop" / name).read_text("utf-8"))
    imported = {
        alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    waiting_imports = {
        module
        for module in imported
        if module.split(".")[0] in ("threading", "asyncio", "queue", "socket", "subprocess")
    }
    assert waiting_imports <= {"asyncio.CancelledError"}
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not calls & {"time.sleep", "open", "print", "input"}


def normalized_body(function: Function) -> str:
    """The body without its docstring, with asynchronous names and keywords removed."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    text = "\n".join(ast.unparse(node) for node in body)
    for word in ("async ", "await "):
        text = text.replace(word, "")
    for name in ("complete", "stream", "run_to_end", "execute", "collect", "drive"):
        text = text.replace(f"a{name}", name)
    return text


def test_no_function_is_duplicated_except_wrappers_of_at_most_seven_lines() -> None:
    seen: dict[str, str] = {}
    duplicates: list[tuple[str, str, int]] = []
    for path in FILES:
        for function in functions(path):
            text = normalized_body(function)
            lines = len(text.splitlines())
            location = f"{path.name}:{function.name}"
            if text in seen and lines > 7:
                duplicates.append((seen[text], location, lines))
            seen.setdefault(text, location)
    assert duplicates == []
