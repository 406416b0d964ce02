"""Every regular expression of ours takes time in proportion to its text, whatever the text is.

The expressions are found in the source; each is given texts that are made for it (see `pumps`) in rising lengths. A
step of four times the length may take about four times as long; what grows faster is found long before it hangs.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

import pytest

from tests.security.pumps import Attack, attacks
from tests.security.source import module_name, trees

FUNCTIONS = ("compile", "search", "match", "fullmatch", "sub", "split", "findall", "finditer")
SHORT = (12, 18, 24)
"""Lengths at which nothing takes any time, unless it doubles with each character."""

LENGTHS = (256, 1024, 4096)
NOTICED = 0.004
"""CPU seconds below which growth is noise."""

FROM_WITHOUT: Mapping[str, str] = {
    "agent/guardrails.py": "written by the owner of the agent: `FormatGuardrail`, `TopicGuardrail`",
    "agent/policy.py": "written by the owner of the policy file",
    "agent/tools/schema_validator.py": "written by the author of the tool",
    "load/ignore_rules.py": "atomic groups from the rules of a directory; linear time: tests/load/test_ignore_rules.py",
}
"""Files that make expressions of something else than their own text, and whose word that is."""

MADE: Mapping[str, Sequence[str]] = {
    "load/front_matter.py": (r"(?m)^(?:---|\.\.\.)[ \t]*$", r"(?m)^\+\+\+[ \t]*$"),
    "load/pdf_text.py": (r"\s+".join("a" * 12), r"\s+".join(["ab", "a", "abc"])),
    "split/recursive.py": ("|".join(map(re.escape, ("\n\n", "\n", ". ", " "))),),
}
"""Files that make expressions of parts at run time, with the like of what they make."""

BOUNDED: Mapping[str, int] = {
    "load/detect.py": 4096,
    "load/code.py": 300,
    "load/html.py": 4096,
    "lexical/analyzer.py": 100,
    "split/code_segments.py": 200,
}
"""Files whose expressions never see more characters than this: they may grow, within `MOMENT`."""

MOMENT = 0.05
"""CPU seconds that an expression over bounded text may take."""


@dataclass(frozen=True)
class Found:
    """One expression of the source."""

    place: str
    pattern: re.Pattern[str]
    only_at_start: bool
    """Whether nobody searches with it: it is only tried at one place."""

    @property
    def most(self) -> int:
        """Characters that it ever sees."""
        return BOUNDED.get(self.place.partition(":")[0], LENGTHS[-1])

    def work(self, text: str) -> object:
        """What ragkit does with it."""
        return self.pattern.match(text) if self.only_at_start else self.pattern.search(text)


def uses(tree: ast.Module, call: ast.Call) -> set[str]:
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


def found_in(path: str, tree: ast.Module) -> Iterator[Found | str]:
    """The expressions of one file; for one that is made of local names, the place alone."""
    for node in ast.walk(tree):
        if not is_re_call(node):
            continue
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Attribute)
        names = vars(import_module(module_name(path)))
        place = f"{path}:{node.lineno}"
        flags = [one for one in [*node.args[1:], *(word.value for word in node.keywords)] if "re." in ast.unparse(one)]
        try:
            text = eval(ast.unparse(node.args[0]), names)  # our own source
            flag = eval(ast.unparse(flags[0]), names) if flags else 0
        except NameError:
            yield place
            continue
        methods = uses(tree, node)
        at_start = bool(methods) and methods <= {"match", "fullmatch"}
        yield Found(place, re.compile(text.decode("latin-1") if isinstance(text, bytes) else text, flag), at_start)


def collected() -> tuple[list[Found], list[str]]:
    """Every expression, and the places of those that cannot be known from the source."""
    known: list[Found] = []
    unknown: list[str] = []
    for path, tree in trees().items():
        for one in found_in(path, tree):
            if isinstance(one, str):
                unknown.append(one)
            else:
                known.append(one)
    patterns = {(one.pattern.pattern, one.pattern.flags, one.only_at_start): one for one in known}
    return [*patterns.values(), *module_level(patterns), *made()], unknown


def module_level(known: Container[object]) -> Iterator[Found]:
    """Expressions that modules keep and that the source does not spell out."""
    for path, tree in trees().items():
        if not any(map(is_re_call, ast.walk(tree))):
            continue
        for name, value in vars(import_module(module_name(path))).items():
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
            for one in inner:
                if not isinstance(one, re.Pattern) or not isinstance(one.pattern, str):
                    continue
                if not any((one.pattern, one.flags, start) in known for start in (True, False)):
                    yield Found(f"{path}:{name}", one, False)


def made() -> Iterator[Found]:
    """The expressions of `MADE`."""
    for path, texts in MADE.items():
        for number, text in enumerate(texts):
            yield Found(f"{path}:made {number}", re.compile(text, re.IGNORECASE), False)


@pytest.fixture(scope="module")
def every() -> tuple[list[Found], list[str]]:
    """What `collected` finds; not at import, since it imports every adapter of a vendor package."""
    return collected()


def seconds(work: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    work(text)
    return time.process_time() - started


def grows(work: Callable[[str], object], attack: Attack) -> str:
    """'' where time grows in proportion; else what was measured."""
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


def test_every_expression_of_the_source_is_found(every: tuple[list[Found], list[str]]) -> None:
    known, unknown = every
    assert len(known) > 150
    assert {place.partition(":")[0] for place in unknown} <= {
        *FROM_WITHOUT,
        *MADE,
        "answer/answer_type.py",
        "lexical/analyzer.py",
    }


def test_the_check_detects_slow_expressions() -> None:
    for bad in (r"(a+)+$", r"\s*:?\s*x", r"\n\s*#", r"(?:a|a)*b", r"<.*?>.*?</x>"):
        compiled = re.compile(bad)
        assert any(grows(compiled.search, attack) for attack in attacks(compiled)), bad
    for good in (r"\s+", r"1[a-z]*+x", r"\bTOOL\b", r"a{1,40}b"):
        compiled = re.compile(good)
        assert [grows(compiled.search, attack) for attack in attacks(compiled) if grows(compiled.search, attack)] == []


def slow(found: Found) -> list[str]:
    """What keeps one expression busy."""
    if found.most < LENGTHS[-1]:
        busy = [one for one in attacks(found.pattern) if seconds(found.work, one.text(found.most)) > MOMENT]
        return [
            f"{one.unit!r} after {one.before!r}" for one in busy if seconds(found.work, one.text(found.most)) > MOMENT
        ]
    return [said for attack in attacks(found.pattern) if (said := grows(found.work, attack))]


def test_every_expression_takes_linear_time(every: tuple[list[Found], list[str]]) -> None:
    said = {f"{found.place}: {found.pattern.pattern}": slow(found) for found in every[0]}
    assert {place: busy for place, busy in said.items() if busy} == {}
