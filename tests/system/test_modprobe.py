# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modprobe would do, by its own word, and what the library reads in the same files. Nothing is loaded:
the modules are those of a folder, and none has code."""

from __future__ import annotations

import os
import pathlib
import struct
import subprocess

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.host.host import Host
from mlnode.linux import modules_load

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts over /proc/cmdline in a namespace")

RELEASE = "6.12.0"
FILE = "etc/modprobe.d/x.conf"


def module(name: str) -> bytes:
    """An object file with nothing but what modinfo(8) prints of it."""
    strings = b"\0.shstrtab\0.modinfo\0"
    info = f"license=GPL\0name={name}\0vermagic={RELEASE} \0".encode()
    body = info + strings
    padding = -len(body) % 8
    # elf(5): a relocatable of 64 bits with three sections, the first of which is empty
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(body) + padding, 0, 64, 0, 0, 64, 3, 1)
    table = bytes(64)
    table += struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64 + len(info), len(strings), 0, 0, 1, 0)
    table += struct.pack("<IIQQQQIIQQ", 11, 1, 2, 0, 64, len(info), 0, 0, 1, 0)
    return header + body + bytes(padding) + table


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    namespaces.need("modprobe", "kmod")
    root = tmp_path_factory.mktemp("kmod")
    folder = root / "lib/modules" / RELEASE / "kernel"
    for path in (folder, root / "etc/modprobe.d", root / "proc"):
        path.mkdir(parents=True)
    for name in ("tcp_bbr", "sch_fq"):
        (folder / f"{name}.ko").write_bytes(module(name))
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        (folder.parent / name).touch()
    namespaces.run("depmod", "-b", str(root), RELEASE)
    assert "kernel/tcp_bbr.ko:" in (folder.parent / "modules.dep").read_text()
    return root


def loads(root: pathlib.Path, *options: str) -> bool:
    """True if modprobe would load the module itself; a command of an install line runs, which loads none."""
    program = ["modprobe", "-n", "-v", *options, "-d", str(root), "-C", str(root / FILE), "-S", RELEASE]
    script = 'mount --bind "$0" /proc/cmdline && exec "$@"'
    outside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    command = [*outside, str(root / "proc/cmdline"), *program, "tcp_bbr"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return any(line.startswith("insmod ") and "/tcp_bbr.ko" in line for line in done.stdout.splitlines())


_GIVEN = cases.load(pathlib.Path(__file__).with_name("modprobe.yml"))
TEXTS: list[str] = _GIVEN["texts"]
LINES: list[str] = _GIVEN["lines"]


def barred(root: pathlib.Path) -> modules_load.Bar | None:
    host = Host(str(root))
    return modules_load.on_command_line(host, "tcp_bbr")[1] or modules_load.load(host).barred("tcp_bbr")


@pytest.mark.parametrize("text", TEXTS)
def test_the_library_reads_its_files_as_modprobe_does(root: pathlib.Path, text: str) -> None:
    (root / FILE).write_text(text)
    (root / "proc/cmdline").write_text("ro quiet\n")
    bar = barred(root)
    # systemd-modules-load goes by blacklists (-b); whoever asks for the name does not.
    assert loads(root, "-b") == (bar is None)
    assert loads(root) == (bar is None or not bar.for_all)


@pytest.mark.parametrize("line", LINES)
def test_and_the_kernel_command_line(root: pathlib.Path, line: str) -> None:
    (root / FILE).write_text("")
    (root / "proc/cmdline").write_text(f"ro quiet {line}\n")
    assert loads(root, "-b") == (barred(root) is None)
