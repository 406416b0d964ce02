"""`ragkit access`: users, their tokens, and who may read which documents."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import click

from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.errors import InvalidOption
from ragkit.index.access.audit import audit_access
from ragkit.index.access.rules import AccessRule, AccessSettings, Role, User, as_grants, check_name, check_principal
from ragkit.index.access.stores import Change
from ragkit.index.access.tokens import FIRST_NAME, Token, create_token, format_day, format_instant, parse_lifetime
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.read_side import ReadingPrincipal
from ragkit.records import JSON

ROLES = ("reader", "editor", "owner")


@click.group()
def command() -> None:
    """Say who may read what: users with tokens and groups, and rules by path.

    \b
        ragkit access grant alice --group hr
        ragkit access grant group:hr --path 'hr/**'
        ragkit access test alice "What is the notice period?"
        ragkit access grant alice --token laptop --expires 30d
        ragkit access revoke alice --token laptop
        ragkit access revoke alice
    """


@command.command(name="list")
@with_common_options
def list_access(context: CliContext) -> None:
    """List the users and the rules. With --json, one JSON object per line."""
    with context.open_knowledge_base() as kb:
        settings = kb.location.access.read()
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
@click.option("--token", "token_name", metavar="NAME", help="Create a further token with this name.")
@click.option("--expires", metavar="TIME", help="How long the new token is valid: 12h, 30d, 8w. Default: for ever.")
@with_common_options
def grant(
    context: CliContext,
    who: str,
    groups: tuple[str, ...],
    role: str | None,
    path: str | None,
    token_name: str | None,
    expires: str | None,
) -> None:
    """Add a user, change their groups and role, or with --path let a user, group:NAME or everyone read a path.

    A new user gets a token, which is shown once. One who is known gets another one with --token only.
    """
    if path is not None:
        if groups or role or token_name or expires:
            raise click.UsageError("--path says who may read: give --group, --role, --token and --expires without it")
        if not path.strip("/"):
            raise InvalidOption("path", path, "a path or a pattern such as 'hr/**'")
        principal = check_principal(who)
        _change(context, lambda settings: settings.with_rule(path, [principal]))
        _report_matches(context, principal, AccessRule(path))
        return
    check_name(who)
    text, token = create_token(token_name or FIRST_NAME, parse_lifetime(expires) if expires else None)
    created = list[Token]()

    def add(settings: AccessSettings) -> AccessSettings:
        known = settings.find_user(who)
        created[:] = [token] if known is None or token_name else []
        old = known or User(who)
        if expires and not created:
            raise InvalidOption("expires", expires, f"with --token NAME: {who} is known, and gets no new token without")
        if created and any(other.name == token.name for other in old.tokens):
            raise InvalidOption("token", token.name, f"a new name: `ragkit access tokens {who}` lists those in use")
        joined = tuple(dict.fromkeys((*old.groups, *map(check_name, groups))))
        chosen = cast("Role", role or old.role)
        return settings.with_user(replace(old, groups=joined, role=chosen, tokens=(*old.tokens, *created)))

    user = _change(context, add).find_user(who) or User(who)
    line = f"{who} is {user.role}" + (f" in {', '.join(user.groups)}" if user.groups else "")
    until = f", valid until {format_day(token.expires)}" if token.expires else ""
    context.log(f"{line}; the token {token.name}{until}, shown once:" if created else line)
    if context.json:
        shown = text if created else None
        context.write_json({"user": who, "role": user.role, "groups": list[JSON](user.groups), "token": shown})
    elif created:
        context.write(text)


@command.command()
@click.argument("who", required=False)
@with_common_options
def tokens(context: CliContext, who: str | None) -> None:
    """List the tokens of all users, or of one: names and dates. With --json, one JSON object per line."""
    with context.open_knowledge_base() as kb:
        settings = kb.location.access.read()
    users = [user for user in settings.users if who in (None, user.name)]
    if who is not None and not users:
        raise _unknown_user(settings, who)
    for name, token in [(user.name, token) for user in users for token in user.tokens]:
        created, expires = format_day(token.created), format_day(token.expires)
        if context.json:
            times: dict[str, JSON] = {
                "created": format_instant(token.created), "expires": format_instant(token.expires)
            }  # fmt: skip
            context.write_json({"user": name, "token": token.name, **times, "expired": token.has_expired})
        else:
            end = "expired" if token.has_expired else "expires"
            context.write(f"{name}  {token.name}  created {created}  {end} {expires}")


@command.command()
@click.argument("who")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Only take the user out of this group.")
@click.option("--path", metavar="GLOB", help="Only take WHO from the rule of this path.")
@click.option("--token", "token_name", metavar="NAME", help="Only revoke this token of the user.")
@with_common_options
def revoke(context: CliContext, who: str, groups: tuple[str, ...], path: str | None, token_name: str | None) -> None:
    """Remove a user with all tokens, or one token, or a user from groups, or WHO from a rule. It holds at once."""
    if token_name and (groups or path is not None):
        raise click.UsageError("give --token without --group and --path")
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
            raise _unknown_user(settings, who)
        if token_name:
            kept_tokens = tuple(token for token in user.tokens if token.name != token_name)
            if len(kept_tokens) == len(user.tokens):
                names = ", ".join(token.name for token in user.tokens)
                raise InvalidOption("token", token_name, f"one of: {names or 'no tokens'}")
            return settings.with_user(replace(user, tokens=kept_tokens))
        if unknown := [group for group in groups if group not in user.groups]:
            raise InvalidOption("group", unknown[0], f"one of: {', '.join(user.groups) or 'no groups'}")
        if groups:
            kept = tuple(group for group in user.groups if group not in groups)
            return settings.with_user(replace(user, groups=kept))
        return settings.without_user(who)

    _change(context, remove)
    if path is not None:
        context.log(f"{path}: {', '.join(left) or 'only owners'} may read it")
    else:
        of = f" from {', '.join(groups)}" if groups else f": the token {token_name}" if token_name else ""
        context.log(f"revoked: {who}{of}")


@command.command()
@with_common_options
def audit(context: CliContext) -> None:
    """List who may read each document, and why: its field, a rule, or the default. With --json, one object per line."""
    with context.open_knowledge_base() as kb:
        settings = kb.location.access.read()
        with kb.session() as session, session.snapshot() as snapshot:
            documents = list(audit_access(Catalog(snapshot.connection), settings))
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
        known = kb.location.access.read().find_user(check_name(user))
        if known is None and not groups:
            context.log(f"note: {user} has no token here: tested as a user without groups")
        grants = as_grants(user, (*(known.groups if known else ()), *groups))
        sees_all = known is not None and known.role == "owner"
        found = kb.as_user(ReadingPrincipal(lambda: None if sees_all else grants)).search(question)
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


def _unknown_user(settings: AccessSettings, who: str) -> InvalidOption:
    return InvalidOption("user", who, f"one of: {', '.join(user.name for user in settings.users) or 'no users'}")


def _change(context: CliContext, change: Change) -> AccessSettings:
    """Change the users and rules. Raises NotAKnowledgeBase."""
    with context.open_knowledge_base() as kb:
        return kb.location.access.update(change)


def _report_matches(context: CliContext, principal: str, rule: AccessRule) -> None:
    """Say how many documents a new rule matches."""
    with context.open_knowledge_base() as kb, kb.session() as session:
        sources = [source for source, _, _ in session.documents()]
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
