"""The source `s3`: signed requests and listings of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ragkit.errors import InvalidOption, LoadError
from ragkit.load.sources.base import DocumentGone, SourceContext
from ragkit.load.sources.options import S3Options
from ragkit.load.sources.s3 import S3Credentials, S3Source, sign_request
from tests.load.sources.s3_server import Bucket, serve


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    with serve() as found:
        yield found


@pytest.fixture
def context(tmp_path: Path) -> SourceContext:
    return SourceContext(tmp_path, lambda key: None, set, allow_private=True)


def open_source(bucket: Bucket, **options: str) -> S3Source:
    chosen = S3Options(bucket="manuals", endpoint=bucket.url, region="eu-central-1")
    return S3Source(replace(chosen, **options))  # type: ignore[arg-type]


SIGNED = {
    "/test.txt": ({"range": "bytes=0-9"}, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    "/?max-keys=2&prefix=J": ({}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
}
"""Examples of the S3 manual ("Authenticating Requests: Using the Authorization Header")."""


@pytest.mark.parametrize("path", SIGNED)
def test_signatures_are_those_of_the_manual(path: str) -> None:
    headers, signature = SIGNED[path]
    credentials = S3Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    url = f"https://examplebucket.s3.amazonaws.com{path}"
    signed = sign_request(url, credentials, "us-east-1", datetime(2013, 5, 24, tzinfo=UTC), headers)
    assert signed["Authorization"].endswith(f"Signature={signature}")


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({}, "https://manuals.s3.us-east-1.amazonaws.com/a/b%20%2B%C3%BC~.md"),
        ({"region": "eu-west-1"}, "https://manuals.s3.eu-west-1.amazonaws.com/a/b%20%2B%C3%BC~.md"),
        ({"bucket": "my.manuals"}, "https://s3.us-east-1.amazonaws.com/my.manuals/a/b%20%2B%C3%BC~.md"),
        ({"endpoint": "https://minio.example:9000/"}, "https://minio.example:9000/manuals/a/b%20%2B%C3%BC~.md"),
    ],
)
def test_objects_have_the_addresses_of_the_store(
    options: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    chosen = S3Options(**{"bucket": "manuals", "anonymous": True, **options})  # type: ignore[arg-type]
    address, request = S3Source(chosen)._request("a/b +ü~.md", {})
    assert (address, dict(request.headers)) == (url, {})


def test_names_of_all_characters_are_listed_and_fetched(bucket: Bucket, context: SourceContext) -> None:
    names = ["docs/a b+c.md", "docs/ä&<>\"'%20.md", "docs//double.md", "docs/x/../y.md", "docs/~!*().md"]
    bucket.objects = {name: name.encode() for name in names} | {"docs/": b"", "docs-old/z.md": b"z"}
    source = open_source(bucket, prefix="/docs/")
    items = list(source.list(context))
    assert sorted(f"docs/{item.path}" for item in items) == sorted(names)
    assert [source.fetch(item, context).data.decode() for item in items] == [f"docs/{item.path}" for item in items]
    assert source.location == f"manuals/docs@{bucket.url}"


def test_a_session_token_is_signed(bucket: Bucket, context: SourceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.credentials = S3Credentials("key", "secret", "token")
    bucket.objects = {"a.md": b"a"}
    with pytest.raises(LoadError, match="refused the request"):
        list(open_source(bucket).list(context))
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    assert [item.path for item in open_source(bucket).list(context)] == ["a.md"]


def test_keys_can_be_in_variables_of_any_name(
    bucket: Bucket, context: SourceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.credentials = S3Credentials("mine", "other")
    bucket.objects = {"a.md": b"a"}
    source = open_source(bucket, key_env="MY_KEY", secret_env="MY_SECRET")
    monkeypatch.setenv("MY_SECRET", "other")
    with pytest.raises(LoadError, match="the environment variable MY_KEY is not set"):
        list(source.list(context))
    monkeypatch.setenv("MY_KEY", "mine")
    assert [item.path for item in source.list(context)] == ["a.md"]


def no_bucket(bucket: Bucket) -> None:
    bucket.exists = False


def other_secret(bucket: Bucket) -> None:
    bucket.credentials = S3Credentials("key", "changed")


def no_listing(bucket: Bucket) -> None:
    bucket.page = lambda query: b"<html/>"  # type: ignore[method-assign]


def no_end(bucket: Bucket) -> None:
    bucket.page_size = 1
    bucket.objects = {"a": b"", "b": b""}
    first = bucket.page({})
    bucket.page = lambda query: first  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (no_bucket, "has no such bucket"),
        (other_secret, r"refused the request \(403, region eu-central-1\)"),
        (no_listing, "did not answer with a listing"),
        (no_end, "the listing does not go on"),
    ],
)
def test_a_listing_that_fails_says_why(
    bucket: Bucket, context: SourceContext, spoil: Callable[[Bucket], None], message: str
) -> None:
    spoil(bucket)
    with pytest.raises(LoadError, match=message):
        list(open_source(bucket).list(context))


def test_an_object_that_was_deleted_meanwhile_is_gone(bucket: Bucket, context: SourceContext) -> None:
    bucket.objects = {"a.md": b"a"}
    source = open_source(bucket)
    [item] = source.list(context)
    bucket.objects.clear()
    with pytest.raises(DocumentGone, match="was deleted"):
        source.fetch(item, context)


def test_listings_may_be_larger_than_documents(bucket: Bucket, context: SourceContext) -> None:
    bucket.objects = {f"{number}.md": b"x" for number in range(400)}
    bucket.page_size = 400
    small = SourceContext(context.folder, context.known_fingerprint, context.known_keys, 0.01, allow_private=True)
    assert len(list(open_source(bucket).list(small))) == 400


@pytest.mark.parametrize(
    ("options", "name"),
    [({"key_env": "A"}, "secret_env"), ({"secret_env": "A"}, "key_env"), ({"endpoint": "host:9000"}, "endpoint")],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, str], name: str) -> None:
    with pytest.raises(InvalidOption, match=name):
        S3Options(bucket="manuals", **options)  # type: ignore[arg-type]
