"""The shapes of a slide in reading order: by position, since the order in the file is that of drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lxml import etree

from ragkit.load.shared.ooxml import find_child, get_attribute, iter_elements, local_name

MAX_CUT_SHAPES = 300
"""More shapes of one group are ordered by their corners only."""
MAX_GROUP_DEPTH = 50
OVERLAP = 0.1
"""Share of its width or height by which a shape may overlap its neighbours on each side."""


class Box(NamedTuple):
    """A rectangle on the slide, in English Metric Units."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class _Item:
    """A shape, or a group of them, with the shapes behind it that have no position."""

    box: Box
    shapes: list[etree._Element] = field(default_factory=list)


Transform = Callable[[Box], Box]
Placeholders = Mapping[tuple[str, str], Box]
"""(type, index) of the placeholders of a layout -> their boxes."""


def read_placeholders(root: etree._Element) -> dict[tuple[str, str], Box]:
    """The boxes of the placeholders of a layout or master, by type and index, by type alone, and by index alone."""
    found: dict[tuple[str, str], Box] = {}
    for shape in iter_elements(root, "sp"):
        kind, index = _placeholder(shape)
        box = _own_box(shape)
        if box is not None and (kind or index):
            for key in ((kind, index), (kind, ""), ("", index)):
                found.setdefault(key, box)
    return found


def shapes_in_order(tree: etree._Element, placeholders: Placeholders) -> list[etree._Element]:
    """The shapes and frames (tables, charts) below the shape tree of a slide, as they are read.

    Shapes are separated at the widest gap between them, again and again: above before below, left before right.
    """
    return _order(_items(tree, placeholders, lambda box: box, 0))


def _items(tree: etree._Element, placeholders: Placeholders, transform: Transform, depth: int) -> list[_Item]:
    items: list[_Item] = []
    for shape in _drawn(tree):
        kind = local_name(shape)
        if kind == "grpSp":
            inner = [] if depth >= MAX_GROUP_DEPTH else _group_items(shape, placeholders, transform, depth)
            if inner:
                items.append(_Item(_surround(item.box for item in inner), _order(inner)))
        elif (box := _own_box(shape) or _inherited_box(shape, placeholders)) is not None:
            items.append(_Item(transform(box), [shape]))
        elif items:
            items[-1].shapes.append(shape)
        else:
            items.append(_Item(Box(0, 0, 0, 0), [shape]))
    return items


def _drawn(tree: etree._Element) -> Iterator[etree._Element]:
    for child in tree:
        kind = local_name(child)
        if kind in ("sp", "graphicFrame", "grpSp"):
            yield child
        elif kind == "AlternateContent":
            choice = find_child(child, "Choice")
            yield from () if choice is None else _drawn(choice)


def _group_items(group: etree._Element, placeholders: Placeholders, outer: Transform, depth: int) -> list[_Item]:
    frame = find_child(group, "grpSpPr", "xfrm")
    box, inner = _box(frame, "off", "ext"), _box(frame, "chOff", "chExt")
    if box is None or inner is None:
        return _items(group, placeholders, outer, depth + 1)
    scale_x = (box.right - box.left) / ((inner.right - inner.left) or 1)
    scale_y = (box.bottom - box.top) / ((inner.bottom - inner.top) or 1)

    def transform(child: Box) -> Box:
        x, y = box.left - inner.left * scale_x, box.top - inner.top * scale_y
        return outer(
            Box(
                x + child.left * scale_x, y + child.top * scale_y, x + child.right * scale_x, y + child.bottom * scale_y
            )
        )

    return _items(group, placeholders, transform, depth + 1)


def _own_box(shape: etree._Element) -> Box | None:
    frame = find_child(shape, "spPr", "xfrm")
    return _box(frame if frame is not None else find_child(shape, "xfrm"), "off", "ext")


def _inherited_box(shape: etree._Element, placeholders: Placeholders) -> Box | None:
    kind, index = _placeholder(shape)
    keys = ((kind, index), ("", index), (kind, "")) if kind or index else ()
    return next((placeholders[key] for key in keys if key in placeholders), None)


def _placeholder(shape: etree._Element) -> tuple[str, str]:
    """The type and index of a placeholder; ('', '') for other shapes."""
    for properties in ("nvSpPr", "nvGraphicFramePr"):
        holder = find_child(shape, properties, "nvPr", "ph")
        if holder is not None:
            return get_attribute(holder, "type") or "body", get_attribute(holder, "idx")
    return "", ""


def _box(frame: etree._Element | None, offset: str, extent: str) -> Box | None:
    if frame is None:
        return None
    corner, size = find_child(frame, offset), find_child(frame, extent)
    numbers = [get_attribute(corner, "x"), get_attribute(corner, "y"), get_attribute(size, "cx")]
    numbers.append(get_attribute(size, "cy"))
    if not all(number.lstrip("-").isdecimal() and len(number) < 16 for number in numbers):
        return None
    left, top, width, height = map(float, numbers)
    return Box(left, top, left + width, top + height)


def _surround(boxes: Iterable[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


def _order(items: Sequence[_Item]) -> list[etree._Element]:
    ordered = sorted(items, key=lambda item: (item.box.top, item.box.left))
    if len(items) <= MAX_CUT_SHAPES:
        ordered = _cut(ordered)
    return [shape for item in ordered for shape in item.shapes]


def _cut(items: list[_Item]) -> list[_Item]:
    """The items of both sides of the widest gap, each in order; without a gap, as they are."""
    if len(items) < 2:
        return items
    gaps = _widest_gap(_extents(items, 1)), _widest_gap(_extents(items, 0))
    width, first, second = max(gaps, key=lambda gap: gap[0])
    return [*_cut(first), *_cut(second)] if width > float("-inf") else items


def _extents(items: Sequence[_Item], axis: int) -> list[tuple[float, float, _Item]]:
    found = [(item.box[axis], item.box[axis + 2], item) for item in items]
    return sorted(found, key=lambda extent: extent[:2])


def _widest_gap(extents: list[tuple[float, float, _Item]]) -> tuple[float, list[_Item], list[_Item]]:
    """The width of the widest gap along an axis, and the items of both sides; -inf when there is none."""
    best, cut = float("-inf"), 0
    reach, shrunk_reach = float("-inf"), float("-inf")
    for number, (start, end, _) in enumerate(extents):
        margin = OVERLAP * (end - start)
        if number and start + margin >= shrunk_reach and start - reach > best:
            best, cut = start - reach, number
        reach, shrunk_reach = max(reach, end), max(shrunk_reach, end - margin)
    return best, [item for *_, item in extents[:cut]], [item for *_, item in extents[cut:]]
