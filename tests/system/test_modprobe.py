# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modprobe would do, by its own word, and what the library reads in the same files. Nothing is loaded:
the modules are those of a folder, and none has code."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from ansible_collections.mlnode.tuning.tests.system import module_file, namespaces
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.host.host import Host
from mlnode.linux import modules_load

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts over /proc/cmdline in a namespace")

RELEASE = "6.12.0"
FILE = "etc/modprobe.d/x.conf"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    namespaces.need("modprobe", "kmod")
    root = tmp_path_factory.mktemp("kmod")
    for path in (root / "etc/modprobe.d", root / "proc"):
        path.mkdir(parents=True)
    module_file.install(root, RELEASE, "tcp_bbr", "sch_fq")
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
