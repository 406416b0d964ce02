"""Source code: the text is verbatim, definitions are headings."""

from __future__ import annotations

import pytest

from ragkit.load.options import CodeOptions
from ragkit.load.text.code import CodeLoader
from ragkit.records import Document


def load(text: str, name: str, options: CodeOptions | None = None) -> Document:
    return CodeLoader(options).load(text.encode(), f"/x/{name}")


PYTHON = '''"""Doc."""
import os

@decorated
class Shop:
    """# no heading"""

    async def buy(self):
        def inner(): ...

if True:
    def late(): pass
'''


def test_python_has_classes_and_functions_as_headings() -> None:
    document = load(PYTHON, "shop.py")
    assert [(h.level, h.text) for h in document.headings] == [
        (1, "class Shop"),
        (2, "def buy"),
        (3, "def inner"),
        (1, "def late"),
    ]
    assert document.headings[0].start == PYTHON.index("@decorated")
    assert document.heading_path_at(PYTHON.index("def inner") + 1) == ("class Shop", "def buy", "def inner")
    assert (document.text, document.title, document.language) == (PYTHON, "shop.py", "python")
    assert document.metadata["language"] == "python"


YAML = """
on: push
jobs:
  build:
    steps:
    - run: make
    - uses: checkout
# a comment

    needs: []
  "test one":   # why
    env:
      A: 1
name: CI
"""


def test_keys_of_yaml_are_headings_of_what_is_indented_below_them() -> None:
    document = load(YAML, "ci.yml")
    paths = {"uses": ("jobs", "build", "steps"), "needs": ("jobs", "build"), "A:": ("jobs", '"test one"', "env")}
    assert {word: document.heading_path_at(YAML.index(word)) for word in paths} == paths
    assert document.heading_path_at(YAML.index("name: CI")) == ()


def test_a_function_ends_with_its_indentation() -> None:
    text = "const go = async (a) => {\n  run(\n  );\n\n  a.b = function () {\n    x;\n  };\n  y;\n}\n\nstart();\n"
    document = load(text, "a.js")
    inside = {word: document.heading_path_at(text.index(word)) for word in ("run", "x;", "y;", "start")}
    assert inside == {"run": ("const go",), "x;": ("const go", "a.b"), "y;": ("const go",), "start": ()}


@pytest.mark.parametrize("text", ["def broken(:", "print 'old'", "x = " + "(" * 5000, "x = 1" + "+1" * 50_000, "a\0b"])
def test_python_with_syntax_errors_is_text_without_headings(text: str) -> None:
    document = load(text, "a.py")
    assert document.headings == ()
    assert len(document.text) == len(text)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.ts", "export default class A {\n  run() {}\n}\n", ["export default class A"]),
        ("b.ts", "export async function go() {}\ninterface B {", ["export async function go", "interface B"]),
        ("a.js", "function go() {}\nconst x = 1", ["function go"]),
        (
            "b.js",
            "it('runs dry', () => {});\nA.prototype.go = function () {};\na.b = 1",
            ["it('runs dry'", "A.prototype.go"],
        ),
        ("a.el", "(defun go (x)\n  (run))\n(go 1)", ["defun go"]),
        ("a.bib", "@book{lee,\n  year = 1\n}\n@misc{wu,", ["book{lee", "misc{wu"]),
        ("a.go", "func (s *Shop) Buy() {\n}\nfunc main() {", ["func (s *Shop) Buy", "func main"]),
        ("a.rs", "pub struct A;\nimpl A {\n    pub fn b() {}\n}", ["pub struct A", "impl A", "pub fn b"]),
        ("A.java", "public final class A {\n", ["public final class A"]),
        ("a.rb", "class A\n  def b\n", ["class A", "def b"]),
        ("a.sql", "CREATE TABLE users (id int);\nselect 1", ["CREATE TABLE users"]),
        ("a.sh", "go() {\n  echo\n}\nfunction stop() {", ["go", "function stop"]),
        ("a.toml", "[tool.x]\na = [1]\n[[y]]\n", ["tool.x", "y"]),
        ("a.css", "a { b: c }", []),
        ("a.yaml", "a: [b]\n", []),
    ],
)
def test_headings_of_other_languages_are_definition_lines(name: str, text: str, expected: list[str]) -> None:
    assert [heading.text for heading in load(text, name).headings] == expected


def test_headings_can_be_disabled() -> None:
    assert load(PYTHON, "a.py", CodeOptions(headings=False)).headings == ()


def test_a_script_without_a_suffix_is_detected_by_its_first_line() -> None:
    document = load("#!/usr/bin/python3\ndef main(): pass\n", "run")
    assert (document.language, [h.text for h in document.headings]) == ("python", ["def main"])
