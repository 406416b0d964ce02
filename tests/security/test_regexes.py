"""Every regular expression of the package takes linear time for any text.

The expressions are found in the source; each is tested with attack texts (see `pumps`) of increasing length. A text of
four times the length may take about four times as long; faster growth is detected long before it hangs.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

import pytest

from ragkit.answer.extractive.whole.scope import read_scope
from tests.security.pumps import Attack, attacks
from tests.security.source import module_name, trees

FUNCTIONS = ("compile", "search", "match", "fullmatch", "sub", "split", "findall", "finditer")
SHORT = (12, 18, 24)
"""Lengths that are fast unless the time doubles with each character."""

LENGTHS = (256, 1024, 4096)
NOTICED = 0.004
"""CPU seconds below which growth is noise."""

FROM_WITHOUT: Mapping[str, str] = {
    "agent/guardrails.py": "written by the owner of the agent: `FormatGuardrail`, `TopicGuardrail`",
    "agent/policy.py": "written by the owner of the policy file",
    "agent/tools/schema_validator.py": "written by the author of the tool",
    "index/access/rules.py": "written by the owner of the knowledge base",
    "answer/extractive/whole/questions.py": "fixed forms, for whole questions of at most 200 characters",
    "answer/extractive/whole/scope.py": "fixed forms, for whole questions of at most 200 characters",
    "load/files/ignore_rules.py": "atomic groups from the rules of a directory; linear time: test_ignore_rules.py",
}
"""Files with expressions that are not literals, and the origin of these expressions."""

MADE: Mapping[str, Sequence[str]] = {
    "load/pages/notes.py": (r"(?:(?<=[^\W\d_])|(?<=[^\W\d_][.,;:!?)\"”’»]))12(?=[\s.,;:!?)]|$)",),
    "answer/extractive/selection.py": (
        r"(?:an? |the |\W){0,6}[\"'“”‘’`*]{0,3}\.rc\s+files?[\"'“”‘’`*]{0,3}(?:\s+(?:is|are)\b|\s+[-–—]+\s)",
    ),
    "answer/extractive/whole/look_up.py": (r"a\.md|(?<![\w.])0*1(?![\w.]*\d)",),
    "answer/facts/fact_pairs.py": (r"(?<!\w)ab(?!\w)",),
    "answer/facts/names.py": (
        r"(?<!\w)a(?:'s)?\W+(?:\w+\W+){0,2}b",
        r"\W+".join(rf"\b{c}\w*" for c in "abc"),
        r"(?<!\w)a(?!\w)",
    ),
    "answer/searchers/text_search.py": (r"\s+".join("a" * 12),),
    "server/page/originals.py": (r"\s+".join("a" * 12),),
    "answer/support/attribution.py": (
        r"(?>\[(\d{1,4}(?:\s*,\s*\d{1,4})*)\]|[\W_]){0,60}?".join(["the", "hedge", "a", "1"]),
    ),
    "embed/wordpiece.py": (r"[^ \t\n\r\u3000!-/\u4e00-\u9fff]+|[!-/\u4e00-\u9fff]", r"[ \t\n\r\u3000!-/\u4e00-\u9fff]"),
    "evaluate/answer_matching.py": (r"(?<!\d)1(?!\d)",),
    "evaluate/document_outline.py": (r"\b(?:an?|your|each|every|this) a\b(?! [a-z])|\bas\b",),
    "knowledge_base/diagnosis/diagnose.py": (r"[\W_]+".join("aba"),),
    "load/pages/text.py": (r"\s+".join("a" * 12), r"\s+".join(["ab", "a", "abc"])),
    "split/recursive.py": ("|".join(map(re.escape, ("\n\n", "\n", ". ", " "))),),
}
"""Files that build expressions at run time, with examples."""

BOUNDED: Mapping[str, int] = {
    "answer/extractive/selection.py": 1000,
    "answer/extractive/follow_up.py": 300,
    "answer/extractive/question_kind.py": 300,
    "answer/extractive/whole/scope.py": 200,
    "load/detect.py": 4096,
    "load/text/code.py": 300,
    "load/html/html.py": 4096,
    "lexical/analyzer.py": 100,
    "split/code_segments.py": 200,
}
"""Maximum text length of the expressions of some files: their time may grow up to `MIN_SECONDS`."""

MIN_SECONDS = 0.05
"""CPU seconds that an expression over bounded text may take."""


@dataclass(frozen=True)
class FoundRegex:
    """A regular expression of the source."""

    place: str
    pattern: re.Pattern[str]
    only_at_start: bool
    """The expression is never searched, only matched at one position."""

    @property
    def most(self) -> int:
        """Maximum number of characters of its texts."""
        return BOUNDED.get(self.place.partition(":")[0], LENGTHS[-1])

    def work(self, text: str) -> object:
        """The operation that ragkit uses."""
        return self.pattern.match(text) if self.only_at_start else self.pattern.search(text)


def regex_uses(tree: ast.Module, call: ast.Call) -> set[str]:
    """The methods that a file calls on the expression that this call makes."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "compile":
        return {call.func.attr}
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    above = parents[call]
    if isinstance(above, ast.Attribute):
        return {above.attr}
    names = {ast.unparse(above.targets[0])} if isinstance(above, ast.Assign) else set()
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and (ast.unparse(node.value) in names or not names)
        if node.attr in FUNCTIONS and ast.unparse(node.value) != "re"
    }


