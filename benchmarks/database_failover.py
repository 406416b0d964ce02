"""Kill the primary of a replicated PostgreSQL while a server works, promote the standby, and count what was lost.

    python -m benchmarks.database_failover [--asynchronous]

A client asks questions in sessions and uploads documents all the time, and notes what the server acknowledged. The
primary is ended at once, as by a power failure, and the standby is promoted after PROMOTE_SECONDS. Then every
acknowledged answer and document must be there. With `--asynchronous` the primary does not wait for the standby: what
it acknowledged last may be lost, which the output says.
"""

from __future__ import annotations

import argparse
import json
import pwd
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx2
import psycopg

from ragkit import __version__
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.parts import process
from tests.servers.postgres import Postgres

RUN_SECONDS = 10.0
"""How long the client works before and after the failure."""
PROMOTE_SECONDS = 3.0
"""How long after the failure the standby is promoted."""
LIMIT_SECONDS = 120.0


class Standby:
    """A copy of a server that follows it, in a directory of its own."""

    def __init__(self, primary: Postgres, folder: Path) -> None:
        self.host = folder / "standby"
        host = primary.dsn.split("host=")[1]
        self._user = Path(host).owner()
        pid = (Path(host) / "postmaster.pid").read_text().split()[0]
        self._programs = Path(f"/proc/{pid}/exe").resolve().parent
        self._run(
            "pg_basebackup", "-h", host, "-U", "postgres", "-D", str(self.host), "-R", "-X", "stream", "-c", "fast"
        )
        (self.host / ".s.PGSQL.5432.lock").unlink()  # of the primary
        options = f'-h "" -k {self.host}'
        self._run("pg_ctl", "-D", str(self.host), "-w", "-l", str(self.host / "log"), "-o", options, "start")

    def promote(self) -> None:
        """Make it the primary."""
        self._run("pg_ctl", "-D", str(self.host), "-w", "promote")

    def stop(self) -> None:
        """End it."""
        self._run("pg_ctl", "-D", str(self.host), "-m", "immediate", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        user = self._user if pwd.getpwnam(self._user).pw_uid else None
        subprocess.run(command, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")


class Client(threading.Thread):
    """Asks and uploads until it is stopped, and notes what was acknowledged, and when."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.stop = url, threading.Event()
        self.answers: dict[str, int] = {}
        """Session -> answers."""
        self.uploads: list[str] = []
        self.times: dict[str, list[float]] = {"answer": [], "upload": [], "search": [], "health": []}
        self.refused = 0

    def run(self) -> None:
        number = 0
        session: str | None = None
        while not self.stop.is_set():
            number += 1
            with suppress(httpx2.HTTPError):
                self._note("health", httpx2.get(f"{self.url}/health", timeout=5))
                found = httpx2.post(f"{self.url}/v1/search", json={"query": "lamp"}, timeout=30)
                self._note("search", found)
                body = {"message": "Where is the lamp?", **({"session_id": session} if session else {})}
                asked = httpx2.post(f"{self.url}/chat", json=body, timeout=60)
                if self._note("answer", asked):
                    session = str(asked.json()["session_id"]) if number % 10 else None
                    key = str(asked.json()["session_id"])
                    self.answers[key] = self.answers.get(key, 0) + 1
                elif asked.status_code != 503:
                    session = None
                name = f"note{number}.md"
                text = f"# Note {number}\n\nThe lamp of note {number} is green.\n"
                sent = httpx2.post(f"{self.url}/documents?name={name}", content=text.encode(), timeout=60)
                if self._note("upload", sent):
                    self.uploads.append(name)
            time.sleep(0.1)

    def _note(self, kind: str, response: httpx2.Response) -> bool:
        if response.status_code == 200:
            self.times[kind].append(time.monotonic())
        else:
            self.refused += 1
        return response.status_code == 200


def first_after(times: list[float], moment: float) -> float:
    """Seconds until the first success after a moment."""
    return round(min((one for one in times if one > moment), default=float("inf")) - moment, 1)


def main() -> None:
    """Run once and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asynchronous", action="store_true", help="the primary does not wait for the standby")
    asynchronous = parser.parse_args().asynchronous
    primary = Postgres(durable=True)
    primary.start()
    with tempfile.TemporaryDirectory(prefix="ragkit-failover-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o777)
        standby = Standby(primary, folder)
        try:
            result = measure(primary, standby, folder, asynchronous=asynchronous)
        finally:
            standby.stop()
            primary.stop()
    print(json.dumps(result, indent=2))


def measure(primary: Postgres, standby: Standby, folder: Path, *, asynchronous: bool) -> dict[str, object]:
    """Kill, promote, compare."""
    with psycopg.connect(primary.dsn, autocommit=True) as connection:
        if not asynchronous:  # after the copy was made: the standby itself has nobody to wait for
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        version = connection.info.server_version // 10_000
    host = primary.dsn.split("host=")[1]
    address = f"postgresql://postgres@/postgres?host={host},{standby.host}&target_session_attrs=read-write&schema=house"
    (folder / "a.md").write_text("# Lamp\n\nThe lamp is in the hall.\n")
    environment = {"RAGKIT_CACHE": str(folder / "cache")}
    with KnowledgeBase.open(address, Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.index(folder / "a.md")
    with process(folder / "kb", env=environment, place=address) as server:
        client = Client(server.url)
        client.start()
        time.sleep(RUN_SECONDS)
        killed = time.monotonic()
        primary.crash()
        time.sleep(PROMOTE_SECONDS)
        standby.promote()
        promoted = time.monotonic()
        while not all(any(one > promoted for one in times) for times in client.times.values()):
            if time.monotonic() - promoted > LIMIT_SECONDS:
                break
            time.sleep(0.2)
        time.sleep(RUN_SECONDS)
        client.stop.set()
        client.join()
        if server.process.poll() is not None:
            raise RuntimeError(f"the server ended with {server.process.poll()}: {server.log.decode()[-3000:]}")
        while any(job["status"] in ("queued", "running") for job in get(server.url, "/jobs?limit=100")["jobs"]):
            time.sleep(0.5)
        jobs_done = time.monotonic()
        lost_answers = sum(max(0, wanted - count_answers(server.url, one)) for one, wanted in client.answers.items())
        lost_uploads = [name for name in client.uploads if not get(server.url, f"/documents?q=/{name}")["documents"]]
        statuses: dict[str, int] = {}
        for job in get(server.url, "/jobs?limit=100")["jobs"]:
            statuses[job["status"]] = statuses.get(job["status"], 0) + 1
    return {
        "ragkit": __version__,
        "postgresql": version,
        "replication": "asynchronous" if asynchronous else "synchronous",
        "acknowledged": {"answers": sum(client.answers.values()), "uploads": len(client.uploads)},
        "lost": {"answers": lost_answers, "uploads": len(lost_uploads)},
        "refused_requests": client.refused,
        "seconds_from_promotion_to": {kind: first_after(times, promoted) for kind, times in client.times.items()},
        "seconds_from_kill_to_promotion": round(promoted - killed, 1),
        "seconds_from_last_request_to_all_jobs_done": round(jobs_done - promoted, 1),
        "jobs": statuses,
    }


def get(url: str, path: str) -> dict[str, list[dict[str, str]]]:
    """A response as JSON."""
    found: dict[str, list[dict[str, str]]] = httpx2.get(f"{url}{path}", timeout=60).json()
    return found


def count_answers(url: str, session: str) -> int:
    """The complete answers of a session."""
    history = get(url, f"/session/{session}").get("history", [])
    return sum(message["role"] == "assistant" and message["status"] == "done" for message in history)


if __name__ == "__main__":
    main()
