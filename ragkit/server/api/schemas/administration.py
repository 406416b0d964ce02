"""Requests and responses of the routes for owners: users, tokens, settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ragkit.index.access.rules import Default, Role
from ragkit.server.api.schemas.requests import RequestBody

Groups = Annotated[list[str], Field(max_length=100, description="Names of groups.")]
TokenName = Annotated[str, Field(max_length=100, description="Name of the token, one of its user's.")]
Lifetime = Annotated[
    str | None, Field(max_length=20, description="How long the token is valid: `12h`, `30d`, `8w`. Null: for ever.")
]


class AddUserBody(RequestBody):
    """A new user, who gets a token."""

    user: str = Field(max_length=100, description="The name: letters, digits and `. _ @ + -`.")
    role: Role = Field("reader", description="`owner` reads everything and changes users, `editor` changes documents.")
    groups: Groups = Field(default_factory=list)
    expires: Lifetime = None


class ChangeUserBody(RequestBody):
    """What to change of a user. Null: as it is."""

    role: Role | None = Field(None, description="The new role.")
    groups: Groups | None = Field(None, description="All groups from now on.")


class AddTokenBody(RequestBody):
    """A further token of a user."""

    name: TokenName
    expires: Lifetime = None


class AccessTokenSchema(TypedDict):
    """A token, without its text."""

    name: Annotated[str, Field(description="Its name.")]
    created: Annotated[str | None, Field(description="Time of creation; null: by an earlier version of ragkit.")]
    expires: Annotated[str | None, Field(description="Time from which it is refused; null: never.")]
    expired: Annotated[bool, Field(description="It is refused by now.")]


class AccessUserSchema(TypedDict):
    """A user."""

    user: Annotated[str, Field(description="The name.")]
    role: Annotated[Role, Field(description="What the user may do.")]
    groups: Annotated[list[str], Field(description="The groups, which rules and fields `access` name.")]
    tokens: Annotated[list[AccessTokenSchema], Field(description="The tokens.")]


class AccessRuleSchema(TypedDict):
    """Who may read what lies below a path."""

    path: Annotated[str, Field(description="A pattern of the end of a source.")]
    allow: Annotated[list[str], Field(description="`user:NAME`, `group:NAME`, `everyone`; empty: owners only.")]


class AccessSchema(TypedDict):
    """The users and rules of a knowledge base."""

    you: Annotated[str, Field(description="The name of the user who asks; empty: a token of the server, or no user.")]
    open: Annotated[bool, Field(description="The server requires no token: who reaches it is an owner.")]
    users: Annotated[list[AccessUserSchema], Field(description="The users, by name.")]
    rules: Annotated[list[AccessRuleSchema], Field(description="The rules, which `ragkit access grant` changes.")]
    default: Annotated[Default, Field(description="Who reads documents without field and rule; `closed`: owners.")]


class NewTokenSchema(TypedDict):
    """A user and their new token. Only its hash is stored: it is not shown again."""

    user: Annotated[AccessUserSchema, Field(description="The user.")]
    token: Annotated[str, Field(description="The text of the token.")]


class KeySchema(TypedDict):
    """Where the API key of a model service comes from; never the key."""

    service: Annotated[str, Field(description="The service.")]
    variables: Annotated[list[str], Field(description="Environment variables of the server that may hold the key.")]
    set: Annotated[str | None, Field(description="The one that is used; null: the service has no key.")]


class LimitSchema(TypedDict):
    """A limit of the server."""

    name: Annotated[str, Field(description="The limit.")]
    value: Annotated[float | None, Field(description="Its value, in each process of the server; null: no limit.")]
    unit: Annotated[Literal["usd", "seconds", "bytes", "days", "count"], Field(description="What it counts.")]
    option: Annotated[str, Field(description="The option of `ragkit serve` that sets it.")]


class SettingsSchema(TypedDict):
    """What the server was started with. It reads its settings only then: options and variables change them."""

    version: Annotated[str, Field(description="The version of ragkit.")]
    model: Annotated[str, Field(description="What answers: `provider:model`, or `extractive` (no model).")]
    models: Annotated[list[str], Field(description="What the server offers beside, by `--model`.")]
    pipeline: Annotated[str, Field(description="The pipeline, whose file has the other settings.")]
    embedder: Annotated[str, Field(description="`provider:model` of the embedder, or its fingerprint.")]
    keys: Annotated[list[KeySchema], Field(description="The keys of the model services.")]
    limits: Annotated[list[LimitSchema], Field(description="The limits.")]
    bases: Annotated[list[str], Field(description="The knowledge bases by name; empty: one without a name.")]
