# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two network namespaces with a delay between them, and a rate.

A process between two tun interfaces makes the delay, because `tc netem` is not in every kernel. It needs a
core for some 20,000 packets a second, so rates stay low and packets large. tbf limits the rate.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from .measure import BenchError

NAMES = ("mlnode-bench-a", "mlnode-bench-b")
ADDRESSES = ("10.8.0.1", "10.8.0.2")

#: TUNSETIFF, IFF_TUN and IFF_NO_PI (linux/if_tun.h)
_TUNSETIFF, _FLAGS = 0x400454CA, 0x0001 | 0x1000

#: Packets that are taken before others are sent on
_AT_ONCE = 64


def run(*words: str) -> str:
    """Raises BenchError."""
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def inside(side: int, *words: str) -> list[str]:
    return ["ip", "netns", "exec", NAMES[side], *words]


def sysctl(values: Mapping[str, str]) -> None:
    """On both sides."""
    for side in (0, 1):
        run(*inside(side, "sysctl", "-q", "-w", *(f"{key}={value}" for key, value in values.items())))


@contextlib.contextmanager
def namespaces() -> Iterator[None]:
    try:
        for name in NAMES:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@contextlib.contextmanager
def joined(rtt_ms: int, mbit: int, mtu: int) -> Iterator[None]:
    """Namespaces with a round trip and a rate in each direction. The queue holds 50 ms."""
    with namespaces():
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, str(rtt_ms / 2)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as relay:
            try:
                assert relay.stdout is not None
                if not relay.stdout.readline():
                    raise BenchError("the process between the namespaces did not start")
                for name, address in zip(NAMES, ADDRESSES):
                    run("ip", "-n", name, "link", "set", "wan0", "mtu", str(mtu), "up")
                    run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "wan0")
                    limit = mbit * 1_000_000 // 8 // 20
                    shape = f"root tbf rate {mbit}mbit burst 64k limit {limit}"
                    run("tc", "-n", name, "qdisc", "replace", "dev", "wan0", *shape.split())
                yield
            finally:
                relay.kill()


# -- the process between them -----------------------------------------------------------------------


def _interface(namespace: str) -> int:
    """A descriptor of the interface wan0 in a namespace (setns(2), tun in the kernel's documentation)."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(other, 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        made = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(made, _TUNSETIFF, struct.pack("16sH22x", b"wan0", _FLAGS))
        libc.setns(own, 0)
    finally:
        os.close(own)
        os.close(other)
    return made


def relay(seconds: float, names: Sequence[str] = NAMES) -> None:
    """Pass packets from one interface to the other, each this many seconds later."""
    with contextlib.suppress(PermissionError):  # otherwise, other programs on this machine add to the delay
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    one, other = (_interface(name) for name in names)
    peer = {one: other, other: one}
    waiting: dict[int, collections.deque[tuple[float, bytes]]] = {end: collections.deque() for end in peer}
    poll = select.poll()
    for end in peer:
        poll.register(end, select.POLLIN)
    print("ready", flush=True)
    while True:
        due = min((line[0][0] for line in waiting.values() if line), default=None)
        for end, _event in poll.poll(None if due is None else max(0.0, due - time.monotonic()) * 1000):
            arrived = time.monotonic() + seconds
            with contextlib.suppress(BlockingIOError):
                for _number in range(_AT_ONCE):
                    waiting[end].append((arrived, os.read(end, 1 << 16)))
        now = time.monotonic()
        for end, line in waiting.items():
            while line and line[0][0] <= now:
                with contextlib.suppress(OSError):  # an interface that is not up yet
                    os.write(peer[end], line.popleft()[1])


if __name__ == "__main__":
    relay(float(sys.argv[1]) / 1000)
