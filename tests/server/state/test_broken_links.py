"""Two servers and a database, and every link between them breaks in every way.

RAGKIT_LINK_ROUNDS=300 breaks so many. `test_network_namespaces.py` does the same with the links of the kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.parts import process
from tests.server.state.link_trials import HASHING, ROUNDS, Machine, Trial, eventually
from tests.servers.link_proxy import FAULTS, LinkProxy


@pytest.fixture
def machines(tmp_path: Path, database_url: str) -> Iterator[list[Machine]]:
    """Two servers on one database, each over a link of its own."""
    url = DatabaseUrl.parse(database_url)
    (tmp_path / "a.md").write_text("# Hedge\n\nThe hedge is cut in August.\n")
    with KnowledgeBase.open(database_url, Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "a.md")
    host = str(psycopg.conninfo.conninfo_to_dict(url.dsn)["host"])
    with ExitStack() as stack:
        found = []
        for name in ("one", "two"):
            link = stack.enter_context(LinkProxy(Path(host) / ".s.PGSQL.5432"))
            place = f"postgresql://postgres@127.0.0.1:{link.port}/postgres?schema={url.schema}&lease=6"
            place += "&statement_timeout=5"
            env = {"RAGKIT_CACHE": str(tmp_path / name)}
            found.append(Machine(stack.enter_context(process(tmp_path / name, place=place, env=env)), link))
        yield found
        for machine in found:
            machine.link.set_fault("")
            # a server that ended by itself: its log says why
            assert machine.server.process.poll() is None, machine.server.log.decode()[-3000:]


def test_a_machine_that_vanishes_frees_its_jobs_and_sessions(machines: list[Machine]) -> None:
    one, two = machines
    session = one.post("/chat", json={"message": "When is the hedge cut?"}).json()["session_id"]
    assert one.upload("n.md", "# Pump\n\nThe pump runs on oil.\n").status_code == 200
    one.link.set_fault("stall")  # no packet leaves it, and none reaches it
    asking = threading.Thread(target=one.ask, args=(session,))
    asking.start()
    # refused, 503, while the machine that vanished still holds a lock of the database
    eventually(lambda: two.upload("m.md", "# Saw\n\nThe saw hangs on a nail.\n").status_code == 200)
    eventually(lambda: two.finds("Where does the saw hang?", "nail"))
    eventually(lambda: two.ask(session) == session)
    one.link.set_fault("")
    eventually(lambda: one.finds("Where does the saw hang?", "nail"))
    eventually(lambda: two.finds("What does the pump run on?", "oil"), 60)
    asking.join()


@pytest.mark.slow
@pytest.mark.timeout(60 * ROUNDS + 240)
def test_everything_recovers_from_every_broken_link(
    machines: list[Machine], record_property: Callable[[str, object], None]
) -> None:
    record_property("figures", Trial(machines, FAULTS).run())
