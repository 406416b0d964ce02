"""Formulas of Office files (OMML) and web pages (MathML) on one line: `q=(a+b)/(2c)+x^12`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lxml import etree

from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.ooxml import find_child, get_attribute, local_name

MAX_DEPTH = 60
"""Deeper parts of a formula are written without structure."""

_SIMPLE = re.compile(r"\d+(?:[.,]\d+)?|[^\W\d_]+|")
_ONE = re.compile(r"[\w.,]*|[^\w\s]")


def formula_text(root: etree._Element, depth: int = 0) -> str:
    """The text of a formula or of a part of one."""
    if depth > MAX_DEPTH:
        return collapse_whitespace("".join(root.itertext()))
    kind = local_name(root)
    if kind.endswith("Pr") or kind in ("annotation", "annotation-xml", "ctrlPr"):
        return ""
    if kind in ("t", "mi", "mn", "mo", "mtext", "ms"):
        return root.text or ""
    parts = [formula_text(child, depth + 1) for child in root if not local_name(child).endswith("Pr")]
    writer = _WRITERS.get(kind)
    return writer(root, parts) if writer and parts else "".join(parts)


def _group(text: str, pattern: re.Pattern[str]) -> str:
    """A part in brackets, unless it is one thing."""
    text = text.strip()
    return (
        text if pattern.fullmatch(text) or (text.startswith("(") and text.find(")") == len(text) - 1) else f"({text})"
    )


def _fraction(_: etree._Element, parts: list[str]) -> str:
    return "/".join(_group(part, _SIMPLE) for part in parts[:2])


def _script(mark: str) -> Callable[[etree._Element, list[str]], str]:
    return lambda _, parts: parts[0] + "".join(mark + _group(part, _ONE) for part in parts[1:2])


def _both_scripts(_: etree._Element, parts: list[str]) -> str:
    return parts[0] + "".join(
        mark + _group(part, _ONE) for mark, part in zip("_^", parts[1:3], strict=False) if part.strip()
    )


def _root(node: etree._Element, parts: list[str]) -> str:
    kind = local_name(node)
    body, degree = (parts[0], parts[1]) if kind == "mroot" and len(parts) > 1 else (parts[-1], "")
    if kind == "rad" and len(parts) > 1:
        degree = parts[0]
    if kind == "msqrt":
        body = "".join(parts)
    return f"root({degree.strip()}, {body.strip()})" if degree.strip() else f"sqrt({body.strip()})"


def _sum(node: etree._Element, parts: list[str]) -> str:
    sign = get_attribute(find_child(node, "naryPr", "chr"), "val") or "∫"
    limits = "".join(mark + _group(part, _ONE) for mark, part in zip("_^", parts[:2], strict=False) if part.strip())
    return f"{sign}{limits} {''.join(parts[2:])}"


def _brackets(node: etree._Element, parts: list[str]) -> str:
    def sign(name: str, default: str) -> str:
        found = find_child(node, "dPr", name)
        return default if found is None else get_attribute(found, "val")

    return sign("begChr", "(") + sign("sepChr", "|").join(parts) + sign("endChr", ")")


def _fenced(node: etree._Element, parts: list[str]) -> str:
    opening, between, closing = (str(node.get(*item)) for item in (("open", "("), ("separators", ","), ("close", ")")))
    return opening + between.strip()[:1].join(parts) + closing


def _rows(_: etree._Element, parts: list[str]) -> str:
    return "; ".join(filter(None, (part.strip() for part in parts)))


def _cells(_: etree._Element, parts: list[str]) -> str:
    return ", ".join(part.strip() for part in parts)


def _limits(_: etree._Element, parts: list[str]) -> str:
    return parts[0] + "".join(f"_({part.strip()})" for part in parts[1:2] if part.strip())


_WRITERS: Mapping[str, Callable[[etree._Element, list[str]], str]] = {
    **dict.fromkeys(("f", "mfrac"), _fraction),
    **dict.fromkeys(("sSup", "msup", "mover", "limUpp"), _script("^")),
    **dict.fromkeys(("sSub", "msub"), _script("_")),
    **dict.fromkeys(("munder", "limLow"), _limits),
    **dict.fromkeys(("sSubSup", "msubsup", "munderover"), _both_scripts),
    **dict.fromkeys(("rad", "msqrt", "mroot"), _root),
    **dict.fromkeys(("eqArr", "mtable", "m"), _rows),
    **dict.fromkeys(("mtr", "mlabeledtr", "mr"), _cells),
    "nary": _sum,
    "d": _brackets,
    "mfenced": _fenced,
    "func": lambda _, parts: " ".join(part.strip() for part in parts),
}
"""An element -> how its parts are written."""
