# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever stands in the place of a file, reading it neither blocks nor fills the memory."""

from __future__ import annotations

import errno
import os
import pathlib
import resource
import signal
import socket
import tempfile
from collections.abc import Iterator
from types import FrameType

import pytest
from mlnode.host import system
from mlnode.host.host import Host
from mlnode.model.errors import HostError

#: Below /etc, /proc and /sys: the rule is one
PLACES = ("/etc/default/grub", "/proc/interrupts", "/sys/class/net/eth0/mtu")

#: More than any disk of a test has
HUGE = 1 << 40


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    """A read that blocks ends here, and the test with it; a minute is for a machine that swaps."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> tuple[Host, str, pathlib.Path]:
    path: str = request.param
    real = tmp_path / path[1:]
    real.parent.mkdir(parents=True)
    return Host(str(tmp_path)), path, real


def test_a_fifo_is_no_file_and_does_not_block(place: tuple[Host, str, pathlib.Path]) -> None:
    host, path, real = place
    os.mkfifo(real)
    for ask in (host.read, host.content, host.text, host.snapshot):
        with pytest.raises(HostError, match=f"{path}: it is a FIFO and not a regular file") as caught:
            ask(path)
        assert not caught.value.absent
    assert host.value(path).unreadable


def test_a_fifo_with_a_writer_is_no_file_either(place: tuple[Host, str, pathlib.Path]) -> None:
    host, path, real = place
    os.mkfifo(real)
    handle = os.open(real, os.O_RDWR)
    os.write(handle, b"text")
    with pytest.raises(HostError, match="it is a FIFO"):
        host.read(path)
    os.close(handle)


def test_a_socket_is_not_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers ENXIO, as it does where a device is gone."""
    # The path of a socket is short, and that of a test is long.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/x")
        with pytest.raises(HostError, match="/x: it is a socket and not a regular file") as caught:
            Host(folder).read("/x")
        assert not caught.value.absent


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx"])
def test_a_device_is_no_file(tmp_path: pathlib.Path, device: str) -> None:
    with pytest.raises(HostError) as caught:
        system.contents(device, "/etc/x")
    words = "it is a character device and not a regular file"
    # Without a terminal there is no such device.
    assert caught.value.kernel == words or (device == "/dev/tty" and caught.value.errno == errno.ENXIO)


def test_a_file_that_is_masked_is_empty(tmp_path: pathlib.Path) -> None:
    assert system.contents("/dev/null", "/etc/sysctl.d/x.conf") == b""


def test_a_folder_says_that_it_is_one(tmp_path: pathlib.Path) -> None:
    with pytest.raises(HostError) as caught:
        Host(str(tmp_path)).read("/")
    assert caught.value.errno == errno.EISDIR


def test_a_file_without_an_end_costs_no_memory(place: tuple[Host, str, pathlib.Path]) -> None:
    host, path, real = place
    with real.open("wb") as stream:
        stream.truncate(HUGE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for ask in (host.read, host.content, host.text, host.snapshot):
        with pytest.raises(HostError, match="EFBIG") as caught:
            ask(path)
        assert not caught.value.absent
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10, "in KiB"


def test_a_file_that_does_not_tell_its_size_has_a_limit_too(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of /proc, of which one may grow while it is read."""

    class Endless:
        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        @staticmethod
        def read(_handle: int, size: int) -> bytes:
            return b"x" * size

    (tmp_path / "file").write_text("")
    monkeypatch.setattr(system, "os", Endless())
    monkeypatch.setattr(system, "KERNEL_LIMIT", 1 << 20)
    for path in ("/proc/file", "/etc/file"):
        with pytest.raises(HostError, match=f"cannot read {path}: EFBIG"):
            system.contents(str(tmp_path / "file"), path)


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 1 << 20])
def test_every_byte_of_a_file_is_read(tmp_path: pathlib.Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    assert Host(str(tmp_path)).read_bytes("/file") == content


def test_exactly_the_limit_is_read_and_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "LIMIT", 100_000)
    host = Host(str(tmp_path))
    host.write_file("/file", b"x" * 100_000)
    assert len(host.read_bytes("/file")) == 100_000
    with pytest.raises(HostError, match="cannot write /file: EFBIG"):
        host.write_file("/file", b"x" * 100_001)
    (tmp_path / "file").write_bytes(b"x" * 100_001)
    with pytest.raises(HostError, match="cannot read /file: EFBIG"):
        host.read_bytes("/file")


def test_a_fifo_in_place_of_a_kernel_file_takes_no_value(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "knob")
    with pytest.raises(HostError, match="cannot write '1' to /knob: ENXIO"):
        Host(str(tmp_path)).write_kernel("/knob", "1")


def test_a_file_of_proc_is_read_as_it_is() -> None:
    assert b"Name:" in Host("/").read_bytes("/proc/self/status")


def test_the_begin_of_a_kernel_file(tmp_path: pathlib.Path) -> None:
    host = Host(str(tmp_path))
    path = tmp_path / "proc" / "7" / "numa_maps"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 300_000)
    assert host.beginning("/proc/7/numa_maps", 1 << 20, 60) == (b"x" * 300_000, True)
    assert host.beginning("/proc/7/numa_maps", 100, 60) == (b"x" * 100, False)
    assert host.beginning("/proc/7/numa_maps", 1 << 20, 0) == (b"", False)
    with pytest.raises(HostError) as caught:
        host.beginning("/proc/8/numa_maps", 100, 60)
    assert caught.value.absent
