"""HTML as a tree: what a reader sees, and nothing that runs or loads."""

from __future__ import annotations

import json

import pytest

from ragkit.load.html.tree import ELEMENTS, MAX_DEPTH, MAX_NODES, MAX_TREE_CHARS, read_tree
from ragkit.records import JSON

HOSTILE = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>", "<a href='javascript:alert(1)'>x</a>",
    "<a href=' java\nscript:alert(1)'>x</a>", "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
    "<math><mtext><script>alert(1)</script></mtext></math>", "<style>@import 'http://evil.example'</style>",
    "<template><script>alert(1)</script></template>", "<object data=x></object><embed src=x>",
    "<form action='http://evil.example'><input name=a><button>go</button></form>", "<base href='http://evil.example/'>",
    "<meta http-equiv=refresh content='0;url=http://evil.example'>", "<link rel=stylesheet href=//evil.example>",
    "<p style='background:url(http://evil.example)'>x</p>", "<!--[if IE]><script>alert(1)</script><![endif]-->",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>", "<a href='vbscript:alert(1)'>x</a>",
    "<video><source onerror=alert(1)></video>", "<details open ontoggle=alert(1)>x</details>",
    "<xmp><script>alert(1)</script></xmp>", "<plaintext><script>alert(1)</script>", "<a href='//evil.example'>x</a>",
    "<td background=http://evil.example>x", "<?php alert(1) ?>", "<![CDATA[<script>alert(1)</script>]]>",
)  # fmt: skip


def tags(tree: list[JSON]) -> set[str]:
    """All tags and attributes of a tree."""
    found: set[str] = set()
    for node in tree:
        if isinstance(node, dict):
            found |= {str(node["tag"]), *(f"@{name}" for name in node if name not in ("tag", "children"))}
            children = node["children"]
            assert isinstance(children, list)
            found |= tags(children)
    return found


@pytest.mark.parametrize("markup", HOSTILE)
def test_nothing_that_runs_or_loads_is_kept(markup: str) -> None:
    tree = read_tree(f"<p>before</p>{markup}".encode(), "a.html")
    found = tags(tree)
    assert found <= ELEMENTS | {"@href", "@colspan", "@rowspan"}
    assert "@href" not in found
    assert json.dumps(tree[0]) == '{"tag": "p", "children": ["before"]}'


def test_what_a_reader_sees_is_kept() -> None:
    page = b"<h2>A &amp; B</h2><table><tr><th colspan=2>x<td>y</table><a href='https://a.example/'>go</a><p hidden>no"
    assert read_tree(page, "a.html") == [
        {"tag": "h2", "children": ["A & B"]},
        {"tag": "table", "children": [{"tag": "tr", "children": [
            {"tag": "th", "colspan": 2, "children": ["x"]}, {"tag": "td", "children": ["y"]}]}]},
        {"tag": "a", "href": "https://a.example/", "children": ["go"]},
    ]  # fmt: skip


@pytest.mark.parametrize("markup", ["<div>" * 100_000 + "deep", "<p>x" * 200_000, "a&amp;" * 600_000, "<td>" * 100_000])
def test_a_tree_is_bounded(markup: str) -> None:
    tree = read_tree(markup.encode(), "a.html")
    depth, nodes, characters = 0, 0, 0
    level = [tree]
    while level:
        depth += 1
        nodes += sum(map(len, level))
        characters += sum(len(node) for group in level for node in group if isinstance(node, str))
        level = [node["children"] for group in level for node in group if isinstance(node, dict)]
    assert depth <= MAX_DEPTH + 1
    assert nodes <= MAX_NODES + 1
    assert characters <= MAX_TREE_CHARS
