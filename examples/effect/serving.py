# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inference server over HTTP and its clients, over the loopback interface.

`storm`: many clients connect while the server computes. Prints `seconds` until the last answer, and
`latency_ms` of each request from its connection on.
`stream`: a client reads an answer slower than the server computes it. Prints `age_ms`: the time from the
computation of each part to its arrival.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import selectors
import socket
import struct
import time

#: Seconds after the last client during which the server still computes and accepts no connection
COMPUTES = 0.2

#: Bytes of a part of a stream, about the logits of 32 Ki tokens of a vocabulary in 16 bits
PART = 1 << 16

#: Bytes/s that a slow client reads, and the size of its receive buffer
SLOW, BUFFER = 16 << 20, 1 << 18

HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n"

#: Seconds after which a run fails
PATIENCE = 60


def serve(server: socket.socket) -> None:
    """One worker, which answers one request after the other."""
    while True:
        peer = server.accept()[0]
        with peer:
            path = peer.recv(1000).split()[1:2]
            if path == [b"/compute"]:
                peer.recv(1)  # The storm is over.
                time.sleep(COMPUTES)
            try:
                peer.sendall(HEAD)
                while path == [b"/stream"]:
                    peer.sendall(struct.pack("d", time.monotonic()).ljust(PART))
            except OSError:
                pass  # The client has read enough.


def request(path: str) -> bytes:
    return f"GET {path} HTTP/1.0\r\n\r\n".encode()


def storm(port: int, clients: int) -> dict[str, object]:
    needed = clients + 100
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SystemExit(f"expected a hard limit of {needed} open files, got {hard}; use fewer --clients")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    with socket.create_connection(("127.0.0.1", port)) as busy, selectors.DefaultSelector() as waiting:
        busy.sendall(request("/compute"))
        begin = time.monotonic()
        for _client in range(clients):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            waiting.register(client, requested(client), time.monotonic())
        busy.close()
        latencies: list[float] = []
        while len(latencies) < clients:
            ready = waiting.select(PATIENCE)
            if not ready:
                raise SystemExit(f"{clients - len(latencies)} requests have no answer in {PATIENCE} s")
            for key, events in ready:
                latencies += answered(waiting, key, events)
        seconds = time.monotonic() - begin
    return {"seconds": seconds, "latency_ms": latencies}


def requested(client: socket.socket) -> int:
    """The event to wait for next. A client that is not connected yet sends its request later."""
    try:
        client.sendall(request("/"))
    except BlockingIOError:
        return selectors.EVENT_WRITE
    return selectors.EVENT_READ


def answered(waiting: selectors.BaseSelector, key: selectors.SelectorKey, events: int) -> list[float]:
    """Milliseconds of this request if it has its answer. A connected client sends its request."""
    client = key.fileobj
    assert isinstance(client, socket.socket)
    if events & selectors.EVENT_WRITE:
        waiting.modify(client, requested(client), key.data)
        return []
    if not client.recv(1000).startswith(HEAD[:12]):
        raise SystemExit("expected an answer with status 200")
    waiting.unregister(client)
    client.close()
    return [round(1000 * (time.monotonic() - key.data), 3)]


def stream(port: int, seconds: float) -> dict[str, object]:
    ages: list[float] = []
    with socket.socket() as client:
        # Before the connection: it decides about the window.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        client.connect(("127.0.0.1", port))
        client.sendall(request("/stream"))
        parts = client.makefile("rb")
        parts.read(len(HEAD))
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            (computed,) = struct.unpack("d", parts.read(PART)[:8])
            ages.append(round(1000 * (time.monotonic() - computed), 3))
            time.sleep(max(0.0, begin + len(ages) * PART / SLOW - time.monotonic()))
    # The first half fills the buffers.
    return {"age_ms": ages[len(ages) // 2 :]}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure an inference server.")
    parser.add_argument("load", choices=["storm", "stream"])
    parser.add_argument("--clients", type=int, default=5000, help="of the storm")
    parser.add_argument("--seconds", type=float, default=4.0, help="of the stream")
    given = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0), backlog=65535) as server:
        port = server.getsockname()[1]
        worker = multiprocessing.get_context("fork").Process(target=serve, args=(server,), daemon=True)
        worker.start()
        is_storm = given.load == "storm"
        result = storm(port, given.clients) if is_storm else stream(port, given.seconds)
        print(json.dumps(result))
        worker.terminate()


if __name__ == "__main__":
    main()
