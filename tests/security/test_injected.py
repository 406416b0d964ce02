"""What 162 attacking documents make a fully obedient model do, with and without ragkit's defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.agent.config import AgentConfig
from ragkit.agent.policy import ToolPolicy
from tests.security.injected import DEEDS, DISGUISES, Attacked, Harm, attacks, by_default, careless

NONE = Harm(called=False, rendered=False, loads=False)
CALLS = ("mail", "file", "fetch")
ONLY_SEARCH = AgentConfig(text_tool_calls=False, policy=ToolPolicy(allow=["search_knowledge_base"], default="deny"))


def folder_of(attack: Attacked, tmp_path: Path) -> Path:
    folder = tmp_path / f"{attack.deed}-{attack.disguise}-{attack.place}".replace(" ", "-")
    folder.mkdir()
    attack.write(folder)
    return folder


def test_there_are_more_than_a_hundred_attacks() -> None:
    assert len(attacks()) == 162


@pytest.mark.parametrize("disguise", DISGUISES)
def test_an_unprotected_agent_follows_the_attacks(tmp_path: Path, disguise: str) -> None:
    """The measure itself: an attack that does nothing to the careless agent would prove nothing."""
    for deed in DEEDS:
        got = careless(folder_of(Attacked(deed, disguise, "text"), tmp_path))
        wanted = Harm(called=deed in CALLS, rendered=deed not in CALLS, loads=deed in ("image", "reference"))
        assert got == wanted, deed


def test_no_attack_succeeds_against_the_default_agent(tmp_path: Path) -> None:
    harmed = {attack: got for attack in attacks() if (got := by_default(folder_of(attack, tmp_path))) != NONE}
    assert harmed == {}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_policy_blocks_attacks_on_added_tools(tmp_path: Path, disguise: str) -> None:
    for deed in CALLS:
        folder = folder_of(Attacked(deed, disguise, "text"), tmp_path)
        assert by_default(folder, more_tools=True, config=ONLY_SEARCH) == NONE


def test_without_a_policy_attacks_on_added_tools_succeed(tmp_path: Path) -> None:
    """Said plainly in the documentation: marks alone stop no model that obeys everything."""
    folder = folder_of(Attacked("mail", "plain order", "text"), tmp_path)
    assert by_default(folder, more_tools=True).called
