"""Share the nights of a semester among the proposals that were accepted.

The rules are those of the call for proposals; this file is what is run by the time allocation
panel, so that everybody can see how a night was won or lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

NIGHTS_HELD_BACK = 9
"""Nights in each semester that are given to nobody: three for engineering, six for the Director's discretion."""

MOON_LIMIT = {"dark": 0.25, "grey": 0.65, "bright": 1.0}
"""The largest lit fraction of the Moon that a night of each kind may have at midnight."""


@dataclass(frozen=True)
class Proposal:
    """One accepted proposal."""

    code: str
    grade: float
    """The panel's mean grade: 1.0 is best, 5.0 is worst; above 3.5 nothing is given."""
    nights: int
    moon: str
    thesis: bool = False


@dataclass(frozen=True)
class Night:
    """One night with the lit fraction of the Moon at midnight, 0 to 1."""

    date: str
    lit: float


def rank(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Proposals in the order in which they choose nights, best first.

    A thesis counts 0.3 grades better. Among equal grades the proposal that asks for fewer nights goes first,
    because it is easier to make somebody happy with two nights than with ten. If these are equal too, the
    code decides, which was drawn by lot when the proposal arrived.
    """
    return sorted(proposals, key=lambda one: (one.grade - 0.3 * one.thesis, one.nights, one.code))


def suits(night: Night, moon: str) -> bool:
    """Whether a night is dark enough for a proposal that asked for `moon`."""
    return night.lit <= MOON_LIMIT[moon]


def allocate(proposals: Iterable[Proposal], nights: list[Night]) -> dict[str, str]:
    """The night dates with the code of the proposal that has each of them.

    Nights are given in rounds of at most four: a proposal that asks for more waits for the next round, so
    that no long programme can take a whole Moon. A proposal graded above 3.5 gets nothing.

    Raises:
        ValueError: fewer nights than NIGHTS_HELD_BACK.
    """
    if len(nights) < NIGHTS_HELD_BACK:
        raise ValueError(f"{NIGHTS_HELD_BACK} nights are held back, but the semester has {len(nights)}")
    free = sorted(nights, key=lambda night: night.lit)[: len(nights) - NIGHTS_HELD_BACK]
    wanted = {one.code: one.nights for one in proposals if one.grade <= 3.5}
    order = [one for one in rank(proposals) if one.code in wanted]
    given: dict[str, str] = {}
    while any(wanted.values()) and free:
        taken = dict(_one_round(order, wanted, free))
        if not taken:
            break
        given.update(taken)
    return given


def _one_round(order: list[Proposal], wanted: dict[str, int], free: list[Night]) -> Iterator[tuple[str, str]]:
    """Up to four nights for each proposal in turn; takes them out of `free` and off `wanted`."""
    for proposal in order:
        for night in [night for night in free if suits(night, proposal.moon)][: min(4, wanted[proposal.code])]:
            free.remove(night)
            wanted[proposal.code] -= 1
            yield night.date, proposal.code
