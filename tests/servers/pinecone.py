"""A loopback server with Pinecone's API and limits, for tests with the official client.

It implements the wire format of the client (2026-07) for the operations of the store: indexes, upsert, query, fetch,
list, delete, stats. It applies the documented limits (1,000 vectors and 2 MB an upsert, ids of 512 bytes in ASCII, 40
KB of flat metadata without null, 1,000 ids a fetch or delete, 100 a page of a list, 10,000 results and 4 MB an answer)
and eventual consistency: reads, and later still counts, lag behind writes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers.pinecone_rules import RequestRejected, check_filter, check_vector, matches

MAX_UPSERT_VECTORS = 1_000
MAX_UPSERT_BYTES = 2 * 2**20
MAX_IDS = 1_000
MAX_TOP_K = 10_000
MAX_ANSWER_BYTES = 4 * 2**20
PAGE = 100
KEY = "a key for tests"

Vectors = dict[str, dict[str, Any]]
Answer = dict[str, Any]


@dataclass
class Namespace:
    """The visible vectors, and writes that are not visible yet."""

    seen: Vectors = field(default_factory=dict)
    waiting: list[tuple[float, Callable[[Vectors], None]]] = field(default_factory=list)
    counts: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])

    def write(self, change: Callable[[Vectors], None], delay: float) -> None:
        self.waiting.append((time.monotonic() + delay, change))

    def read(self, delay: float) -> Vectors:
        """The visible vectors."""
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            due, change = self.waiting.pop(0)
            change(self.seen)
            self.counts.append((due + delay, len(self.seen)))
        return self.seen

    def count(self, delay: float) -> int:
        """The number of vectors, with the delay of counts."""
        self.read(delay)
        return [n for due, n in self.counts if due <= time.monotonic()][-1]


@dataclass
class Index:
    """One index: its settings, and its namespaces."""

    name: str
    dimension: int
    metric: str
    namespaces: dict[str, Namespace] = field(default_factory=dict)


class State:
    """All indexes, and the behaviour of the server. Tests can change the behaviour at any time."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.indexes: dict[str, Index] = {}
        self.delay = 0.01
        """Seconds until a write is visible; twice as long for counts."""
        self.refusals = 0
        """Number of the next requests that get the status 429."""
        self.retry_after = "0.05"
        """The value of the retry-after header in seconds."""
        self.requests: list[str] = []
        """`METHOD path` of each request."""


