"""An S3 server some of whose requests go wrong: a proxy before moto that resets, hangs, cuts and loses answers."""

from __future__ import annotations

import http.client
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

FAULTS = ["slow down", "reset", "hang", "cut", "lost"]
REFUSALS = {"conflict": (409, "ConditionalRequestConflict"), "failed condition": (412, "PreconditionFailed")}
"""What a store says that has done nothing."""
SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
UNTOUCHED = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Proxy(ThreadingHTTPServer):
    """Passes requests on; `rate` of them go wrong, as the seed says."""

    daemon_threads = True

    def __init__(self, backend: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.backend = urlsplit(backend).netloc
        self.rate = 0.0
        self.held: re.Pattern[str] | None = None
        """Requests, such as `GET /bucket/name`, that are never answered."""
        self.is_holding = threading.Event()
        self.rule: Callable[[str], str | None] | None = None
        """Which fault a request such as `PUT /bucket/name` has: one of `FAULTS` or `REFUSALS`; "unconditional" if
        its condition is overlooked, "slow down, but done" if it is served and answered with an error.
        """
        self.random = random.Random(0)
        self.lock = threading.Lock()
        self.connections = 0
        self.in_flight = 0
        self.most = 0
        """The most requests in flight at a time."""
        self.requests: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def misbehave(self, rate: float, seed: int) -> None:
        """Sets how many requests go wrong, and forgets what was counted."""
        with self.lock:
            self.rate, self.random = rate, random.Random(seed)
            self.connections = self.most = 0
            self.requests.clear()
            self.faults.clear()

    def hold(self, requests: str | None) -> None:
        """Answers none that has this in it, until it is told otherwise."""
        self.is_holding.clear()
        self.held = None if requests is None else re.compile(requests)

    @contextmanager
    def counting(self) -> Iterator[None]:
        with self.lock:
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
        try:
            yield
        finally:
            with self.lock:
                self.in_flight -= 1

    def draw(self, method: str, path: str) -> str | None:
        with self.lock:
            self.requests[method] += 1
            if self.held is not None and self.held.search(f"{method} {unquote(path)}"):
                self.is_holding.set()
                return "hang"
            if self.rule is not None:
                return self.rule(f"{method} {unquote(path)}")
            if self.random.random() >= self.rate:
                return None
            fault = self.random.choice(FAULTS)
            self.faults[fault] += 1
            return fault

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        with self.lock:
            self.connections += 1
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def handle_error(self, request: object, client_address: object) -> None:  # type: ignore[override]
        """A connection that was reset is what is wanted."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def log_message(self, format: str, *args: object) -> None:
        pass

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def answer(self, status: int, headers: list[tuple[str, str]], length: int, body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], int, bytes]:
        backend = http.client.HTTPConnection(self.server.backend)
        try:
            backend.request(self.command, self.path, body, dict(self.headers.items()))
            found = backend.getresponse()
            headers = [(name, value) for name, value in found.getheaders() if name.lower() not in UNTOUCHED]
            content = found.read()
            length = int(found.getheader("Content-Length", len(content)))
            return found.status, headers, length, content
        finally:
            backend.close()

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.server.draw(self.command, self.path)
        if fault == "slow down":
            self.answer(503, [("Content-Type", "application/xml")], len(SLOW_DOWN), SLOW_DOWN)
        elif fault in REFUSALS:
            status, code = REFUSALS[fault]
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()
            self.answer(status, [("Content-Type", "application/xml")], len(text), text)
        elif fault == "reset":
            self.reset()
        elif fault == "hang":
            # Until the client gives up.
            self.connection.settimeout(30)
            self.connection.recv(1)
            self.reset()
        else:
            if fault == "unconditional":
                del self.headers["If-None-Match"]
            with self.server.counting():
                status, headers, length, content = self.pass_on(body)
            if fault == "slow down, but done":
                self.answer(503, [("Content-Type", "application/xml")], len(SLOW_DOWN), SLOW_DOWN)
            elif fault == "lost" or (fault == "cut" and not content):
                self.reset()
            elif fault == "cut":
                self.answer(status, headers, length, content[: len(content) // 2])
                self.reset()
            else:
                self.answer(status, headers, length, content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


@contextmanager
def running_proxy(backend: str) -> Iterator[Proxy]:
    proxy = Proxy(backend)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
