"""AsciiDoc, reStructuredText, LaTeX and Org: what only their programs read is no text; offsets and lines stay."""

from __future__ import annotations

import pytest

from ragkit.load.text.text import TextLoader
from ragkit.records import TABLE_LEVEL, Document


def load(text: str, name: str) -> Document:
    document = TextLoader().load(text.encode(), name)
    assert len(document.text) == len(text) and document.text.count("\n") == text.count("\n")
    return document


def words(text: str, name: str) -> str:
    return " ".join(load(text, name).text.split())


def test_attributes_of_asciidoc_are_metadata() -> None:
    document = load("= Pump\nAnn Lee\n:version: 3.1\n:toc:\n// a comment\n\nIt runs.\n\n:later: 1\n", "a.adoc")
    assert " ".join(document.text.split()) == "= Pump Ann Lee It runs."
    assert document.metadata["version"] == "3.1" and "later" not in document.metadata


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("[[start]]\n== Start\nWords.", "== Start Words."),
        ("ifdef::web[]\nShown.\nendif::[]\ninclude::b.adoc[]", "Shown."),
        ("////\nnever seen\n////\nShown.", "Shown."),
        ("----\n:not: one\n// stays\n----", "---- :not: one // stays ----"),
    ],
)
def test_lines_for_asciidoctor_are_no_text(text: str, seen: str) -> None:
    assert words(text, "a.adoc") == seen


@pytest.mark.parametrize(
    "head", [":orphan:\n:Author: Ann\n\n=====\nTitle\n=====\n", "Title\n=====\n\n:Author: Ann\n   Lee\n"]
)
def test_the_field_list_of_restructured_text_is_metadata(head: str) -> None:
    document = load(f"{head}\nText.\n\n:param x: stays\n", "a.rst")
    assert document.metadata["author"] == "Ann" and document.title == "Title"
    assert " ".join(document.text.replace("=", "").split()) == "Title Text. :param x: stays"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (".. toctree::\n   :maxdepth: 2\n\n   one\n   two\n\nShown.", "Shown."),
        (".. note::\n   :class: x\n\n   Take care.", ".. note:: Take care."),
        (".. A comment\n   goes on.\n\nShown.", "Shown."),
        (".. _here:\n\nShown.", "Shown."),
        (".. [1] A note.", ".. [1] A note."),
        (".. |x| replace:: y", ".. |x| replace:: y"),
        ("::\n\n   .. code\n", ":: .. code"),
    ],
)
def test_lines_for_sphinx_are_no_text(text: str, seen: str) -> None:
    assert words(f"First words.\n\n{text}", "a.rst") == f"First words. {seen}"


def test_comments_of_latex_are_no_text_and_simple_macros_are_their_words() -> None:
    text = (
        "\\newcommand{\\sys}{Pumpy}\n% OLD: 900 turns\nIt makes 50\\% of 1200 turns.% why\nThe \\sys{} runs.\n"
        "\\begin{verbatim}\n% stays\n\\end{verbatim}\n"
    )
    shown = load(text, "a.tex").text
    assert "900" not in shown and "why" not in shown and "50\\% of 1200" in shown
    assert "The Pumpy " in shown and "% stays" in shown


@pytest.mark.parametrize(
    ("definition", "is_kept"),
    [
        (r"\newcommand{\pair}[2]{\langle#1,#2\rangle}", False),
        (r"  \renewcommand*{\fsubt}[2]{#1 \ssubt #2}", False),
        (r"\DeclareMathOperator{\tr}{tr}", False),
        (r"\def\half{\frac{1}{2}}", False),
        (r"\newcommand{\note}{The pump may run dry when the tank is empty}", True),
        (r"\newcommand{\longer}{", True),
        (r"\defined words stay", True),
    ],
)
def test_definitions_of_latex_macros_are_no_text(definition: str, is_kept: bool) -> None:
    shown = load(f"The pump runs.\n{definition}\nIt stops.\n", "a.tex").text
    assert (definition in shown) is is_kept
    assert "The pump runs." in shown and "It stops." in shown


def test_of_a_preamble_only_title_authors_and_abstract_are_text() -> None:
    preamble = (
        "\\documentclass{article}\n\\usepackage{graphicx}\n\\title{Pumps}\n\\author{Ann Lee}\n\\setlength{\\a}{2pt}\n"
    )
    document = load(f"{preamble}\\begin{{document}}\nThe pump runs.\n\\end{{document}}\n", "a.tex")
    assert "graphicx" not in document.text and "2pt" not in document.text
    assert document.title == "Pumps" and "Ann Lee" in document.text and "The pump runs." in document.text
    assert document.text.index("The pump") == len(preamble) + len("\\begin{document}\n")
    assert document.metadata["characters_left_out"] == 63


MACROS = (
    "\\newif\\if@dry\n\\def\\pump@run{\\advance\\count0 by 1}\n\\RequirePackage{xcolor}\n\\setlength{\\a}{2pt}\n\\fi\n"
)


