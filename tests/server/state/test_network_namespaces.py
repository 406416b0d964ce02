"""Two servers in network namespaces of their own and a database: the kernel breaks the links between them.

RAGKIT_LINK_ROUNDS=300 breaks so many. It needs root and `ip`, of the package iproute2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.parts import process
from tests.server.state.link_trials import HASHING, ROUNDS, Machine, Trial, eventually
from tests.servers.namespaces import FAULTS, Namespace
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.slow
TOKEN = "only-for-these-links"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    """Two servers, each in a namespace, and a PostgreSQL that listens at the other ends of their links."""
    (tmp_path / "a.md").write_text("# Hedge\n\nThe hedge is cut in August.\n")
    with ExitStack() as stack:
        namespaces = [stack.enter_context(Namespace(number)) for number in (1, 2)]
        database = Postgres()
        stack.callback(database.stop)
        database.start()
        database.listen([namespace.database_address for namespace in namespaces])
        with KnowledgeBase.open(database.dsn, Pipeline.from_yaml(HASHING)) as kb:
            kb.index(tmp_path / "a.md")
        found = []
        for namespace in namespaces:
            place = f"postgresql://postgres@{namespace.database_address}/postgres?lease=6&statement_timeout=5"
            env = {"RAGKIT_CACHE": str(tmp_path / namespace.name), "RAGKIT_SERVER_TOKEN": TOKEN}
            options = ("--host", namespace.address)
            server = process(tmp_path / namespace.name, *options, place=place, env=env, prefix=namespace.prefix)
            found.append(Machine(stack.enter_context(server), namespace, headers={"Authorization": f"Bearer {TOKEN}"}))
        yield found
        for machine in found:
            machine.link.set_fault("")


def test_a_machine_without_a_network_frees_its_jobs_and_sessions(machines: list[Machine]) -> None:
    one, two = machines
    session = one.ask(None)
    assert one.upload("n.md", "# Pump\n\nThe pump runs on oil.\n").status_code == 200
    one.link.set_fault("down")
    one.server.kill()  # no packet tells of its end
    assert two.upload("m.md", "# Saw\n\nThe saw hangs on a nail.\n").status_code == 200
    eventually(lambda: two.finds("Where does the saw hang?", "nail"))
    eventually(lambda: two.ask(session) == session)


@pytest.mark.timeout(60 * ROUNDS + 240)
def test_everything_recovers_from_every_broken_network(
    machines: list[Machine], record_property: Callable[[str, object], None]
) -> None:
    record_property("figures", Trial(machines, FAULTS).run())
