# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""BOOT of a sysctl row against systemd-sysctl itself: random files in all its folders, the program of this
distribution in new namespaces, and what the kernel shows afterwards."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system import sysctl_namespace as namespace
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine.kind import Context, Facts
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.linux import sysctl_d
from mlnode.model import values
from mlnode.model.setting import Boot, Setting

PROGRAM = pathlib.Path("/usr/lib/systemd/systemd-sysctl")

pytestmark = [
    namespaces.needs_root,
    pytest.mark.skipif(not PROGRAM.exists(), reason="no systemd-sysctl here"),
]

#: 2,000 with the effort of `make robustness`
SETS = 40 if EFFORT == 1 else 100 * EFFORT
#: Share of the keys whose value at boot may be unknown
UNKNOWN = 0.05

FOLDERS = ("etc", "run", "usr/local/lib", "usr/lib")
NAMES = ("10-a.conf", "50-b.conf", "50-B.conf", "99-c.conf", "zz-mlnode-site.conf", "zzz.conf", "note.txt")

#: All belong to the namespaces. Each set has some of them, so that several lines speak of one key. None is
#: about the interface `default`, whose values the kernel copies to the others (net/ipv4/devinet.c).
KEYS = (
    "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.lo.rp_filter", "net.ipv4.conf.lo.arp_ignore",
    "net.ipv4.conf.lo.arp_announce", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_sack", "net.ipv4.tcp_syn_retries", "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ping_group_range",
    "net.ipv4.tcp_congestion_control", "net.ipv4.neigh.lo.retrans_time_ms", "net.ipv4.neigh.lo.app_solicit",
    "net.ipv6.conf.lo.hop_limit", "net.core.somaxconn", "net.unix.max_dgram_qlen", "kernel.sem",
    "kernel.shmmax", "kernel.shmmni", "kernel.msgmax", "kernel.msgmnb", "kernel.hostname",
)  # fmt: skip
GLOBS = (
    "net.ipv4.conf.[al]*.rp_filter", "net/ipv4/conf/[!d]*/arp_*", "net.ipv4.conf.[^ad]*.rp_filter",
    "net.ipv4.tcp_?mem", "net.ipv4.conf.l?.arp_ignore", "kernel.msgm[a-m]*", "net.*.somaxconn",
    "net.ipv4.tcp_s*", "kernel.shmm*", "kernel.{sem,shm{max,x}}*", "kernel.s{h,}m[m]*",
    "net.ipv4.tcp_[]rw]mem", "net.ipv4.tcp_[r[w]mem", "net.ipv4.conf.[[:alpha:]]o.{rp_filter,arp_*}",
    "net/ipv4/conf/[!d]*/{x,rp_filter}", "net.ipv4.conf.{all,lo}.rp_filter",
)  # fmt: skip

#: Runs in the namespaces: writes each set of files, runs the program, and prints all keys before and after
_RUNNER = f"""
import json, os, subprocess, sys

def shown(keys):
    found = {{}}
    for key in keys:
        with open("/proc/sys/" + key, "rb") as stream:
            found[key] = os.fsdecode(stream.read().rstrip(b"\\n"))
    return found

keys, sets = json.load(sys.stdin)
for files in sets:
    for path, text in files.items():
        with open(path, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
    before = shown(keys)
    done = subprocess.run(["{PROGRAM}"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(json.dumps([files, before, shown(keys), done.stderr]))
    for path in files:
        os.unlink(path)
"""

#: Of the mount namespace: no file of this machine is read, and all folders are in memory
_MOUNTS = """
set -e
mount -t tmpfs none /run; mkdir /run/sysctl.d
mount -t tmpfs none /usr/local/lib; mkdir /usr/local/lib/sysctl.d
mount -t tmpfs none /etc/sysctl.d; mount -t tmpfs none /usr/lib/sysctl.d
exec "$@"
"""


class Boots(NamedTuple):
    """A set of files, and each key before and after systemd-sysctl."""

    files: Mapping[str, str]
    before: Mapping[str, str]
    after: Mapping[str, str]
    errors: str


# -- random files --------------------------------------------------------------------------


def _value(chance: random.Random, key: str, present: Mapping[str, str]) -> str:
    known = present.get(sysctl_d.slashed(key), "1")
    return namespace.text(chance, known)


