"""`ragkit access`: users, their tokens, and who may read which documents."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import click

from ragkit.cli.common import CliContext, with_common_options
from ragkit.errors import InvalidOption
from ragkit.index.access import AccessFile, AccessRule, Role, User, as_grants, check_name, check_principal, create_token
from ragkit.index.source_ids import display_name

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
    settings = _open(context).read()
    for user in settings.users:
        row = {"user": user.name, "role": user.role, "groups": [*user.groups], "tokens": len(user.tokens)}
        if context.json:
            context.write_json(row)
        else:
            groups = f"  groups: {', '.join(user.groups)}" if user.groups else ""
            context.write(f"{user.name}  {user.role}  tokens: {len(user.tokens)}{groups}")
    for rule in settings.rules:
        if context.json:
            context.write_json({"path": rule.path, "allow": [*rule.allow]})
        else:
            context.write(_format(rule))
    if not settings.users and not settings.rules:
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
    file = _open(context)
    settings = file.read()
    if path is not None:
        if groups or role:
            raise click.UsageError("--path says who may read: give --group and --role without it")
        if not path.strip("/"):
            raise InvalidOption("path", path, "a path or a pattern such as 'hr/**'")
        file.write(settings.with_rule(path, [check_principal(who)]))
        context.log(f"{check_principal(who)} may read {path}")
        return
    old = settings.find_user(check_name(who)) or User(who)
    token, digest = create_token()
    joined = tuple(dict.fromkeys((*old.groups, *map(check_name, groups))))
    user = replace(old, groups=joined, role=cast("Role", role or old.role), tokens=(*old.tokens, digest))
    file.write(settings.with_user(user))
    context.log(f"{who} is {user.role}" + (f" in {', '.join(joined)}" if joined else "") + "; the token, shown once:")
    if context.json:
        context.write_json({"user": who, "role": user.role, "groups": [*joined], "token": token})
    else:
        context.write(token)


@command.command()
@click.argument("who")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Only take the user out of this group.")
@click.option("--path", metavar="GLOB", help="Only take WHO from the rule of this path.")
@with_common_options
def revoke(context: CliContext, who: str, groups: tuple[str, ...], path: str | None) -> None:
    """Remove a user with all tokens, or a user from groups, or WHO from a rule. It holds at once."""
    file = _open(context)
    settings = file.read()
    if path is not None:
        name = check_principal(who)
        rule = next((rule for rule in settings.rules if rule.path == path), None)
        if rule is None or name not in rule.allow:
            raise InvalidOption("who", name, f"one that `ragkit access list` shows for {path}")
        file.write(settings.with_rule(path, remove=[name]))
        left = [other for other in rule.allow if other != name]
        context.log(f"{path}: {', '.join(left) or 'only owners'} may read it")
        return
    user = settings.find_user(who)
    if user is None:
        raise InvalidOption("user", who, f"one of: {', '.join(user.name for user in settings.users) or 'no users'}")
    if groups:
        if unknown := [group for group in groups if group not in user.groups]:
            raise InvalidOption("group", unknown[0], f"one of: {', '.join(user.groups) or 'no groups'}")
        left_groups = tuple(group for group in user.groups if group not in groups)
        file.write(settings.with_user(replace(user, groups=left_groups)))
    else:
        others = tuple(other for other in settings.users if other.name != who)
        file.write(replace(settings, users=others))
    context.log(f"revoked: {who}" + (f" from {', '.join(groups)}" if groups else ""))


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
        visible = {hit.chunk_id for hit in found}
        every = kb.search(question)
    hidden = list(dict.fromkeys(hit.source for hit in every if hit.chunk_id not in visible)) if not sees_all else []
    hidden = [source for source in hidden if source not in {hit.source for hit in found}]
    if context.json:
        sources = [display_name(source) for source in dict.fromkeys(hit.source for hit in found)]
        context.write_json({"user": user, "found": sources, "hidden": [display_name(source) for source in hidden]})
        return
    for source in dict.fromkeys(hit.source for hit in found):
        context.write(f"finds   {display_name(source)}")
    for source in hidden:
        context.write(f"hidden  {display_name(source)}")


def _open(context: CliContext) -> AccessFile:
    """The users and rules of the knowledge base. Raises NotAKnowledgeBase."""
    if context.address:
        raise InvalidOption("kb", context.place, "a directory: users and rules are kept beside its catalog")
    with context.open_knowledge_base() as kb:
        kb.require_exists()
        return kb.access


def _format(rule: AccessRule) -> str:
    return f"{rule.path}  may be read by: {', '.join(rule.allow) or 'owners only'}"
