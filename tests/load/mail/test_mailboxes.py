"""Mailboxes and web archives."""

from __future__ import annotations

from ragkit.load.mail.eml import MboxLoader, MhtmlLoader
from tests.load.test_places import place_of

MBOX = b"""From ann@x.org Mon Jan  1 00:00:00 2024
From: Ann
Subject: One

First words.
>From here on.

From bo@x.org Tue Jan  2 00:00:00 2024
From: Bo
Subject: =?utf-8?q?Zwei_=C3=A4?=

Second words.
From me, no message starts here.
"""

MHTML = b"""From: <Saved by Blink>
Subject: A page
MIME-Version: 1.0
Content-Type: multipart/related; type="text/html"; boundary="b"

--b
Content-Type: text/html
Content-Transfer-Encoding: quoted-printable
Content-Location: https://x.org/page

<html><head><title>Pumps=</title></head><body><nav>menu</nav><h1>Pumps</h1><p>Gr=C3=B6=C3=9Fe</body></html>
--b
Content-Type: image/png
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--b--
"""


def test_each_message_of_a_mailbox_stands_under_its_subject() -> None:
    document = MboxLoader().load(MBOX, "/x/a.mbox")
    first, second = document.text.split("\n\nZwei ä\n\n")
    assert first == "One\n\nFrom: Ann\nSubject: One\n\nFirst words.\nFrom here on."
    assert second == "From: Bo\nSubject: Zwei ä\n\nSecond words.\nFrom me, no message starts here."
    assert [heading.text for heading in document.headings] == ["One", "Zwei ä"]
    assert place_of(document, "Second words") == "message 2"


def test_a_web_archive_is_its_page() -> None:
    document = MhtmlLoader().load(MHTML, "/x/a.mhtml")
    assert document.text == "Pumps\n\nGröße"
    assert document.metadata["url"] == "https://x.org/page"