def _spelled(chance: random.Random, key: str) -> str:
    return chance.choice(
        (
            *(key, key, sysctl_d.slashed(key), f"/{sysctl_d.slashed(key)}", key.replace(".", "..", 1)),
            sysctl_d.slashed(key).replace("/", "/../net/" if key.startswith("net.") else "/../kernel/", 1),
        )
    )


def _line(chance: random.Random, keys: Sequence[str], present: Mapping[str, str]) -> str:
    kind = chance.random()
    if kind < 0.06:
        return chance.choice(("# comment", ";", "", "nonsense", "= 5", "-", "vm", "net.ipv4.no_such_key = 1"))
    is_glob = kind < 0.25
    key = chance.choice(GLOBS if is_glob else keys)
    name = key if is_glob else _spelled(chance, key)
    if chance.random() < 0.1:
        return f"-{name}"
    minus = "-" if chance.random() < 0.1 else ""
    equals = chance.choice((" = ", "=", " =\t", "= "))
    sample = chance.choice(KEYS) if is_glob else key
    return f"{minus}{name}{equals}{_value(chance, sample, present)}"


def _files(chance: random.Random, present: Mapping[str, str]) -> dict[str, str]:
    """Path → text."""
    keys = chance.sample(KEYS, 6)
    found = {}
    for _file in range(chance.randint(1, 5)):
        path = f"/{chance.choice(FOLDERS)}/sysctl.d/{chance.choice(NAMES)}"
        lines = [_line(chance, keys, present) for _one in range(chance.randint(0, 6))]
        found[path] = chance.choice(("\n", "\n", "\n", "\r\n", "\r")).join([*lines, ""])
    return found


# -- the program ---------------------------------------------------------------------------


def _boots(sets: Sequence[Mapping[str, str]]) -> Iterator[Boots]:
    """Each set of files in its turn, in the same new namespaces."""
    command = [*namespace.UNSHARE, "--mount", "--propagation", "private", "sh", "-c", _MOUNTS, "-"]
    asked = json.dumps([[sysctl_d.slashed(key) for key in KEYS], sets])
    done = subprocess.run(
        [*command, sys.executable, "-I", "-c", _RUNNER], input=asked, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        yield Boots(*json.loads(line))


def _predicted(folder: pathlib.Path, boots: Boots) -> Iterator[tuple[str, Boot]]:
    """BOOT of each key on a machine with these files, whose present values are declared."""
    machine = Machine(str(folder))
    machine.put("/proc/sys/kernel/osrelease", os.uname().release + "\n")
    machine.put("/proc/meminfo", "MemTotal: 8388608 kB\nHugepagesize: 2048 kB\n")
    for path, text in boots.files.items():
        machine.put(path, text)
    for key, text in boots.before.items():
        machine.put(f"/proc/sys/{key}", text + "\n")
    settings = [
        Setting("sysctl", sysctl_d.dotted(key), f"/proc/sys/{key}", text, text)
        for key, text in boots.before.items()
    ]
    for key, reading in zip(boots.before, sysctl.read(settings, Context(machine, Facts(machine)))):
        yield key, reading.boot


def _difference(boot: Boot, before: str, after: str) -> str:
    """Difference of BOOT and what the kernel shows after the boot; empty if there is none."""
    if boot.value.unreadable is not None:
        return ""
    if boot.value.text is None:
        return "" if before == after else f"nothing sets it: {boot.value.absent}"
    same = boot.value.text.split() == after.split() or values.same(boot.value.text, after)
    return "" if same else f"{boot.source} sets {boot.value.text!r}"


def test_boot_is_what_systemd_sysctl_does(tmp_path: pathlib.Path) -> None:
    chance = random.Random(39 if EFFORT == 1 else None)
    (none,) = _boots([{}])
    tried = unknown = changed = 0
    differences: list[Any] = []
    for boots in _boots([_files(chance, none.before) for _one in range(SETS)]):
        folder = tmp_path / "machine"
        for key, boot in _predicted(folder, boots):
            before, after = boots.before[key], boots.after[key]
            tried += 1
            changed += before != after
            unknown += boot.value.unreadable is not None
            difference = _difference(boot, before, after)
            if difference:
                differences.append((key, before, after, difference, boots.files, boots.errors))
        shutil.rmtree(folder)
    print(f"{SETS} sets, {tried} keys, {changed} changed, {unknown} unknown, {len(differences)} differ")
    assert differences == []
    assert changed > SETS
    assert unknown < UNKNOWN * tried
