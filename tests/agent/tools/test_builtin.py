"""The built-in tools."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.agent.messages import Role
from ragkit.agent.tools.base import ToolResult
from ragkit.agent.tools.builtin import (
    FolderTools,
    ToolError,
    calculate,
    calculator,
    create_default_registry,
    create_web_search_tool,
)
from ragkit.errors import InvalidToolArguments
from tests.agent.parts import call, scripted, tool_messages


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-2 ** 2", -4),
        ("7 // 2 + 7 % 2", 4),
        ("1 / 4", 0.25),
        ("abs(-3)", 3),
        ("round(2.675, 1)", 2.7),
        ("round(2.4)", 2),
        ("min(3, 1, 2) + max([4, 5])", 6),
        ("sum([1, 2, 3])", 6),
        ("pow(2, 10)", 1024),
        ("sqrt(16)", 4.0),
        ("sin(0) + cos(0) + tan(0)", 1.0),
        ("log(e)", 1.0),
        ("log(8, 2)", 3.0),
        ("log10(1000)", 3.0),
        ("exp(0)", 1.0),
        ("floor(2.7) + ceil(2.1)", 5),
        ("pi", math.pi),
        ("2 ** 100", 2**100),
        ("+3", 3),
    ],
)
def test_the_calculator_computes(expression: str, value: float) -> None:
    assert calculate(expression) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "'a' * 9",
        "True + 1",
        "abs.__class__",
        "().__class__",
        "f'{1}'",
        "1 if 1 else 2",
        "print(1)",
        "min(1, key=abs)",
        "1; 2",
        "a = 1",
        "",
        "1 +",
        "[1, 2]",
    ],
)
def test_the_calculator_supports_only_arithmetic(expression: str) -> None:
    with pytest.raises(ToolError, match=r"is not supported|is not an arithmetic expression|a list is supported only"):
        calculate(expression)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("1 / 0", "has no value: division by zero"),
        ("sqrt(-1)", "has no value"),
        ("9 ** 9 ** 9", "has more than 4300 digits"),
        ("(-8) ** 0.5", "is not a real number"),
        ("10.0 ** 999", "has no value"),
        ("1" + "0" * 1000, "more than 1000 characters"),
        ("(" * 500 + "1" + ")" * 499, "is not an arithmetic expression"),
        ("10 ** 4000 * 10 ** 4000", "the number has more than 4300 digits"),
        ("sqrt(1, 2)", "has no value"),
    ],
)
def test_the_calculator_explains_why_there_is_no_value(expression: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        calculate(expression)


@given(st.text(max_size=60))
def test_the_calculator_raises_only_tool_errors(text: str) -> None:
    try:
        calculate(text)
    except ToolError as problem:
        assert str(problem)


def test_the_model_gets_the_error_of_its_expression() -> None:
    agent, _ = scripted([call("calculator", expression="1 / 0"), "sorry"], [calculator])
    assert tool_messages(agent.run("x")) == ["Error executing calculator: '1 / 0' has no value: division by zero"]


@pytest.fixture
def folder(tmp_path: Path) -> FolderTools:
    root = tmp_path / "root"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "docs" / "a.md").write_text("# Title\nAlpha line\nbeta\n", "utf-8")
    (root / "docs" / "deep" / "b.txt").write_text("alpha again\n", "utf-8")
    (root / "app.py").write_text("print('Alpha')\n", "utf-8")
    (root / "picture.bin").write_bytes(b"\x00\x01alpha")
    (root / ".hidden").write_text("alpha secret")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("alpha")
    (tmp_path / "outside.txt").write_text("alpha outside")
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "linked").symlink_to(tmp_path)
    return FolderTools(root)


def text_of(result: ToolResult) -> list[str]:
    return result.content.splitlines()


def test_files_are_listed_from_the_root_and_hidden_ones_are_not(folder: FolderTools) -> None:
    assert text_of(folder.list_files()) == ["app.py", "docs/a.md", "docs/deep/b.txt", "picture.bin"]
    assert text_of(folder.list_files("*.md")) == ["docs/a.md"]
    assert folder.list_files("*.xyz").content == "no file matches"


def test_a_file_is_read_whole_or_in_part(folder: FolderTools) -> None:
    assert folder.read_file("docs/a.md") == "# Title\nAlpha line\nbeta"
    assert folder.read_file("docs/a.md", first_line=2, lines=1) == "Alpha line"
    assert folder.read_file(str(folder.root / "app.py")) == "print('Alpha')"


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/passwd", "docs/../../outside.txt", "link.txt", "linked/outside.txt", "a\0b"]
)
def test_files_outside_the_folder_cannot_be_read(folder: FolderTools, path: str) -> None:
    with pytest.raises(ToolError, match=r"is outside the directory|is not a path"):
        folder.read_file(path)


def test_a_tool_error_names_a_file_that_cannot_be_read(folder: FolderTools) -> None:
    with pytest.raises(ToolError, match="'docs' is not a file: use list_files to see the files"):
        folder.read_file("docs")
    with pytest.raises(ToolError, match=r"'picture\.bin' is not a text file"):
        folder.read_file("picture.bin")


def test_a_long_file_is_truncated(folder: FolderTools) -> None:
    (folder.root / "long.txt").write_text("x" * 1_000_050)
    assert folder.read_file("long.txt").endswith("x\n[the first 1000000 bytes of a longer file]")


def test_lines_are_found_in_text_files_of_the_folder_only(folder: FolderTools) -> None:
    assert text_of(folder.search_files("alpha")) == [
        "app.py:1: print('Alpha')",
        "docs/a.md:2: Alpha line",
        "docs/deep/b.txt:1: alpha again",
    ]
    assert text_of(folder.search_files("alpha", "docs/*")) == [
        "docs/a.md:2: Alpha line",
        "docs/deep/b.txt:1: alpha again",
    ]
    assert folder.search_files("nowhere").content == "no line contains that"
    assert folder.search_files(pattern="docs/*") == folder.list_files("docs/*")
    assert folder.search_files(pattern="*.nothing").content == "no file matches"


def test_a_search_with_too_many_matches_is_truncated_with_a_note(folder: FolderTools) -> None:
    (folder.root / "many.txt").write_text("hit\n" * 500)
    result = folder.search_files("hit")
    assert len(text_of(result)) == 201
    assert text_of(result)[-1] == "[the first 200 of more]"


class Engine:
    def search(self, query: str, num_results: int) -> Sequence[tuple[str, str, str]]:
        return [(f"{query} {n}", f"http://x/{n}", "words") for n in range(num_results)]


def test_web_search_is_available_only_with_an_engine(tmp_path: Path) -> None:
    files = ["read_file", "list_files", "search_files"]
    assert create_default_registry().list_names() == ["calculator", *files]
    assert create_default_registry(None).list_names() == ["calculator"]
    registry = create_default_registry(tmp_path, search=Engine())
    assert registry.list_names() == ["calculator", "read_file", "list_files", "search_files", "web_search"]
    result = create_web_search_tool(Engine()).execute(query="cats", num_results=2)
    assert result == ToolResult(
        "1. cats 0\nhttp://x/0\nwords\n\n2. cats 1\nhttp://x/1\nwords",
        [["cats 0", "http://x/0", "words"], ["cats 1", "http://x/1", "words"]],
    )
    with pytest.raises(InvalidToolArguments, match="unknown parameter 'engine'"):
        create_web_search_tool(Engine()).execute(query="x", engine="y")


def test_the_tools_of_a_folder_work_in_a_run(folder: FolderTools) -> None:
    agent, _ = scripted([call("search_files", text="beta"), call("read_file", "c2", path="../x"), "ok"], folder.tools())
    result = agent.run("x")
    assert tool_messages(result) == ["docs/a.md:3: beta", "Error executing read_file: '../x' is outside the directory"]
    assert [message.data for message in result.messages if message.role is Role.TOOL] == [["docs/a.md:3: beta"], None]
