# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A web server that does as it is told, and documents signed with OpenSSH."""

from __future__ import annotations

import http.server
import pathlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mlnode.agent import pull_document
from mlnode.agent.pull_document import Document
from mlnode.agent.registry import KINDS

NODE = "gpu001.example"


def key(path: pathlib.Path) -> str:
    """A new key at a path; its public one, as it stands in a file."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "a comment", "-f", str(path)]
    subprocess.run(words, check=True)
    return path.with_suffix(".pub").read_text(encoding="utf-8").strip()


def signed(content: bytes, path: pathlib.Path, namespace: str = pull_document.NAMESPACE) -> bytes:
    words = ["ssh-keygen", "-Y", "sign", "-f", str(path), "-n", namespace]
    done = subprocess.run(words, input=content, capture_output=True, check=True)
    return done.stdout + content


def declaration(areas: dict[str, Any], name: str = "node", **other: Any) -> dict[str, Any]:
    """As declare renders it."""
    return {
        "name": name,
        "on_unsupported": "warn",
        "fabric_type": "",
        "fail_at": "high",
        "layers": ["runtime", "boot"],
        "selected": [*KINDS],
        "ignore": [],
        "leave": False,
        "areas": areas,
        "profile": {},
        **other,
    }


def document(serial: int, *declarations: dict[str, Any], node: str = NODE) -> bytes:
    return pull_document.render(Document(node, serial, declarations))


class Site:
    """What it answers, and what it was sent. tag: of the next file, instead of one of its content."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.answers: dict[str, Callable[[http.server.BaseHTTPRequestHandler], None]] = {}
        self.asked: list[tuple[str, str]] = []
        self.posted: list[bytes] = []
        self.post_status = 204
        self.tag = ""
        self.url = ""

    def get(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self.asked.append((handler.path, handler.headers.get("If-None-Match", "")))
        if handler.path in self.answers:
            self.answers[handler.path](handler)
            return
        body = self.files.get(handler.path)
        if body is None:
            handler.send_error(404)
            return
        tag = self.tag or f'"{hash(body):x}"'
        if handler.headers.get("If-None-Match") == tag:
            handler.send_response(304)
            handler.end_headers()
            return
        handler.send_response(200)
        handler.send_header("ETag", tag)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def post(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self.posted.append(handler.rfile.read(int(handler.headers["Content-Length"])))
        handler.send_response(self.post_status)
        handler.end_headers()


def half(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.wfile.write(b"-----BEGIN SSH SIGNATURE-----\n")


def silent(_handler: http.server.BaseHTTPRequestHandler) -> None:
    time.sleep(1)


def dripping(handler: http.server.BaseHTTPRequestHandler) -> None:
    """A byte now and then, so that no single read waits for long."""
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
    for _ in range(50):
        handler.wfile.write(b"x")
        time.sleep(0.02)


def moved(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "http://127.0.0.1:1/")
    handler.end_headers()


def endless(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(bytes(pull_document.MOST + 10))


@contextmanager
def serving(wrap: Callable[[Any], Any] = lambda one: one, scheme: str = "http") -> Iterator[Site]:
    """A site on the loopback interface. wrap: the socket, as for TLS."""
    site = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.get(self)

        def do_POST(self) -> None:
            site.post(self)

        def log_message(self, *words: Any) -> None:
            del words

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # the client went away
                return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = wrap(server.socket)
    site.url = f"{scheme}://localhost:{server.server_address[1]}/mlnode"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
