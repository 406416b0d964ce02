"""The source `imap` on a server that speaks IMAP4rev1."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ragkit.errors import LoadError
from ragkit.load.sources.base import DocumentGone, SourceContext, SourceItem
from ragkit.load.sources.imap import ImapSource
from ragkit.load.sources.options import ImapOptions
from tests.load.sources.imap_server import Mailbox, serve


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    monkeypatch.setenv("MAIL_PASSWORD", "geheim")
    with serve() as found:
        found.mails = {uid: f"Subject: Mail {uid}\r\n\r\nPump {uid} leaks.\r\n".encode() for uid in (3, 5, 9)}
        yield found


@pytest.fixture
def context(tmp_path: Path) -> SourceContext:
    return SourceContext(tmp_path, lambda key: None, set, allow_private=True)


def open_source(box: Mailbox, mailbox: str = "INBOX", host: str = "127.0.0.1", *, tls: bool = False) -> ImapSource:
    return ImapSource(
        ImapOptions(host=host, user=box.user, password_env="MAIL_PASSWORD", mailbox=mailbox, port=box.port, tls=tls)
    )


def test_mails_are_read_without_being_marked(box: Mailbox, context: SourceContext) -> None:
    items = list(open_source(box).list(context))
    assert [item.key for item in items] == [f"imap://anna@127.0.0.1/INBOX/7/{uid}" for uid in (3, 5, 9)]
    assert [item.file.data for item in items if item.file] == list(box.mails.values())
    assert [item.size for item in items] == [len(mail) for mail in box.mails.values()]
    assert box.read_only


def test_known_mails_are_not_sent(box: Mailbox, context: SourceContext) -> None:
    known = {item.key: item.fingerprint for item in open_source(box).list(context)}
    box.mails[12] = b"Subject: New\r\n\r\nA new pump.\r\n"
    box.sent()
    again = SourceContext(context.folder, known.get, known.keys, allow_private=True)
    assert [item.path for item in open_source(box).list(again)] == ["3", "5", "9", "12"]
    assert box.sent() == [12]


def test_mails_that_are_marked_as_deleted_are_not_listed(box: Mailbox, context: SourceContext) -> None:
    box.deleted = {5}
    assert [item.path for item in open_source(box).list(context)] == ["3", "9"]


def test_an_empty_folder_lists_nothing(box: Mailbox, context: SourceContext) -> None:
    box.mails.clear()
    assert list(open_source(box).list(context)) == []


def test_a_mail_that_goes_while_the_folder_is_read_is_left_out(box: Mailbox, context: SourceContext) -> None:
    def expunge(uid: int) -> None:
        box.mails.pop(5, None)

    box.on_body = expunge
    assert [item.path for item in open_source(box).list(context)] == ["3", "9"]
    with pytest.raises(DocumentGone, match="was deleted"):
        open_source(box).fetch(SourceItem("imap://anna@127.0.0.1/INBOX/7/5", path="5"), context)


@pytest.mark.parametrize("trouble", ["hang up", "refuse FETCH", "refuse LOGIN", "stop"])
def test_a_server_that_fails_is_an_error(box: Mailbox, context: SourceContext, trouble: str) -> None:
    if trouble == "hang up":
        box.hang_up_after = 2
    elif trouble == "stop":
        box.port = 1
    else:
        box.refused = trouble.split()[1]
    items: list[SourceItem] = []
    with pytest.raises(LoadError, match="the IMAP server failed"):
        items.extend(open_source(box).list(context))


def test_a_wrong_password_is_not_in_the_message(
    box: Mailbox, context: SourceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "falsch")
    with pytest.raises(LoadError, match="wrong password") as caught:
        list(open_source(box).list(context))
    assert "falsch" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "sent"),
    [("Entwürfe", b"Entw&APw-rfe"), ("R&D", b"R&-D"), ("日本語", b"&ZeVnLIqe-"), ("Sent Items", b"Sent Items")],
)
def test_folders_have_names_of_any_language(box: Mailbox, context: SourceContext, name: str, sent: bytes) -> None:
    box.name = sent
    assert len(list(open_source(box, name).list(context))) == 3
    with pytest.raises(LoadError, match="no such mailbox"):
        list(open_source(box, "Archive").list(context))


def test_passwords_have_letters_of_any_language(
    box: Mailbox, context: SourceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for password in ("größer", 'with "quotes" and \\'):
        box.password = password
        monkeypatch.setenv("MAIL_PASSWORD", password)
        assert len(list(open_source(box).list(context))) == 3


def test_only_a_trusted_certificate_is_accepted(
    tmp_path: Path, context: SourceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "geheim")
    certificate = write_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with serve(tls) as box:
        box.mails = {1: b"Subject: a\r\n\r\nText.\r\n"}
        with pytest.raises(LoadError, match="CERTIFICATE_VERIFY_FAILED"):
            list(open_source(box, host="localhost", tls=True).list(context))
        assert box.sent() == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert [item.path for item in open_source(box, host="localhost", tls=True).list(context)] == ["1"]


def write_certificate(folder: Path) -> Path:
    """A certificate for `localhost` with its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    certificate = builder.add_extension(x509.BasicConstraints(True, None), critical=True).sign(key, hashes.SHA256())
    path = folder / "server.pem"
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(pem))
    return path