class Handler(BaseHTTPRequestHandler):
    """Handles the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body of a response in one packet
    state: ClassVar[State]

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def handle(self) -> None:
        """Handle requests until the client disconnects; a killed client is not an error."""
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _answer(self, method: str) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        url = urlsplit(self.path)
        state = self.state
        with state.lock:
            state.requests.append(f"{method} {url.path}")
            try:
                self._admit()
                body = json.loads(raw) if raw else {}
                status, answer = 200, self._route(method, url.path, parse_qs(url.query), body, len(raw))
            except RequestRejected as refused:
                status, answer = refused.status, {"code": refused.code, "message": str(refused), "details": []}
        text = json.dumps(answer).encode()
        if status == 200 and len(text) > MAX_ANSWER_BYTES:
            status, text = 400, json.dumps({"code": 11, "message": "the answer is larger than 4 MB"}).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", state.retry_after)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.wfile.flush()

    def _admit(self) -> None:
        if self.headers.get("Api-Key") != KEY:
            raise RequestRejected(401, "Invalid API Key")
        if self.state.refusals:
            self.state.refusals -= 1
            raise RequestRejected(429, "Request rate limit exceeded")

    def _route(self, method: str, path: str, query: Mapping[str, list[str]], body: Answer, size: int) -> Answer:
        parts = [unquote(part) for part in path.split("/")[1:]]
        if parts[0] == "indexes":
            return self._control(method, parts[1:], body)
        index = self.state.indexes.get(parts[1]) if parts[0] == "of" else None
        if index is None:
            raise RequestRejected(404, "no such index")
        name = (body.get("namespace") or query.get("namespace", [""])[0]).replace("__default__", "")
        call = "/".join(parts[2:])
        if call == "vectors/upsert":
            return self._upsert(index, name, body["vectors"], size)
        if call == "describe_index_stats":
            return self._stats(index)
        if call == "vectors/delete" and name not in index.namespaces:
            raise RequestRejected(404, "Namespace not found", 5)
        space = index.namespaces.get(name, Namespace())
        seen = space.read(self.state.delay)
        answers: dict[str, Callable[[], Answer]] = {
            "query": lambda: self._query(index, seen, body),
            "vectors/fetch": lambda: self._fetch(seen, query.get("ids", [])),
            "vectors/list": lambda: self._list(seen, query),
            "vectors/delete": lambda: self._delete(space, body),
        }
        if call not in answers:
            raise RequestRejected(404, f"no such call: {call}")
        return answers[call]() | {"namespace": name}

    def _control(self, method: str, rest: list[str], body: Answer) -> Answer:
        indexes = self.state.indexes
        if method == "POST":
            rows = body["schema"]["fields"]["_values"]
            if body["name"] in indexes:
                raise RequestRejected(409, "Resource already exists", 6)
            if not body["name"].replace("-", "").isalnum() or body["name"] != body["name"].lower():
                raise RequestRejected(400, "Name must consist of lower case alphanumeric characters or '-'", 3)
            indexes[body["name"]] = Index(body["name"], rows["dimension"], rows["metric"])
            return self._index_json(indexes[body["name"]])
        if not rest:
            return {"indexes": [self._index_json(index) for index in indexes.values()]}
        if rest[0] not in indexes:
            raise RequestRejected(404, f"Resource {rest[0]} not found", 5)
        if method == "DELETE":
            del indexes[rest[0]]
            return {}
        return self._index_json(indexes[rest[0]])

    def _index_json(self, index: Index) -> Answer:
        rows = {"type": "dense_vector", "dimension": index.dimension, "metric": index.metric}
        return {
            "name": index.name,
            "host": f"http://{self.headers['Host']}/of/{index.name}",
            "schema": {"fields": {"_values": rows}},
            "deployment": {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"},
            "status": {"ready": True, "state": "Ready"},
            "deletion_protection": "disabled",
        }

    def _upsert(self, index: Index, name: str, vectors: list[dict[str, Any]], size: int) -> Answer:
        if len(vectors) > MAX_UPSERT_VECTORS:
            raise RequestRejected(400, f"{len(vectors)} vectors in an upsert, {MAX_UPSERT_VECTORS} are the most", 3)
        if size > MAX_UPSERT_BYTES:
            raise RequestRejected(413, f"{size} bytes in an upsert, {MAX_UPSERT_BYTES} are the most", 3)
        fresh = {vector["id"]: check_vector(vector, index.dimension) for vector in vectors}
        index.namespaces.setdefault(name, Namespace()).write(lambda seen: seen.update(fresh), self.state.delay)
        return {"upsertedCount": len(vectors)}

    def _delete(self, space: Namespace, body: Answer) -> Answer:
        if body.get("deleteAll"):
            space.write(lambda seen: seen.clear(), self.state.delay)
            return {}
        gone = self._ids(body["ids"])

        def remove(seen: Vectors) -> None:
            for item in gone:
                seen.pop(item, None)

        space.write(remove, self.state.delay)
        return {}

    def _fetch(self, seen: Vectors, ids: list[str]) -> Answer:
        return {"vectors": {item: seen[item] for item in self._ids(ids) if item in seen}, "usage": {"readUnits": 1}}

    def _ids(self, ids: list[str]) -> list[str]:
        if not 1 <= len(ids) <= MAX_IDS:
            raise RequestRejected(400, f"{len(ids)} ids, 1 to {MAX_IDS} are taken", 3)
        return ids

    def _query(self, index: Index, seen: Vectors, body: Answer) -> Answer:
        query, top_k = body["vector"], body["topK"]
        if len(query) != index.dimension:
            raise RequestRejected(
                400, f"Vector dimension {len(query)} does not match that of the index {index.dimension}", 3
            )
        if not 1 <= top_k <= MAX_TOP_K:
            raise RequestRejected(400, f"topK is {top_k}, 1 to {MAX_TOP_K} are taken", 3)
        where = check_filter(body.get("filter") or {})
        stored = [item for item in seen.values() if matches(where, item.get("metadata", {}))]
        scored = [(sum(x * y for x, y in zip(item["values"], query, strict=True)), item) for item in stored]
        scored.sort(key=lambda pair: -pair[0])
        return {
            "matches": [self._match(score, item, body) for score, item in scored[:top_k]],
            "usage": {"readUnits": 1},
        }

    def _match(self, score: float, one: dict[str, Any], body: Answer) -> Answer:
        match: Answer = {"id": one["id"], "score": score}
        if body.get("includeValues"):
            match["values"] = one["values"]
        if body.get("includeMetadata") and "metadata" in one:
            match["metadata"] = one["metadata"]
        return match

    def _list(self, seen: Vectors, query: Mapping[str, list[str]]) -> Answer:
        prefix, after = query.get("prefix", [""])[0], query.get("paginationToken", [""])[0]
        limit = int(query.get("limit", [str(PAGE)])[0])
        if not 1 <= limit <= PAGE:
            raise RequestRejected(400, f"limit is {limit}, 1 to {PAGE} are taken", 3)
        names = sorted(item for item in seen if item.startswith(prefix) and item > after)
        answer: Answer = {"vectors": [{"id": item} for item in names[:limit]], "usage": {"readUnits": 1}}
        if len(names) > limit:
            answer["pagination"] = {"next": names[limit - 1]}
        return answer

    def _stats(self, index: Index) -> Answer:
        counts = {name: space.count(self.state.delay) for name, space in index.namespaces.items()}
        named = {name or "__default__": {"vectorCount": n} for name, n in counts.items() if n}
        total = sum(counts.values())
        return {
            "namespaces": named,
            "dimension": index.dimension,
            "indexFullness": 0.0,
            "totalVectorCount": total,
            "metric": index.metric,
            "vectorType": "dense",
        }


class Pinecone:
    """The server on a free loopback port. It listens from construction on."""

    def __init__(self) -> None:
        self.state = State()
        handler = type("_Handler", (Handler,), {"state": self.state})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread: threading.Thread | None = None
        self._indexes = 0
        self.host = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.environment: Mapping[str, str] = {
            "RAGKIT_TEST_PINECONE_API_KEY": KEY,
            "RAGKIT_TEST_PINECONE_HOST": self.host,
        }

    def fresh(self) -> Mapping[str, str]:
        """Variables for one test, with its own index."""
        self._indexes += 1
        return {"RAGKIT_TEST_PINECONE_INDEX_NAME": f"ragkit-{self._indexes}"}

    def start(self) -> None:
        """See `Server.start`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """See `Server.stop`."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()
