# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that measure the effects. Each is a separate process and prints one number."""

from __future__ import annotations

import mmap
import resource
import select
import socket
import statistics
import sys
import threading
import time

PORT = 18700

#: Bytes of a burst: a collective sends at least this much between two steps
BURST = 1_000_000
#: Bursts that open the window and do not count, and bursts after a pause of this many seconds. TCP is idle
#: after a silence longer than its retransmission timeout, 200 ms at least (RFC 5681, 4.1).
WARM, COUNTED, IDLE = 4, 5, 1.0

#: Connections at once, more than the kernel's default of net.core.somaxconn, 4096, has room for
STORM = 6000
#: Seconds after the last of them during which the listening program is busy with other work
BUSY = 0.2

#: Bytes of memory that are touched for the first time
TOUCHED = 256 << 20
#: The best of this many passes, as in STREAM: for the first one, a hypervisor has to find memory, too
PASSES = 5


def serve_bursts(address: str) -> None:
    """Answer each burst with a byte, for one connection after the other."""
    with socket.create_server((address, PORT)) as server:
        print("ready", flush=True)
        while True:
            with server.accept()[0] as peer:
                left = BURST
                while True:
                    got = len(peer.recv(1 << 18))
                    if not got:
                        break
                    left -= got
                    if left == 0:
                        peer.sendall(b"1")
                        left = BURST


def bursts(address: str) -> float:
    """Milliseconds until a burst is answered, after a pause: the median."""
    with socket.create_connection((address, PORT)) as peer:
        for _number in range(WARM):
            _burst(peer)
        times = []
        for _number in range(COUNTED):
            time.sleep(IDLE)
            times.append(_burst(peer))
    return 1000 * statistics.median(times)


def _burst(peer: socket.socket) -> float:
    begin = time.perf_counter()
    peer.sendall(bytes(BURST))
    peer.recv(1)
    return time.perf_counter() - begin


def storm(address: str) -> float:
    """Seconds until the last of many connections that begin together is answered."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kept: list[socket.socket] = []
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, PORT))
        server.listen(65535)
        all_begun = threading.Event()
        threading.Thread(target=_accept, args=(server, kept, all_begun), daemon=True).start()
        begin = time.perf_counter()
        waiting = {one.fileno(): one for one in (_connecting(address) for _number in range(STORM))}
        all_begun.set()
        poll = select.epoll()
        for number in waiting:
            poll.register(number, select.EPOLLIN)
        left = {*waiting}
        while left:
            left -= {number for number, _event in poll.poll()}
            for number in {*waiting} - left:
                poll.unregister(number)
                waiting.pop(number).close()
    return time.perf_counter() - begin


def _connecting(address: str) -> socket.socket:
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex((address, PORT))
    return one


def _accept(server: socket.socket, kept: list[socket.socket], all_begun: threading.Event) -> None:
    all_begun.wait()
    time.sleep(BUSY)
    for _number in range(STORM):
        peer = server.accept()[0]
        peer.sendall(b"1")
        kept.append(peer)


def faults(asks: str) -> float:
    """GB/s of memory that is touched for the first time, by CPU time, which is nearly all the kernel's. asks:
    `yes` with madvise(2) for huge pages."""
    return max(_touched(asks == "yes") for _pass in range(PASSES))


def _touched(asks: bool) -> float:
    with mmap.mmap(-1, TOUCHED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if asks:
            memory.madvise(mmap.MADV_HUGEPAGE)
        with memoryview(memory) as view:
            ones = b"\1" * (TOUCHED // mmap.PAGESIZE)
            begin = time.process_time()
            view[:: mmap.PAGESIZE] = ones
            return TOUCHED / (time.process_time() - begin) / 1e9


if __name__ == "__main__":
    name, argument = sys.argv[1:]
    if name == "serve_bursts":
        serve_bursts(argument)
    print({"bursts": bursts, "storm": storm, "faults": faults}[name](argument))
