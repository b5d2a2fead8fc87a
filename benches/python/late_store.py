"""An S3 server that answers late and notes what it was asked, in a process of its own.

Started as `python late_store.py` it prints its address. `PUT /_late?milliseconds=30&limit=0` sets the delay of each
request from then on and forgets what was noted; `GET /_late` gives the requests since, as JSON: method, path,
range, bytes sent, and when the request came and was answered.

Ranges of data files below [QUICK][] are answered from memory, because the server behind needs milliseconds of a
core for each; the first GET of a file must be signed. `limit=20` lets such an answer have at most 20 MB/s.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

BUCKET = "pennon-benches"
QUICK = "quick"
CONTROL = "/_late"
PART = 1 << 18


@dataclass(frozen=True)
class Traffic:
    """What a server was asked during one operation."""

    methods: dict[str, int]
    rounds: int
    """Requests that had to wait for one another: each belongs to the round after the last one that was answered
    before it came."""
    bytes: int
    """Bytes of the answers."""

    @property
    def requests(self) -> int:
        return sum(self.methods.values())

    @classmethod
    def of(cls, noted: list[dict[str, Any]]) -> Traffic:
        rounds: list[tuple[float, int]] = []
        for request in sorted(noted, key=lambda request: request["begin"]):
            before = [number for end, number in rounds if end <= request["begin"]]
            rounds.append((request["end"], 1 + max(before, default=0)))
        return cls(
            methods=dict(Counter(request["method"] for request in noted)),
            rounds=max((number for _, number in rounds), default=0),
            bytes=sum(request["bytes"] for request in noted),
        )


class LateServer:
    """The way to a server that runs elsewhere."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.storage_options = {
            "aws_endpoint": endpoint,
            "allow_http": "true",
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "aws_region": "us-east-1",
        }

    def _control(self, method: str, query: str = "") -> bytes:
        request = urllib.request.Request(f"{self.endpoint}{CONTROL}{query}", method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.read()

    def delay(self, milliseconds: float, limit: float = 0) -> None:
        """Sets the delay, and the most MB/s of a quick answer, and forgets what was noted."""
        self._control("PUT", f"?milliseconds={milliseconds}&limit={limit}")

    def client(self) -> Any:
        import boto3

        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
        return boto3.client("s3", endpoint_url=self.endpoint, **keys)

    def objects(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Keys and sizes of the objects below a prefix."""
        for page in self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix):
            for found in page.get("Contents", []):
                yield found["Key"], found["Size"]

    def traffic(self) -> Traffic:
        """What was asked since the delay was set."""
        return Traffic.of(json.loads(self._control("GET")))


@contextmanager
def running() -> Iterator[LateServer]:
    """A server in another process, with the bucket [BUCKET][] in it."""
    command = [sys.executable, str(Path(__file__))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        server = LateServer(process.stdout.readline().strip())
        server.client().create_bucket(Bucket=BUCKET)
        yield server
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Object:
    """The bytes and the headers of an object, without those that depend on a range."""

    headers: list[tuple[str, str]]
    body: bytes


class Late:
    """WSGI: waits, lets the application answer, and notes both."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.application = application
        self.seconds = 0.0
        self.limit = 0.0
        self.noted: list[dict[str, Any]] = []
        self.objects: dict[str, Object] = {}
        self.lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path == CONTROL:
            return self.control(method, environ.get("QUERY_STRING", ""), start_response)
        begin = time.monotonic()
        time.sleep(self.seconds)
        if path.startswith(f"/{BUCKET}/{QUICK}/") and path.endswith(".lance"):
            if method == "GET" and environ.get("HTTP_RANGE"):
                return self.from_memory(environ, start_response, begin)
            self.objects.pop(path, None)
        body = b"".join(self.application(environ, start_response))
        listing = method == "GET" and "list-type" in environ.get("QUERY_STRING", "")
        self.note("LIST" if listing else method, environ, len(body), begin)
        return [body]

    def note(self, method: str, environ: dict[str, Any], sent: int, begin: float) -> None:
        note = {
            "method": method,
            "path": environ["PATH_INFO"],
            "range": environ.get("HTTP_RANGE"),
            "bytes": sent,
            "begin": begin,
            "end": time.monotonic(),
        }
        with self.lock:
            self.noted.append(note)

    def from_memory(
        self, environ: dict[str, Any], start_response: Callable[..., Any], begin: float
    ) -> Iterator[bytes]:
        """The range of an object."""
        found = self.object(environ)
        size = len(found.body)
        first, _, last = environ["HTTP_RANGE"].removeprefix("bytes=").partition("-")
        start = int(first) if first else size - int(last)
        stop = min(size, int(last) + 1) if first and last else size
        range_ = [("Content-Length", str(stop - start)), ("Content-Range", f"bytes {start}-{stop - 1}/{size}")]
        start_response("206 Partial Content", [*found.headers, *range_])
        started = time.monotonic()
        for offset in range(start, stop, PART):
            if self.limit:
                time.sleep(max(0.0, started + (offset - start) / self.limit - time.monotonic()))
            yield found.body[offset : min(offset + PART, stop)]
        self.note("GET", environ, stop - start, begin)

    def object(self, environ: dict[str, Any]) -> Object:
        """What a request reads a range of."""
        path = environ["PATH_INFO"]
        if path not in self.objects:
            headers: list[tuple[str, str]] = []

            def keep(status: str, answered: list[tuple[str, str]], *_: object) -> None:
                assert status.startswith("200"), f"{path}: the server behind answered {status}"
                headers.extend((name, value) for name, value in answered if name.lower() != "content-length")

            complete = {name: value for name, value in environ.items() if name != "HTTP_RANGE"}
            self.objects[path] = Object(headers, b"".join(self.application(complete, keep)))
        return self.objects[path]

    def control(self, method: str, query: str, start_response: Callable[..., Any]) -> list[bytes]:
        with self.lock:
            noted = json.dumps(self.noted).encode()
            if method == "PUT":
                given = parse_qs(query)
                self.seconds = float(given["milliseconds"][0]) / 1000
                self.limit = float(given["limit"][0]) * 1e6
                self.noted = []
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(noted)))])
        return [noted]


def serve() -> None:
    """Serves until the process is killed."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class KeepAlive(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = Late(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=KeepAlive)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve()
