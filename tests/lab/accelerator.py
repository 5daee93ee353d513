# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""KVM where it really works, else QEMU's own emulation.

/dev/kvm may be there and hang, and a nested one may run a few instructions and fail on the next: so a real
kernel is booted first, up to the point where it finds no root file system.
"""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import tempfile

from .tools import Tools

#: All CPUs of a machine in one thread, as two machines share two real CPUs anyway. With a thread for each,
#: one boot in eight ended in a fault of QEMU itself: the interrupt of a timer was lost, or an assertion of
#: iotlb_to_section() failed.
TCG = ("-accel", "tcg,thread=single")
KVM = ("-accel", "kvm")

#: With KVM it is there in two seconds; all tests wait for the answer.
_PROBE_SECONDS = 5
_PROOF = "Kernel panic - not syncing: VFS"


#: Guests with one CPU after the other ask: where one cannot be had, none is tried again
_failed: set[tuple[str, ...]] = set()


@functools.cache
def accelerator(tools: Tools, cpu: str, kernel: pathlib.Path) -> tuple[str, ...]:
    """QEMU's words for the accelerator of this machine, for guests with that CPU."""
    if KVM in _failed or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return TCG
    if boots(tools, KVM, cpu, kernel, _PROBE_SECONDS):
        return KVM
    _failed.add(KVM)
    return TCG


def boots(tools: Tools, accel: tuple[str, ...], cpu: str, kernel: pathlib.Path, seconds: float) -> bool:
    """True if the kernel comes to the end of its way in that time."""
    with tempfile.TemporaryDirectory(prefix="mlnode-lab-probe-") as folder:
        console = pathlib.Path(folder, "console")
        words = [
            *tools.qemu(),
            *accel,
            "-cpu",
            cpu,
            "-smp",
            "2",
            "-m",
            "512",
            "-nodefaults",
            "-no-user-config",
        ]
        words += ["-display", "none", "-serial", f"file:{console}", "-no-reboot"]
        words += ["-kernel", str(kernel), "-append", "console=ttyS0 panic=-1"]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                pass  # stuck in the kernel: nothing more can be done, and nothing is to be waited for
            return False
        return console.exists() and _PROOF in console.read_text(errors="replace")