def is_re_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in FUNCTIONS
    )


def found_in(path: str, tree: ast.Module) -> Iterator[FoundRegex | str]:
    """The expressions of one file; for one that is built from local names, only the place."""
    for node in ast.walk(tree):
        if not is_re_call(node):
            continue
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Attribute)
        names = vars(import_module(module_name(path)))
        place = f"{path}:{node.lineno}"
        flags = [
            item for item in [*node.args[1:], *(word.value for word in node.keywords)] if "re." in ast.unparse(item)
        ]
        try:
            text = eval(ast.unparse(node.args[0]), names)  # own source
            flag = eval(ast.unparse(flags[0]), names) if flags else 0
        except NameError:
            yield place
            continue
        methods = regex_uses(tree, node)
        at_start = bool(methods) and methods <= {"match", "fullmatch"}
        yield FoundRegex(place, re.compile(text.decode("latin-1") if isinstance(text, bytes) else text, flag), at_start)


def collected() -> tuple[list[FoundRegex], list[str]]:
    """Every expression, and the places of those that are not known from the source."""
    known: list[FoundRegex] = []
    unknown: list[str] = []
    for path, tree in trees().items():
        for item in found_in(path, tree):
            if isinstance(item, str):
                unknown.append(item)
            else:
                known.append(item)
    patterns = {(item.pattern.pattern, item.pattern.flags, item.only_at_start): item for item in known}
    return [*patterns.values(), *module_level(patterns), *runtime_regexes()], unknown


def module_level(known: Container[object]) -> Iterator[FoundRegex]:
    """Expressions of modules that are not literals in the source."""
    for path, tree in trees().items():
        if not any(map(is_re_call, ast.walk(tree))):
            continue
        for name, value in vars(import_module(module_name(path))).items():
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
            for item in inner:
                if not isinstance(item, re.Pattern) or not isinstance(item.pattern, str):
                    continue
                if not any((item.pattern, item.flags, start) in known for start in (True, False)):
                    yield FoundRegex(f"{path}:{name}", item, False)


def runtime_regexes() -> Iterator[FoundRegex]:
    """The expressions of `MADE`."""
    for path, texts in MADE.items():
        for number, text in enumerate(texts):
            yield FoundRegex(f"{path}:made {number}", re.compile(text, re.IGNORECASE), False)


@pytest.fixture(scope="module")
def all_regexes() -> tuple[list[FoundRegex], list[str]]:
    """The result of `collected`; not at import, since it imports every adapter of a vendor package."""
    read_scope("What does a.md say about it?")  # compiles its expressions
    return collected()


def seconds(work: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    work(text)
    return time.process_time() - started


def growth(work: Callable[[str], object], attack: Attack) -> str:
    """'' if the time is linear, else the measurement."""
    for length in SHORT:
        if (took := seconds(work, attack.text(length))) > 5 * NOTICED:
            return f"{length} characters of {attack.unit!r} after {attack.before!r}: {took:.4f} s"
    before = seconds(work, attack.text(LENGTHS[0]))
    for length in LENGTHS[1:]:
        text = attack.text(length)
        took = seconds(work, text)
        if took > NOTICED and took > 9 * max(before, NOTICED / 9):
            took = min(took, *(seconds(work, text) for _ in range(2)))
            before = max(before, NOTICED / 9)
            if took > NOTICED and took > 9 * before:
                return f"{length} characters of {attack.unit!r} after {attack.before!r}: {took:.4f} s, was {before:.4f}"
        before = took
    return ""


def test_every_expression_of_the_source_is_found(all_regexes: tuple[list[FoundRegex], list[str]]) -> None:
    known, unknown = all_regexes
    assert len(known) > 150
    assert {place.partition(":")[0] for place in unknown} <= {
        *FROM_WITHOUT,
        *MADE,
        "answer/extractive/answer_type.py",
        "answer/extractive/question_kind.py",
        "answer/extractive/whole/parts.py",
        "evaluate/phrases.py",
        "lexical/analyzer.py",
    }


def test_the_check_detects_slow_expressions() -> None:
    for bad in (r"(a+)+$", r"\s*:?\s*x", r"\n\s*#", r"(?:a|a)*b", r"<.*?>.*?</x>"):
        compiled = re.compile(bad)
        assert any(growth(compiled.search, attack) for attack in attacks(compiled)), bad
    for good in (r"\s+", r"1[a-z]*+x", r"\bTOOL\b", r"a{1,40}b"):
        compiled = re.compile(good)
        assert [
            growth(compiled.search, attack) for attack in attacks(compiled) if growth(compiled.search, attack)
        ] == []


def slow(found: FoundRegex) -> list[str]:
    """The attack that makes an expression slow; '' if there is none."""
    if found.most < LENGTHS[-1]:
        busy = [item for item in attacks(found.pattern) if seconds(found.work, item.text(found.most)) > MIN_SECONDS]
        return [
            f"{item.unit!r} after {item.before!r}"
            for item in busy
            if seconds(found.work, item.text(found.most)) > MIN_SECONDS
        ]
    return [result for attack in attacks(found.pattern) if (result := growth(found.work, attack))]


def test_every_expression_takes_linear_time(all_regexes: tuple[list[FoundRegex], list[str]]) -> None:
    result = {f"{regex.place}: {regex.pattern.pattern}": slow(regex) for regex in all_regexes[0]}
    assert {place: busy for place, busy in result.items() if busy} == {}