@pytest.mark.parametrize(
    ("name", "text", "is_kept"),
    [
        ("a.tex", MACROS, False),
        ("a.sty", MACROS, False),
        ("a.cls", "\\NeedsTeXFormat{LaTeX2e}\n" + MACROS, False),
        ("a.cls", MACROS, True),
        ("a.txt", "\\NeedsTeXFormat{LaTeX2e}\n" + MACROS, True),
        ("a.tex", MACROS + "The pump runs dry when the tank is empty.\n" * 2, True),
        ("a.tex", "A document begins so, as all of them do:\n\\begin{document}\n", True),
        ("a.tex", "\\cventry\n  {First prize of the year}\n" * 5, True),
    ],
)
def test_files_of_latex_macros_are_left_out(name: str, text: str, is_kept: bool) -> None:
    document = load(text, name)
    assert bool(document.text.strip()) is is_kept
    assert ("characters_left_out" in document.metadata) is not is_kept


@pytest.mark.parametrize(
    "line",
    [r"\section{Valves}", r"\clearpage\section {Valves}", r"\newpage \subsection* {Valves}", r"\frametitle{Valves}"],
)
def test_headings_of_latex_may_follow_a_page_break(line: str) -> None:
    assert [heading.text for heading in load(f"Words.\n{line}\nWords.\n", "a.tex").headings] == ["Valves"]


@pytest.mark.parametrize(
    ("text", "kept", "gone"),
    [
        ("One.\n  % indented\nTwo.\n", "One.", "indented"),
        ("A \\% of it, \\\\% gone\n", "A \\% of it", "gone"),
        ("\\def\\who{Ann}\\who{} came.%gone\n%\n%%% gone\nBob.\n", "Bob.", "gone"),
        ("\\begin{lstlisting}\nx = 7 % 3\n\\end{lstlisting}\n% gone\n", "x = 7 % 3", "gone"),
    ],
)
def test_kinds_of_latex_comments(text: str, kept: str, gone: str) -> None:
    shown = load(text, "a.tex").text
    assert kept in shown and gone not in shown


@pytest.mark.parametrize(
    "table",
    [
        "\\begin{tabular}{lc}\nPart & Turns \\\\\nPump & 1200 \\\\\nFan & 90 \\\\\n\\end{tabular}",
        "\\begin{tabular}[t]{l|c} \\toprule\nPart & Turns \\\\ \\midrule\n"
        "Pump & 1200 \\\\[2pt]\nFan & 90 \\\\ \\bottomrule\n\\end{tabular}",
        "\\begin{longtable}{@{}lp{3cm}@{}}\n\\hline Part & Turns \\tabularnewline \\hline\n"
        "Pump & 1200\\\\\\hline\nFan & \\multicolumn{1}{c}{90}\\\\\n\\end{longtable}",
    ],
)
def test_rows_of_latex_tables_have_their_names(table: str) -> None:
    document = load(f"Words.\n{table}\nEnd.\n", "a.tex")
    lines = [" ".join(line.split()) for line in document.text.split("\n") if line.strip()]
    assert lines == ["Words.", "Part | Turns", "Pump | 1200", "Fan | 90", "End."]
    assert [heading.text for heading in document.headings if heading.level == TABLE_LEVEL] == ["Part | Turns"]
    assert document.heading_path_at(document.text.index("Fan")) == ("Part | Turns",)


def test_keywords_of_org_are_metadata_and_its_title() -> None:
    text = "#+TITLE: Pump\n#+author: Ann Lee\n# a comment\n\n* Start :web:\n#+later: 1\n| a | 1 |\n"
    document = load(text, "a.org")
    assert " ".join(document.text.split()) == "* Start :web: | a | 1 |"
    assert (document.title, [heading.text for heading in document.headings]) == ("Pump", ["Start"])
    assert document.metadata["author"] == "Ann Lee" and "later" not in document.metadata


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("* One\n  :PROPERTIES:\n  :ID: 68EE\n  :END:\nWords.", "* One Words."),
        (":PROPERTIES:\nno drawer", ":PROPERTIES: no drawer"),
        ("#+begin_src sh\n# stays\n#+end_src\n#hashtag", "# stays #hashtag"),
        ("#+BEGIN_COMMENT\nnever seen\n#+END_COMMENT\nShown.", "Shown."),
        ("#+begin_example\n#+end_src\n#+end_example\n#+caption: Shown.", "#+end_src #+caption: Shown."),
    ],
)
def test_lines_for_org_are_no_text(text: str, seen: str) -> None:
    assert words(text, "a.org") == seen


def test_layout_of_latex_is_no_text_but_in_listings() -> None:
    page = r"""\documentclass{article}
\title{Owls}
\begin{document}
\maketitle
\noindent Owls eat mice.\label{eat}
\begin{verbatim}
\newpage
\end{verbatim}
\newpage See \ref{eat}.
\bibliography{owls}
\end{document}
"""
    kept = [
        r"\title{Owls}",
        "Owls",
        "eat",
        r"mice.\label{eat}",
        r"\begin{verbatim}",
        r"\newpage",
        r"\end{verbatim}",
        "See",
        r"\ref{eat}.",
    ]
    assert TextLoader().load(page.encode(), "owls.tex").text.split() == kept
