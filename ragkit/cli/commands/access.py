"""`ragkit access`: users, their tokens, and who may read which documents."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import click

from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.errors import InvalidOption
from ragkit.index.access.rules import (
    AccessRule,
    AccessSettings,
    Role,
    User,
    as_grants,
    check_name,
    check_principal,
    create_token,
)
from ragkit.index.access.stores import Change
from ragkit.index.sources.ids import display_name
from ragkit.records import JSON

ROLES = ("reader", "editor", "owner")


@click.group()
def command() -> None:
    """Say who may read what: users with tokens and groups, and rules by path.

    \b
        ragkit access grant alice --group hr
        ragkit access grant group:hr --path 'hr/**'
        ragkit access test alice "What is the notice period?"
        ragkit access revoke alice
    """


@command.command(name="list")
@with_common_options
def list_access(context: CliContext) -> None:
    """List the users and the rules. With --json, one JSON object per line."""
    with context.open_knowledge_base() as kb:
        kb.require_exists()
        settings = kb.access.read()
    for user in settings.users:
        if context.json:
            groups_json = list[JSON](user.groups)
            tokens = len(user.tokens)
            context.write_json({"user": user.name, "role": user.role, "groups": groups_json, "tokens": tokens})
        else:
            groups = f"  groups: {', '.join(user.groups)}" if user.groups else ""
            context.write(f"{user.name}  {user.role}  tokens: {len(user.tokens)}{groups}")
    for rule in settings.rules:
        if context.json:
            context.write_json({"path": rule.path, "allow": list[JSON](rule.allow)})
        else:
            context.write(_format(rule))
    if settings.default != "open":
        default: dict[str, JSON] = {"default": settings.default}
        context.write_json(default) if context.json else context.write("without a field and a rule: owners only")
    elif not settings.users and not settings.rules:
        context.log("no users and no rules: everyone who reaches the knowledge base may read it")


@command.command()
@click.argument("who")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Group of the user; repeatable.")
@click.option("--role", type=click.Choice(ROLES), help="reader (default), editor (sources, uploads) or owner (all).")
@click.option("--path", metavar="GLOB", help="Let WHO read what lies below a path; those who are not named may not.")
@with_common_options
def grant(context: CliContext, who: str, groups: tuple[str, ...], role: str | None, path: str | None) -> None:
    """Create a token for a user, or with --path let a user, group:NAME or everyone read a path.

    The token is shown once; another `grant` adds another one, and adds groups.
    """
    if path is not None:
        if groups or role:
            raise click.UsageError("--path says who may read: give --group and --role without it")
        if not path.strip("/"):
            raise InvalidOption("path", path, "a path or a pattern such as 'hr/**'")
        principal = check_principal(who)
        _change(context, lambda settings: settings.with_rule(path, [principal]))
        _report_matches(context, principal, AccessRule(path))
        return
    check_name(who)
    token, digest = create_token()

    def add(settings: AccessSettings) -> AccessSettings:
        old = settings.find_user(who) or User(who)
        joined = tuple(dict.fromkeys((*old.groups, *map(check_name, groups))))
        chosen = cast("Role", role or old.role)
        return settings.with_user(replace(old, groups=joined, role=chosen, tokens=(*old.tokens, digest)))

    user = _change(context, add).find_user(who) or User(who)
    names = ", ".join(user.groups)
    context.log(f"{who} is {user.role}" + (f" in {names}" if names else "") + "; the token, shown once:")
    if context.json:
        context.write_json({"user": who, "role": user.role, "groups": list[JSON](user.groups), "token": token})
    else:
        context.write(token)


@command.command()
@click.argument("who")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Only take the user out of this group.")
@click.option("--path", metavar="GLOB", help="Only take WHO from the rule of this path.")
@with_common_options
def revoke(context: CliContext, who: str, groups: tuple[str, ...], path: str | None) -> None:
    """Remove a user with all tokens, or a user from groups, or WHO from a rule. It holds at once."""
    left: list[str] = []

    def remove(settings: AccessSettings) -> AccessSettings:
        if path is not None:
            name = check_principal(who)
            rule = next((rule for rule in settings.rules if rule.path == path), None)
            if rule is None or name not in rule.allow:
                raise InvalidOption("who", name, f"one that `ragkit access list` shows for {path}")
            left[:] = [other for other in rule.allow if other != name]
            return settings.with_rule(path, remove=[name])
        user = settings.find_user(who)
        if user is None:
            raise InvalidOption("user", who, f"one of: {', '.join(user.name for user in settings.users) or 'no users'}")
        if unknown := [group for group in groups if group not in user.groups]:
            raise InvalidOption("group", unknown[0], f"one of: {', '.join(user.groups) or 'no groups'}")
        if groups:
            kept = tuple(group for group in user.groups if group not in groups)
            return settings.with_user(replace(user, groups=kept))
        return replace(settings, users=tuple(other for other in settings.users if other.name != who))

    _change(context, remove)
    if path is not None:
        context.log(f"{path}: {', '.join(left) or 'only owners'} may read it")
    else:
        context.log(f"revoked: {who}" + (f" from {', '.join(groups)}" if groups else ""))


@command.command()
@with_common_options
def audit(context: CliContext) -> None:
    """List who may read each document, and why: its field, a rule, or the default. With --json, one object per line."""
    with context.open_knowledge_base() as kb:
        kb.require_exists()
        documents = kb.audit_access()
    for document in documents:
        source = display_name(document.source)
        if context.json:
            conditions = [{"allow": list[JSON](sorted(names)), "why": why} for names, why in document.conditions]
            users = list[JSON](document.users)
            context.write_json(
                {"source": source, "conditions": conditions, "users": users, "problem": document.problem}
            )
            continue
        parts = [f"{', '.join(sorted(names)) or 'owners only'} ({why})" for names, why in document.conditions]
        context.write(f"{source}  {' and '.join(parts) or 'everyone (no field, no rule)'}")
        if document.problem:
            context.write(f"    {document.problem}")


@command.command()
@click.argument("user")
@click.argument("question")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Groups of a user that a proxy names.")
@with_common_options
def test(context: CliContext, user: str, question: str, groups: tuple[str, ...]) -> None:
    """Show what a user finds for a question, and which better hits are hidden from them."""
    with context.open_knowledge_base() as kb:
        known = kb.access.read().find_user(check_name(user))
        if known is None and not groups:
            context.log(f"note: {user} has no token here: tested as a user without groups")
        grants = as_grants(user, (*(known.groups if known else ()), *groups))
        sees_all = known is not None and known.role == "owner"
        found = kb.restricted_by(lambda: None if sees_all else grants).search(question)
        visible = {hit.chunk.id for hit in found}
        every = kb.search(question)
    hidden = list(dict.fromkeys(hit.source for hit in every if hit.chunk.id not in visible)) if not sees_all else []
    hidden = [source for source in hidden if source not in {hit.source for hit in found}]
    if context.json:
        sources = [display_name(source) for source in dict.fromkeys(hit.source for hit in found)]
        context.write_json({"user": user, "found": sources, "hidden": [display_name(source) for source in hidden]})
        return
    for source in dict.fromkeys(hit.source for hit in found):
        context.write(f"finds   {display_name(source)}")
    for source in hidden:
        context.write(f"hidden  {display_name(source)}")


def _change(context: CliContext, change: Change) -> AccessSettings:
    """Change the users and rules. Raises NotAKnowledgeBase."""
    with context.open_knowledge_base() as kb:
        kb.require_exists()
        return kb.access.update(change)


def _report_matches(context: CliContext, principal: str, rule: AccessRule) -> None:
    """Say how many documents a new rule matches."""
    with context.open_knowledge_base() as kb:
        sources = [source for source, _, _ in kb.documents()]
    count = sum(map(rule.matches, sources))
    if context.json:
        context.write_json({"path": rule.path, "allow": principal, "documents": count})
    context.log(f"{principal} may read {rule.path} ({format_count(count, 'document')})")
    if not count:
        similar = sum(map(rule.matches_in_any_case, sources))
        hint = f": {format_count(similar, 'document')} would match in another case" if similar else ""
        context.log(f"warning: no document matches {rule.path}{hint}")


def _format(rule: AccessRule) -> str:
    return f"{rule.path}  may be read by: {', '.join(rule.allow) or 'owners only'}"
