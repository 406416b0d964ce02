"""Write ragkit/embed/bert_characters.py: how BERT's tokenizer treats each character, as the package `tokenizers` does.

    python scripts/make_bert_characters.py

The tables of `tokenizers` are of other versions of Unicode than those of Python: of an old one for categories, of a new
one for lower case. Therefore they are read from its results, and nothing depends on the version of Python.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

TARGET = Path(__file__).resolve().parents[1] / "ragkit" / "embed" / "bert_characters.py"
SURROGATES = set(range(0xD800, 0xE000))
CODES = [code for code in range(0x110000) if code not in SURROGATES]
LINE_CHARS = 116
HEAD = '''"""How BERT's tokenizer treats each character. Made by scripts/make_bert_characters.py, tokenizers {version}.

The tables are strings of code points and ranges of code points, in hexadecimal. They are independent of the version of
Python, whose Unicode tables differ from these.
"""
'''


def normal_forms() -> dict[int, str]:
    """What each character becomes."""
    normalizer = BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    return {code: normalizer.normalize_str(chr(code)) for code in CODES}


def punctuation(forms: dict[int, str]) -> set[int]:
    """The characters of normal forms that are words of their own."""
    splitter = BertPreTokenizer()
    characters = {character for form in forms.values() for character in form if character != " "}
    return {ord(c) for c in characters if len(splitter.pre_tokenize_str(f"a{c}a")) == 3}


def python_form(character: str, removed: set[int]) -> str:
    """The decomposed character without accents, in lower case, by the tables of this Python."""
    decomposed = unicodedata.normalize("NFD", character)
    return "".join(c.lower() for c in decomposed if ord(c) not in removed)


def ranges(codes: Iterable[int], gaps: frozenset[int] | set[int] = frozenset()) -> str:
    """Code points as text: `41-5a c0`. Ranges may span the code points of `gaps`."""
    found: list[list[int]] = []
    for code in sorted(codes):
        if found and all(between in gaps for between in range(found[-1][1] + 1, code)):
            found[-1][1] = code
        else:
            found.append([code, code])
    return " ".join(f"{first:x}-{last:x}" if last > first else f"{first:x}" for first, last in found)


def constant(name: str, text: str, docstring: str) -> str:
    """An assignment of a long string, in lines."""
    lines = [""]
    for part in text.split(" "):
        if len(lines[-1]) + len(part) >= LINE_CHARS - 3:
            lines.append("")
        lines[-1] += f"{part} "
    lines[-1] = lines[-1].rstrip()
    value = f'"{lines[0]}"' if len(lines) == 1 else "(\n" + "".join(f'    "{line}"\n' for line in lines) + ")"
    return f'\n{name} = {value}\n"""{docstring}"""\n'


def main() -> None:
    """Write the file."""
    forms = normal_forms()
    removed = {code for code, form in forms.items() if not form}
    spaces = {code for code, form in forms.items() if form == " "}
    isolated = {code for code, form in forms.items() if len(form) > 2 and form[0] == form[-1] == " "}
    known = removed | spaces
    rest = {code: form.strip() for code, form in forms.items() if code not in known}
    # where this Python and `tokenizers` agree that a character stays as it is, a range may span it
    same = {c for c, form in rest.items() if form == chr(c) == python_form(chr(c), removed) and chr(c).isprintable()}
    changed = {c for c, form in rest.items() if form != chr(c) and form == python_form(chr(c), removed)}
    other = {c: form for c, form in rest.items() if form != chr(c) and c not in changed}
    pairs = [f"{code:x}:{ord(form):x}" for code, form in sorted(other.items())]
    tables = [
        constant("REMOVED", ranges(removed | SURROGATES), "Control characters, accents and lone surrogates: left out."),
        constant("WHITESPACE", ranges(spaces), "Become a space."),
        constant("PUNCTUATION", ranges(punctuation(forms)), "Words of their own, after the other steps."),
        constant("IDEOGRAPHS", ranges(isolated), "Words of their own."),
        constant("CHANGED", ranges(changed, same), "Decomposed and changed to lower case; others stay as they are."),
        constant("LOWER_CASE", " ".join(pairs), "Changed to lower case, too; Python 3.11 does not know them."),
    ]
    TARGET.write_text(HEAD.format(version=version("tokenizers")) + "".join(tables), "utf-8")
    print(f"{TARGET.name}: {len(removed)} removed, {len(changed)} changed, {len(other)} of a newer Unicode")


if __name__ == "__main__":
    main()
