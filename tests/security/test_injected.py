"""The effects of 162 hostile documents on an obedient model, with and without ragkit's defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.policy import ToolPolicy
from tests.security.injected import DEEDS, DISGUISES, Attack, Damage, attacks, default_agent, unprotected_agent

NO_DAMAGE = Damage(called=False, rendered=False, loads=False)
CALLS = ("mail", "file", "fetch")
ONLY_SEARCH = AgentConfig(text_tool_calls=False, policy=ToolPolicy(allow=["search_knowledge_base"], default="deny"))


def folder_of(attack: Attack, tmp_path: Path) -> Path:
    folder = tmp_path / f"{attack.action}-{attack.disguise}-{attack.place}".replace(" ", "-")
    folder.mkdir()
    attack.write(folder)
    return folder


def test_there_are_more_than_a_hundred_attacks() -> None:
    assert len(attacks()) == 162


@pytest.mark.parametrize("disguise", DISGUISES)
def test_an_unprotected_agent_follows_the_attacks(tmp_path: Path, disguise: str) -> None:
    """Validates the attacks: an attack without effect on the unprotected agent would prove nothing."""
    for deed in DEEDS:
        actual = unprotected_agent(folder_of(Attack(deed, disguise, "text"), tmp_path))
        expected = Damage(called=deed in CALLS, rendered=deed not in CALLS, loads=deed in ("image", "reference"))
        assert actual == expected, deed


def test_no_attack_succeeds_against_the_default_agent(tmp_path: Path) -> None:
    harmed = {
        attack: actual for attack in attacks() if (actual := default_agent(folder_of(attack, tmp_path))) != NO_DAMAGE
    }
    assert harmed == {}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_policy_blocks_attacks_on_added_tools(tmp_path: Path, disguise: str) -> None:
    for deed in CALLS:
        folder = folder_of(Attack(deed, disguise, "text"), tmp_path)
        assert default_agent(folder, more_tools=True, config=ONLY_SEARCH) == NO_DAMAGE


def test_without_a_policy_attacks_on_added_tools_succeed(tmp_path: Path) -> None:
    """As documented: marks alone do not stop an obedient model."""
    folder = folder_of(Attack("mail", "plain order", "text"), tmp_path)
    assert default_agent(folder, more_tools=True).called
