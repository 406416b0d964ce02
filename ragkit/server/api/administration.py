"""Routes for owners: users and their tokens, and what the server was started with.

Users and tokens hold at once, as with `ragkit access`. The settings of the server are read at its start, so they are
only shown.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path

from ragkit import __version__
from ragkit.agent.providers.credentials import KEY_VARIABLES
from ragkit.errors import KnowledgeBaseLocked
from ragkit.index.access.rules import AccessSettings, User, check_name
from ragkit.index.access.tokens import FIRST_NAME, Token, create_token, format_instant, parse_lifetime
from ragkit.knowledge_base.answer_provider import model_name, resolve_answer_provider
from ragkit.server.api.dependencies import DEFAULT_MODEL, AppContext, ContextDep, JsonObject
from ragkit.server.api.schemas.administration import (
    AccessSchema,
    AccessUserSchema,
    AddTokenBody,
    AddUserBody,
    ChangeUserBody,
    NewTokenSchema,
    SettingsSchema,
)
from ragkit.server.concurrency import run_in_thread
from ragkit.server.http_errors import invalid_request, not_found, service_unavailable
from ragkit.server.principals import CURRENT, access_revoked, require_owner_role

LOG = logging.getLogger("ragkit.server.audit")
LIMITS = (
    ("limits", "answer_usd", "usd", "--max-cost"),
    ("limits", "index_usd", "usd", "--max-index-cost"),
    ("limits", "answer_seconds", "seconds", "--max-seconds"),
    ("limits", "requests_per_minute", "count", "--rate"),
    ("limits", "max_iterations", "count", "--max-iterations"),
    ("limits", "max_running", "count", "--max-running"),
    ("limits", "question_chars", "count", "--max-question"),
    ("limits", "upload_bytes", "bytes", "--upload-quota"),
    ("retention", "days", "days", "--keep-days"),
    ("retention", "max_sessions", "count", "--keep-sessions"),
    ("retention", "max_bytes", "bytes", "--keep-mb"),
)
"""Part of the settings, field, unit, option of `ragkit serve`."""


async def require_owner() -> None:
    """Raises RequestRejected for all but owners."""
    require_owner_role()


router = APIRouter(dependencies=[Depends(require_owner)])
UserName = Annotated[str, Path(max_length=100, description="The name of a user.")]
TokenName = Annotated[str, Path(max_length=100, description="The name of a token of the user.")]


@router.get("/access", response_model=AccessSchema)
async def get_access(context: ContextDep) -> Any:
    """List the users with their tokens, and the rules. For owners."""
    settings = await run_in_thread(context.kb.location.access.read)
    return {
        "you": _own_name(),
        "open": _is_open(),
        "users": [_user_json(user) for user in settings.users],
        "rules": [{"path": rule.path, "allow": list(rule.allow)} for rule in settings.rules],
        "default": settings.default,
    }


@router.post("/access/users", response_model=NewTokenSchema)
async def add_user(context: ContextDep, body: AddUserBody) -> Any:
    """Add a user, and create their first token, which is shown once. For owners.

    From the first user on, every request needs a token. So the first one must be an owner, unless the server has a
    token of its own.
    """
    text, token = _create_token(FIRST_NAME, body.expires)
    groups = tuple(dict.fromkeys(map(check_name, body.groups)))
    added = User(check_name(body.user), groups, body.role, (token,))

    def add(settings: AccessSettings) -> AccessSettings:
        if settings.find_user(added.name) is not None:
            raise invalid_request(f"there is a user {added.name!r}: choose another name", "user", "name_taken", 409)
        return settings.with_user(added)

    await _change(context, add, f"added {added.name} as {added.role}")
    return {"user": _user_json(added), "token": text}


@router.patch("/access/users/{user}", response_model=AccessUserSchema)
async def change_user(context: ContextDep, user: UserName, body: ChangeUserBody) -> Any:
    """Change the role and the groups of a user; it holds at once. For owners."""
    groups = None if body.groups is None else tuple(dict.fromkeys(map(check_name, body.groups)))

    def change(settings: AccessSettings) -> AccessSettings:
        old = _find_user(settings, user)
        return settings.with_user(
            replace(old, role=body.role or old.role, groups=old.groups if groups is None else groups)
        )

    return _user_json(_find_user(await _change(context, change, f"changed {user}"), user))


@router.delete("/access/users/{user}", response_model=AccessSchema)
async def delete_user(context: ContextDep, user: UserName) -> Any:
    """Remove a user with all tokens; it holds at once. Their conversations stay until they expire. For owners."""

    def remove(settings: AccessSettings) -> AccessSettings:
        return settings.without_user(_find_user(settings, user).name)

    await _change(context, remove, f"removed {user}")
    return await get_access(context)


@router.post("/access/users/{user}/tokens", response_model=NewTokenSchema)
async def add_token(context: ContextDep, user: UserName, body: AddTokenBody) -> Any:
    """Create a further token of a user, which is shown once. For owners."""
    text, token = _create_token(body.name, body.expires)

    def add(settings: AccessSettings) -> AccessSettings:
        old = _find_user(settings, user)
        if any(other.name == token.name for other in old.tokens):
            message = f"{user} has a token {token.name!r}: choose another name"
            raise invalid_request(message, "name", "name_taken", 409)
        return settings.with_user(replace(old, tokens=(*old.tokens, token)))

    settings = await _change(context, add, f"created the token {token.name} of {user}")
    return {"user": _user_json(_find_user(settings, user)), "token": text}


@router.delete("/access/users/{user}/tokens/{name}", response_model=AccessUserSchema)
async def delete_token(context: ContextDep, user: UserName, name: TokenName) -> Any:
    """Revoke one token of a user; it holds at once. For owners."""

    def remove(settings: AccessSettings) -> AccessSettings:
        old = _find_user(settings, user)
        kept = tuple(token for token in old.tokens if token.name != name)
        if len(kept) == len(old.tokens):
            raise not_found("token", "token_not_found")
        return settings.with_user(replace(old, tokens=kept))

    return _user_json(_find_user(await _change(context, remove, f"revoked the token {name} of {user}"), user))


@router.get("/settings", response_model=SettingsSchema)
async def get_settings(context: ContextDep) -> Any:
    """Show what the server was started with: model, which variables hold keys, limits. For owners; no key is shown."""
    settings, answer = context.settings, context.kb.pipeline.answer
    keys: list[JsonObject] = [
        {"service": service, "variables": list(names), "set": next(filter(os.environ.get, names), None)}
        for service, names in KEY_VARIABLES.items()
    ]
    limits: list[JsonObject] = [
        {"name": name, "value": getattr(getattr(settings, part), name), "unit": unit, "option": option}
        for part, name, unit, option in LIMITS
    ]
    return {
        "version": __version__,
        "model": await run_in_thread(partial(_default_model, context)),
        "models": [name for name in settings.models[1:] if name != answer.provider],
        "pipeline": context.kb.pipeline.name,
        "embedder": context.embedder_name,
        "keys": keys,
        "limits": limits,
        "bases": list(context.bases),
    }


def _default_model(context: AppContext) -> str:
    """`provider:model` of what answers if a request names no model."""
    name = context.models[DEFAULT_MODEL] or context.kb.pipeline.answer.provider
    provider = resolve_answer_provider(name, context.kb)
    model = model_name(name) or provider.default_model
    return provider.name if model in ("", provider.name) else f"{provider.name}:{model}"


async def _change(context: AppContext, change: Callable[[AccessSettings], AccessSettings], done: str) -> AccessSettings:
    """Change the users, if an owner is left who can do so again. Raises RequestRejected."""
    if _is_open() and len(context.bases) > 1:
        message = "a user reaches one knowledge base only: start the server with RAGKIT_SERVER_TOKEN first"
        raise invalid_request(message, "user", "token_required", 409)

    def change_checked(settings: AccessSettings) -> AccessSettings:
        _require_still_owner(settings)
        changed = change(settings)
        _require_owner_left(context, changed)
        return changed

    try:
        settings = await run_in_thread(partial(context.kb.location.access.update, change_checked))
    except KnowledgeBaseLocked as error:  # the first user is noted in the index
        raise service_unavailable("documents are being indexed: try again when that has ended") from error
    principal = CURRENT.get()
    who = "" if principal is None else principal.name
    LOG.info("%s %s", who, done, extra={"user": who, "kb": context.name})
    return settings


def _require_still_owner(settings: AccessSettings) -> None:
    """Raises RequestRejected if the user who asks was removed, or lost the role, since the request began."""
    name = _own_name()
    if name:
        user = settings.find_user(name)
        if user is None or user.role != "owner":
            raise access_revoked("the role owner of this user was revoked")


def _require_owner_left(context: AppContext, settings: AccessSettings) -> None:
    """Raises RequestRejected if nobody could change users over HTTP any more, or everyone could."""
    server = context.settings
    if server.tokens:
        return
    owners = (user for user in settings.users if user.role == "owner")
    if not any(server.proxy_secret or any(not token.has_expired for token in user.tokens) for user in owners):
        message = (
            "an owner with a valid token must be left, who can change users:"
            " add one first, or start the server with RAGKIT_SERVER_TOKEN"
        )
        raise invalid_request(message, "role", "last_owner", 409)


def _create_token(name: str, expires: str | None) -> tuple[str, Token]:
    return create_token(name, parse_lifetime(expires) if expires else None)


def _find_user(settings: AccessSettings, name: str) -> User:
    """A user. Raises RequestRejected."""
    user = settings.find_user(name)
    if user is None:
        raise not_found("user", "user_not_found")
    return user


def _own_name() -> str:
    """The name of the user who asks; empty for others."""
    principal = CURRENT.get()
    if principal is None or principal.base is None:
        return ""
    return principal.holder.removeprefix("user:")


def _is_open() -> bool:
    """Whether the server requires no token."""
    principal = CURRENT.get()
    return principal is not None and principal.name == "local"


def _user_json(user: User) -> JsonObject:
    tokens: list[JsonObject] = [
        {"name": token.name, "created": format_instant(token.created), "expires": format_instant(token.expires),
         "expired": token.has_expired}
        for token in user.tokens
    ]  # fmt: skip
    return {"user": user.name, "role": user.role, "groups": list(user.groups), "tokens": tokens}
