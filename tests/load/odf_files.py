"""OpenDocument files, in the shape that LibreOffice writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.load.sample_files import zipped

NAMESPACES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in (
        *(("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing")),
        *(("presentation", "presentation"), ("svg", "svg-compatible")),
    )
)
META = (
    f'<office:document-meta {NAMESPACES} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>'
    "<dc:title>The Handbook</dc:title><dc:creator>Ada</dc:creator></office:meta></office:document-meta>"
)


def _file(kind: str, body: str, more: Mapping[str, str] | None = None) -> bytes:
    content = (
        f'<office:document-content {NAMESPACES} xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    return zipped({"mimetype": media_type, "content.xml": content, "meta.xml": META, **(more or {})})


def text(body: str, more: Mapping[str, str] | None = None) -> bytes:
    """A text (ODT)."""
    return _file("text", body, more)


def show(slides: Sequence[tuple[str, str, str]]) -> bytes:
    """A presentation (ODP); a slide is (title, text, notes)."""
    pages = "".join(
        f'<draw:page><draw:frame svg:y="5cm" svg:x="1cm"><draw:text-box><text:p>{box}</text:p></draw:text-box>'
        "</draw:frame>"
        f'<draw:frame presentation:class="title" svg:y="1cm"><draw:text-box><text:p>{title}</text:p></draw:text-box>'
        f"</draw:frame><presentation:notes><draw:frame><draw:text-box><text:p>{notes}</text:p></draw:text-box>"
        "</draw:frame></presentation:notes></draw:page>"
        for title, box, notes in slides
    )
    return _file("presentation", pages)


def sheets(rows: Mapping[str, str]) -> bytes:
    """Sheets (ODS); each is the markup of its rows."""
    tables = "".join(f'<table:table table:name="{name}">{body}</table:table>' for name, body in rows.items())
    return _file("spreadsheet", tables)
