"""Measure the check of a model's statements against the passages that they cite.

    python benchmarks/answer_support.py KNOWLEDGE_BASE... [--questions FILE...] [--fit] [--json] [--show KIND]

The knowledge bases are those of the sample (`ragkit init --sample`, `ragkit index`) and of other folders. The made set
has hand-written answers (`answer_support.jsonl`; of documents that are not in the repository only the id of a question
is kept, and `--questions` has the files with these questions), and answers built by program from sentences, rows and
items of seeded passages: right ones (as they stand, reworded, reordered, numbers and dates written otherwise, as list
items, two passages combined) and wrong ones, each with one thing changed.

Documents are divided into two halves by the hash of their name. `--fit` fits the weights of the wording on the first
half; all figures are of the second half, which nothing was chosen on. A statement counts as flagged if its support is
"not_found". Precision: flagged wrong answers of a kind among them and the flagged right answers that have facts of that
kind.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ragkit.answer.base import Searcher, Support
from ragkit.answer.extractive.units import UnitKind, extract_answer_units
from ragkit.answer.facts.names import Name, find_names, find_quotations
from ragkit.answer.facts.quantities import UNITS, Quantity, find_dates, find_quantities
from ragkit.answer.support import support, wording
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import Chunk, Hit

HAND_WRITTEN = Path(__file__).with_name("answer_support.jsonl")
PASSAGES_PER_DOCUMENT = 6


def _word_list(text: str) -> list[str]:
    return text.split()


KINDS = ("number", "unit", "date", "name", "entity", "negated", "quotation", "citation", "invented")


@dataclass
class Case:
    """A made answer with the passages that a model was shown."""

    kind: str
    """`right`, or what was changed."""
    text: str
    shown: Mapping[int, Hit]
    searcher: Searcher
    by_hand: bool = False
    wrong_part: str = ""
    """Of a mixed answer, the statement that is wrong."""
    flagged: list[str] = field(default_factory=list)
    weak: list[str] = field(default_factory=list)

    @property
    def is_fitted(self) -> bool:
        """Whether its document is in the half that choices are made on."""
        return zlib.crc32(self.shown[1].chunk.source.rpartition("/")[2].encode()) % 2 == 0


def hit(chunk: Chunk) -> Hit:
    """A chunk as a hit."""
    return Hit(chunk, 1.0, {})


@dataclass
class Folder:
    """The chunks of a knowledge base."""

    kb: KnowledgeBase
    chunks: list[Chunk]

    @classmethod
    def open(cls, path: str) -> Folder:
        """Open a knowledge base."""
        kb = KnowledgeBase.open(path)
        with kb.session() as session:
            return cls(kb, sorted(session.chunks(), key=lambda chunk: (chunk.source, chunk.start)))

    def find(self, source: str, texts: Sequence[Sequence[str]]) -> Chunk | None:
        """The first chunk of a source that has one of each group of texts."""
        for chunk in self.chunks:
            text = " ".join(chunk.text.lower().split())
            if chunk.source.endswith(source) and all(any(one.lower() in text for one in group) for group in texts):
                return chunk
        return None

    def others(self, chunk: Chunk, rng: random.Random) -> list[Chunk]:
        """A chunk of the same document and one of another document, which the model was shown as well."""
        same = [c for c in self.chunks if c.source == chunk.source and (c.end <= chunk.start or c.start >= chunk.end)]
        other = [c for c in self.chunks if c.source != chunk.source]
        return [rng.choice(part) for part in (same or other, other)]


def hand_written(
    folders: Sequence[Folder], questions: Mapping[str, dict[str, Any]], rng: random.Random
) -> Iterator[Case]:
    """The answers of the file whose documents are at hand."""
    for line in HAND_WRITTEN.read_text().splitlines():
        entry = json.loads(line)
        if "question" in entry:
            asked = questions.get(entry["question"])
            places = [(asked["source"][0], asked["answers"])] if asked else []
        else:
            places = [(part["source"], [[part["near"]]]) for part in (entry, entry.get("second")) if part]
        for folder in folders:
            found = [folder.find(source, texts) for source, texts in places]
            if not places or None in found:
                continue
            chunks = [chunk for chunk in found if chunk is not None]
            shown = {n: hit(c) for n, c in enumerate([*chunks, *folder.others(chunks[0], rng)], start=1)}
            for text in entry["right"]:
                yield Case("right", text, shown, folder.kb, by_hand=True)
                if len(chunks) == 1 and "```" not in text and "|" not in text:
                    yield Case("citation", text.replace("[1]", "[3]"), shown, folder.kb, by_hand=True)
            for kind, text in entry["wrong"].items():
                yield Case(kind, text, shown, folder.kb, by_hand=True)
                right = entry["right"][0]
                if len(chunks) == 1 and "\n" not in right:
                    yield Case("mixed", f"{right} {text}", shown, folder.kb, by_hand=True, wrong_part=text)


def built(folder: Folder, rng: random.Random) -> Iterator[Case]:
    """Answers built from the units of some passages of each document."""
    by_source: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in folder.chunks:
        by_source[chunk.source].append(chunk)
    units_of = {chunk.id: usable_units(chunk) for chunk in folder.chunks}
    names = sorted({n.text for units in units_of.values() for u in units for n in _proper_names(u)})
    for source in sorted(by_source):
        chunks = [chunk for chunk in by_source[source] if units_of[chunk.id]]
        for chunk in rng.sample(chunks, min(PASSAGES_PER_DOCUMENT, len(chunks))):
            shown = {n: hit(c) for n, c in enumerate([chunk, *folder.others(chunk, rng)], start=1)}
            units = units_of[chunk.id]
            statement = rng.choice(units)
            right = [(f"{text} [1]", "right") for text in right_variants(statement, rng)]
            if len(units) > 1:
                both = rng.sample(units, 2)
                right.append(("\n".join(f"- {unit} [1]" for unit in both), "right"))
            other = units_of[shown[3].chunk.id]
            if other:
                second = rng.choice(other)
                right.append((f"{statement.rstrip('.')}, and {decapitalize(second).rstrip('.')} [1][3].", "right"))
                invented = f"{second} [1]"
                yield Case("invented", invented, shown, folder.kb)
                mixed = f"{statement} [1] {invented}"
                yield Case("mixed", mixed, shown, folder.kb, wrong_part=invented)
            wrong = list(wrong_variants(statement, units, chunk, names, rng))
            for text, kind in [
                *right,
                *((f"{text} [1]", kind) for text, kind in wrong),
                (f"{statement} [3]", "citation"),
            ]:
                yield Case(kind, text, shown, folder.kb)


def decapitalize(text: str) -> str:
    """The text with a small first letter, unless it begins with a name."""
    return text if find_names(text[:1] + text[1:40]) and not text[1:2].islower() else text[0].lower() + text[1:]


def usable_units(chunk: Chunk) -> list[str]:
    """Sentences, items and rows of a chunk that can stand as statements."""
    found = []
    for unit in extract_answer_units([hit(chunk)]):
        text = " ".join(unit.text.split())
        ends = text[-1:] in ".!" or unit.kind is UnitKind.ROW
        is_plain = text.count("|") < 2 and not re.search(r"[\[\]{}<>\\=]|\. \.|https?:", text)
        words = re.findall(r"[a-z]{3,}", text)
        is_whole = unit.kind in (UnitKind.SENTENCE, UnitKind.ITEM, UnitKind.ROW) and ends and len(words) >= 5
        refers = re.match(r"(?:no|yes|it|this|these|they|he|she|here|see)\b", text, re.IGNORECASE)
        if is_whole and is_plain and 40 <= len(text) <= 240 and not refers:
            found.append(text)
    return found


_PAIRS = (
    "must be/has to be,may not/must not,in order to/to,shows/displays,contains/includes,"
    "begins/starts,is called/is named,needs/requires,about/around,at least/a minimum of,"
    "at most/no more than,however/but,because/since,every/each,also/additionally,such as/like,"
    "for example/for instance,large/big,whole/entire,usually/normally,can be/may be,"
    "is used/gets used,until/till,quick/fast,before/prior to,after/following"
)
_SYNONYMS = [tuple(pair.split("/")) for pair in _PAIRS.split(",")]


def right_variants(statement: str, rng: random.Random) -> list[str]:
    """A statement as it stands, reworded, reordered, and with numbers and dates written otherwise."""
    reworded = statement
    for word, other in _SYNONYMS:
        reworded = re.sub(rf"\b{word}\b", other, reworded)
    reworded = re.sub(r"\bdoes not\b", "doesn't", re.sub(r"\b(is|are|do|was|were) not\b", r"\1n't", reworded))
    variants = [
        statement,
        f"According to the documents, {statement[0].lower()}{statement[1:]}" if statement[1:2].islower() else reworded,
    ]
    if reworded != statement:
        variants.append(reworded)
    moved = re.fullmatch(
        r"([A-Z][^,;:.]{25,}) ((?:if|when|before|after|because|until|unless|while|during|in|on|from) [^,;:.]{8,60})\.",
        statement,
    )
    if moved:
        variants.append(f"{moved[2][0].upper()}{moved[2][1:]}, {moved[1][0].lower()}{moved[1][1:]}.")
    rewritten = rewrite_numbers(statement)
    if rewritten != statement:
        variants.append(rewritten)
    return rng.sample(variants, min(3, len(variants)))


_DIGITS = dict(zip(_word_list("two three four five six seven eight nine ten eleven twelve"), range(2, 13), strict=True))
_MONTHS = _word_list("January February March April May June July August September October November December")


def rewrite_numbers(text: str) -> str:
    """Digits for words, other separators and signs, another format of dates."""
    text = re.sub(rf"\b({'|'.join(_DIGITS)})\b(?= [a-z]+s\b)", lambda m: str(_DIGITS[m[1]]), text)
    text = re.sub(r"(?<![\w.,:-])([3-9])(\d{3})(?= (?!\d)[a-z])", r"\1,\2", text)
    text = re.sub(r"(?<=\d) (?:per cent|percent)\b|(?<=\d) %", "%", text)
    text = re.sub(r"€(\d[\d.,]*\d|\d)", r"\1 euros", text)
    text = re.sub(
        rf"\b(\d{{1,2}}) ({'|'.join(_MONTHS)})(?: (\d{{4}}))?\b",
        lambda m: f"{m[2]} {m[1]}" + (f", {m[3]}" if m[3] else ""),
        text,
    )
    return re.sub(
        r"\b(\d{4})-(\d{2})-(\d{2})\b",
        lambda m: f"{int(m[3])} {_MONTHS[int(m[2]) - 1]} {m[1]}" if 1 <= int(m[2]) <= 12 else m[0],
        text,
    )


def _proper_names(text: str) -> list[Name]:
    names = find_names(text)
    return [
        n
        for n in names
        if not n.may_be_word
        and not n.is_code
        and len(n.text) > 3
        and n.text.isalpha()
        and n.text.lower() not in map(str.lower, _MONTHS)
    ]


def wrong_variants(
    statement: str, units: Sequence[str], chunk: Chunk, names: Sequence[str], rng: random.Random
) -> Iterator[tuple[str, str]]:
    """The statement with one thing changed, as (text, kind)."""
    passage = f"{chunk.header} {chunk.text}"
    numbers = [q for q in find_quantities(statement) if not q.is_word and q.start and re.match(r"[€$£]?\d", q.text)]
    if numbers:
        yield replace_number(statement, rng.choice(numbers), find_quantities(passage), rng), "number"
    with_units = [q for q in numbers if q.unit in _OTHER_UNITS and re.search(r"[a-z]{3,}$", q.text)]
    if with_units:
        chosen = rng.choice(with_units)
        unit = re.search(r"[a-z]+$", chosen.text)
        if unit and UNITS.get(unit[0]) == chosen.unit:
            at = chosen.start + unit.start()
            yield f"{statement[:at]}{_OTHER_UNITS[chosen.unit]}{statement[at + len(unit[0]) :]}", "unit"
    if find_dates(statement):
        changed = change_date(statement, rng)
        if changed != statement and not any(
            d.matches(p, frozenset())
            for d in find_dates(changed)
            for p in find_dates(passage)
            if d not in find_dates(statement) and d.day
        ):
            yield changed, "date"
    own = _proper_names(statement)
    if own:
        name = rng.choice(own)
        strangers = [n for n in names if n.lower() not in passage.lower()]
        yield statement[: name.start] + rng.choice(strangers) + statement[name.start + len(name.text) :], "name"
        here = sorted({n.text for u in units if u != statement for n in _proper_names(u)} - {n.text for n in own})
        if here and not statement.lower().startswith(("the passage",)):
            yield statement[: name.start] + rng.choice(here) + statement[name.start + len(name.text) :], "entity"
    negated = negate(statement)
    if negated != statement:
        yield negated, "negated"
    words = re.findall(r"[\w'-]+", statement)
    other = re.findall(r"[a-z]+", rng.choice(units))
    if len(words) > 8:
        yield (
            f'The document says: "{" ".join(words[1:4])} {" ".join(reversed(other[-3:]))} {" ".join(words[-2:])}"',
            "quotation",
        )


_OTHER_UNITS = {
    "day": "weeks", "hour": "days", "minute": "hours", "second": "minutes", "week": "months", "month": "years",
    "year": "months", "metre": "kilometres", "km": "metres", "eur": "dollars", "byte": "kilobytes", "%": "euros",
    "character": "lines", "kb": "megabytes", "mb": "kilobytes", "litre": "millilitres", "night": "weeks",
}  # fmt: skip


def replace_number(text: str, quantity: Quantity, taken: Sequence[Quantity], rng: random.Random) -> str:
    """Another number that the passage does not give."""
    match = re.search(r"\d[\d.,]*\d|\d", quantity.text)
    assert match is not None
    digits = match[0]
    while True:
        changed = re.sub(r"\d", lambda _: str(rng.randint(1, 9)), digits)
        found = find_quantities(text.replace(digits, changed, 1))
        if changed != digits and not any(
            f.value == t.value for f in found for t in taken if f not in find_quantities(text)
        ):
            at = quantity.start + quantity.text.index(digits)
            return text[:at] + changed + text[at + len(digits) :]


def change_date(text: str, rng: random.Random) -> str:
    """Another month or day."""
    for match in re.finditer(rf"\b({'|'.join(_MONTHS)})\b", text):
        other = rng.choice([month for month in _MONTHS if month != match[0]])
        return text[: match.start()] + other + text[match.end() :]
    return re.sub(r"\b(\d{4}-\d{2}-)(\d{2})\b", lambda m: f"{m[1]}{(int(m[2]) + 3) % 27 + 1:02d}", text, count=1)


def negate(text: str) -> str:
    """The statement with a negation added or taken away."""
    if re.search(r"\b(?:not|n't|no|never|only|unless|without|but)\b", text):
        plain = re.sub(r"\b(can|is|are|does|do|may|must|will|should|was|were) not\b", r"\1", text, count=1)
        return re.sub(r"\bcannot\b", "can", plain, count=1) if plain == text else plain
    return re.sub(r"\b(is|are|can|may|must|will|was|were|should|has been|have been)\b", r"\1 not", text, count=1)


def judge(cases: Sequence[Case]) -> float:
    """Check every case; the median CPU time of a statement, in seconds."""
    seconds = []
    for case in cases:
        start = time.process_time()
        found = support.check_statements(case.text, case.shown, case.searcher)
        seconds.append((time.process_time() - start) / max(1, len(found)))
        case.flagged = [f"{s.text} ({s.reason})" for s in found if s.support is Support.NOT_FOUND]
        case.weak = [s.text for s in found if s.support is Support.PARTLY]
    return statistics.median(seconds)


def caught(case: Case) -> bool:
    """Whether the wrong statement of a case is flagged."""
    if not case.wrong_part:
        return bool(case.flagged)
    part = re.sub(r"[^a-z0-9]", "", re.sub(r"\[\d+\]", "", case.wrong_part).lower())[:25]
    return any(re.sub(r"[^a-z0-9]", "", text.lower()).startswith(part) for text in case.flagged)


def has_facts(case: Case, kind: str) -> bool:
    """Whether a right answer has something that a wrong answer of this kind would have changed."""
    tests = {
        "number": lambda t: bool(find_quantities(t)),
        "unit": lambda t: any(q.unit for q in find_quantities(t)),
        "date": lambda t: bool(find_dates(t)),
        "name": lambda t: bool(find_names(t)),
        "entity": lambda t: bool(find_names(t)),
        "quotation": lambda t: bool(find_quotations(t)),
    }
    return tests[kind](re.sub(r"\[\d+\]", "", case.text)) if kind in tests else True


def report(cases: Sequence[Case]) -> dict[str, dict[str, float | int | None]]:
    """Figures per kind."""
    right = [case for case in cases if case.kind == "right"]
    figures: dict[str, dict[str, float | int | None]] = {}
    for kind in (*KINDS, "mixed"):
        wrong = [case for case in cases if case.kind == kind]
        hits = sum(map(caught, wrong))
        false = sum(bool(case.flagged) for case in right if has_facts(case, kind))
        figures[kind] = {
            "answers": len(wrong),
            "recall": round(hits / len(wrong), 3) if wrong else None,
            "precision": round(hits / (hits + false), 3) if hits + false else None,
            "right with such facts": sum(has_facts(case, kind) for case in right),
            "false alarms on them": false,
        }
    for name, part in (("right", right), ("right, by hand", [c for c in right if c.by_hand])):
        alarms = sum(bool(case.flagged) for case in part)
        figures[name] = {
            "answers": len(part),
            "false alarms": alarms,
            "share": round(alarms / len(part), 3) if part else None,
            "partly": sum(bool(case.weak) for case in part),
        }
    return figures


def fit(cases: Sequence[Case]) -> dict[str, float]:
    """The weights of the wording: a logistic regression of right answers against statements of other passages."""
    rows: list[tuple[list[float], float, float]] = []
    original = support._verdict

    def keep(case: support._Case) -> object:
        if case.features is not None and not case.problem and case.places:
            rows.append(([1.0, *(case.features[name] for name in ("near", "anywhere", "cosine"))], label, weight))
        return original(case)

    support._verdict = keep  # type: ignore[assignment]
    vars(support)["needs_cosine"] = lambda features: features["near"] < wording.CERTAIN_SHARE
    for case in cases:
        if case.kind in ("right", "citation", "invented"):
            label, weight = float(case.kind == "right"), 3.0 if case.by_hand else 1.0
            cited = [int(n) for n in re.findall(r"\[(\d)\]", case.text)]
            support.check_statements(case.text, {n: case.shown[n] for n in cited}, case.searcher)
    support._verdict = original
    vars(support)["needs_cosine"] = wording.needs_cosine
    x, y = np.array([row for row, _, _ in rows]), np.array([label for _, label, _ in rows])
    w = np.array([weight for _, _, weight in rows])
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ beta))
        hessian = (x * (w * p * (1 - p))[:, None]).T @ x + 0.3 * np.eye(x.shape[1])
        beta += np.linalg.solve(hessian, x.T @ (w * (y - p)) - 0.3 * beta)
    print(f"fitted on {len(y)} statements, {int(y.sum())} of them right", file=sys.stderr)
    return dict(zip(("offset", "near", "anywhere", "cosine"), beta.round(2).tolist(), strict=True))


def main() -> None:
    """Build the set, judge it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("knowledge_bases", nargs="+")
    parser.add_argument("--questions", nargs="*", default=[], type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--fitted-half", action="store_true", help="figures of the half that choices are made on")
    parser.add_argument("--by-hand", action="store_true", help="hand-written answers only")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", default="", help="print the wrongly judged answers of this kind")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    questions = {q["id"]: q for path in options.questions for q in map(json.loads, path.read_text().splitlines())}
    folders = [Folder.open(path) for path in options.knowledge_bases]
    cases = list(hand_written(folders, questions, rng))
    if not options.by_hand:
        cases += [case for folder in folders for case in built(folder, rng)]
    if options.fit:
        print(fit([case for case in cases if case.is_fitted]))
    judged = [case for case in cases if case.is_fitted == options.fitted_half]
    seconds = judge(judged)
    for case in judged:
        if case.kind == options.show and bool(case.flagged if case.kind == "right" else not caught(case)):
            print(f"{'by hand, ' if case.by_hand else ''}{case.shown[1].chunk.source}: {case.text!r}")
            print(f"    flagged: {case.flagged} partly: {case.weak}")
    figures = report(judged)
    if options.json:
        print(json.dumps({"answers": len(judged), "seconds": seconds, "kinds": figures}, indent=1))
        return
    documents = len({case.shown[1].chunk.source for case in judged})
    print(f"{len(judged)} answers, {documents} documents, {1e3 * seconds:.1f} ms CPU a statement")
    for name, values in figures.items():
        print(f"{name:16}", "  ".join(f"{key} {value}" for key, value in values.items()))


if __name__ == "__main__":
    main()
