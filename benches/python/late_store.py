"""An S3 server that answers late and notes what it was asked, in a process of its own.

Started as `python late_store.py` it prints its address. `PUT /_late?milliseconds=30` sets the delay of each request
from then on and forgets what was noted; `GET /_late` gives the requests since, as JSON: method, path, bytes sent,
and when the request came and was answered.
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
CONTROL = "/_late"


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

    def delay(self, milliseconds: float) -> None:
        """Sets the delay and forgets what was noted."""
        self._control("PUT", f"?milliseconds={milliseconds}")

    def traffic(self) -> Traffic:
        """What was asked since the delay was set."""
        return Traffic.of(json.loads(self._control("GET")))


@contextmanager
def running() -> Iterator[LateServer]:
    """A server in another process, with the bucket [BUCKET][] in it."""
    import boto3

    command = [sys.executable, str(Path(__file__))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        server = LateServer(process.stdout.readline().strip())
        client = boto3.client(
            "s3",
            endpoint_url=server.endpoint,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )
        client.create_bucket(Bucket=BUCKET)
        yield server
    finally:
        process.kill()
        process.wait()


class Late:
    """WSGI: waits, lets the application answer, and notes both."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.application = application
        self.seconds = 0.0
        self.noted: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path == CONTROL:
            return self.control(method, environ.get("QUERY_STRING", ""), start_response)
        begin = time.monotonic()
        time.sleep(self.seconds)
        body = b"".join(self.application(environ, start_response))
        note = {"method": method, "path": path, "bytes": len(body), "begin": begin, "end": time.monotonic()}
        if method == "GET" and "list-type" in environ.get("QUERY_STRING", ""):
            note["method"] = "LIST"
        with self.lock:
            self.noted.append(note)
        return [body]

    def control(self, method: str, query: str, start_response: Callable[..., Any]) -> list[bytes]:
        with self.lock:
            noted = json.dumps(self.noted).encode()
            if method == "PUT":
                self.seconds = float(parse_qs(query)["milliseconds"][0]) / 1000
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
