"""The default splitter on source code."""

from __future__ import annotations

import ast
from itertools import pairwise

import pytest

from ragkit.records import Document, Heading
from ragkit.split.code import CodeSplitter
from ragkit.split.options import SplitOptions
from tests.split.samples import recursive, texts, word_starts


def python(text: str) -> Document:
    """A document like that of the loader, with classes and functions as headings."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text)
    headings = [
        Heading(starts[node.lineno - 1] + node.col_offset, 1 if node in tree.body else 2, node.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
    return Document(
        text, format="code", language="python", headings=tuple(sorted(headings, key=lambda heading: heading.start))
    )


def function(name: str, lines: int, indent: str = "") -> str:
    body = "\n".join(f"{indent}    x{line} = call(a, b)" for line in range(lines))
    return f"{indent}def {name}(a, b):\n{body}"


def test_chunks_begin_at_functions() -> None:
    functions = [function(f"f{number}", 15) for number in range(5)]
    document = python("\n\n\n".join(functions))
    assert texts(document, recursive(document, 100, 20)) == functions


def test_small_functions_share_a_chunk() -> None:
    functions = [function(f"f{number}", 5) for number in range(9)]
    document = python("\n\n\n".join(functions))
    assert texts(document, recursive(document, 80)) == [
        "\n\n\n".join(functions[first : first + 3]) for first in (0, 3, 6)
    ]


def test_decorators_and_comments_stay_with_their_definition() -> None:
    head = "# A comment.\n@cached\n@checked\n"
    functions = [head + function(f"f{number}", 15) for number in range(4)]
    document = python("\n\n\n".join(functions))
    assert texts(document, recursive(document, 100)) == functions


def test_a_class_too_long_for_a_chunk_is_cut_at_its_methods_with_their_indent() -> None:
    methods = [function(f"method{number}", 14, "    ") for number in range(4)]
    document = python("class Long:\n" + "\n\n".join(methods))
    chunks = texts(document, recursive(document, 90, 0))
    assert chunks == ["class Long:\n" + methods[0], *methods[1:]]


def test_a_function_too_long_for_a_chunk_is_split_between_lines_and_overlaps_by_lines() -> None:
    text = function("long", 100)
    document = python(text)
    chunks = texts(document, recursive(document, 60, 12))
    lines = text.split("\n")
    assert all(line in lines for chunk in chunks for line in chunk.split("\n"))
    assert [len(before.split()) for before in chunks[:-1]] == [pytest.approx(52, abs=8)] * (len(chunks) - 1)
    assert all(after.startswith("\n".join(before.split("\n")[-3:])) for before, after in pairwise(chunks))


@pytest.mark.parametrize(
    ("language", "definition", "close"),
    [
        ("go", "func name(a int) int {", "}"),
        ("rust", "pub fn name(a: i32) -> i32 {", "}"),
        ("javascript", "export async function name(a) {", "}"),
        ("java", "public static class name {", "}"),
        ("c", "static int *name(int a) {", "}"),
        ("cpp", "std::vector<int> Type::name(int a) {", "}"),
        ("ruby", "def name(a)", "end"),
        ("shell", "name() {", "}"),
        ("sql", "CREATE TABLE name (", ");"),
        ("yaml", "name:", "  z: 1"),
        ("no language of this name", "whatever name a", "}"),
    ],
)
def test_without_headings_chunks_begin_at_unindented_lines_after_a_blank_line(
    language: str, definition: str, close: str
) -> None:
    body = "\n".join("    step = one + two" for _ in range(8))
    parts = [f"{definition}\n{body}\n\n{body}\n{close}" for _ in range(4)]
    document = Document("\n\n".join(parts), format="code", language=language)
    assert texts(document, recursive(document, 100, 0)) == parts


def test_a_closing_bracket_does_not_begin_a_chunk() -> None:
    body = "\n".join("    step = one + two" for _ in range(7))
    document = Document("\n".join(f"{{\n{body}\n}}" for _ in range(8)), format="code", language="c")
    assert not any(chunk.startswith("}") for chunk in texts(document, recursive(document, 38, 0)))


def test_a_line_longer_than_a_chunk_is_cut_at_words() -> None:
    document = Document("x = [" + ", ".join(f"value{number}" for number in range(500)) + "]", format="code")
    assert " ".join(texts(document, recursive(document, 50, 0))) == document.text


def test_indentation_is_kept_and_blank_lines_are_trimmed() -> None:
    document = Document("\n\n    first line\n\n\n    second line\n\n", format="code")
    assert texts(document, recursive(document)) == ["    first line\n\n\n    second line"]


def test_the_code_splitter_treats_any_format_as_code() -> None:
    functions = "\n\n".join(function(f"f{number}", 15) for number in range(5))
    spans = CodeSplitter(SplitOptions(100, 20)).spans(Document(functions, format="text"), word_starts)
    assert list(spans) == recursive(Document(functions, format="code"), 100, 20)


def test_an_edit_at_the_top_of_a_file_changes_few_chunks() -> None:
    functions = "\n\n\n".join(function(f"f{number}", 3 + 7 * number % 30) for number in range(60))
    old, new = python("import os\n\n\n" + functions), python("import os\nimport sys\n\n\n" + functions)
    before, after = texts(old, recursive(old)), texts(new, recursive(new))
    assert len(set(after) - set(before)) <= 2
