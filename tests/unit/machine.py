# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine in a folder, with a small kernel behind its files: it refuses, ignores and has side effects
as the real one does, and can be told to fail."""

from __future__ import annotations

import errno
import fnmatch
import json
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.agent import mounts as drivers
from mlnode.engine import origin
from mlnode.engine import units as agent_files
from mlnode.host import places
from mlnode.host.host import Host, Mounts
from mlnode.host.system import Finished
from mlnode.knobs.sysctl.info import INFO
from mlnode.knobs.sysctl.parse import path_of
from mlnode.model.errors import HostError

#: Not in this kernel any more: knobs/sysctl/kind.py looks for it in debugfs
GONE = ("kernel.sched_migration_cost_ns",)

THP = "/sys/kernel/mm/transparent_hugepage"
RELEASE = "6.12.0-test"
_TEXTS: dict[str, dict[str, str]] = cases.load(pathlib.Path(__file__).with_suffix(".yml"))

#: A kernel has every key that mlnode knows. Values are those of Debian 13 in the kernel lab; of the three
#: that the kernel computes from memory (max_user_watches, tcp_max_syn_backlog, tcp_max_tw_buckets) those of a
#: large machine. That of a newcomer matters to no test.
OFFERED = {
    **{path_of(key): "0" for key in INFO if key not in GONE},
    **_TEXTS["offered"],
    **{
        f"/proc/sys/net/ipv{version}/neigh/default/gc_thresh{number}": entries
        for version in (4, 6)
        for number, entries in enumerate(("128", "512", "1024"), 1)
    },
}

#: A small Debian node; every text is what the kernel prints
KERNEL = {"/proc/sys/kernel/osrelease": RELEASE, **_TEXTS["kernel"]}

#: Files of the distribution that the sysctl kind looks at
FILES = {
    f"/lib/modules/{RELEASE}/modules.dep": (
        "kernel/net/ipv4/tcp_bbr.ko.xz:\nkernel/net/sched/sch_fq.ko.xz: kernel/x.ko.xz\n"
    ),
    "/usr/lib/sysctl.d/50-default.conf": "# defaults\n-net.ipv4.conf.*.rp_filter = 2\n",
    "/etc/sysctl.conf": "#kernel.domainname = example.com\n",
    "/etc/systemd/system/.keep": "",
    "/run/.keep": "",
    "/var/lib/.keep": "",
    "/sys/module/.keep": "",
}

#: What the kernel computes when khugepaged starts (mm/khugepaged.c: set_recommended_min_free_kbytes)
RECOMMENDED_MIN_FREE = 90112

_SIBLINGS = {
    "/proc/sys/vm/dirty_bytes": "/proc/sys/vm/dirty_ratio",
    "/proc/sys/vm/dirty_ratio": "/proc/sys/vm/dirty_bytes",
    "/proc/sys/vm/dirty_background_bytes": "/proc/sys/vm/dirty_background_ratio",
    "/proc/sys/vm/dirty_background_ratio": "/proc/sys/vm/dirty_background_bytes",
}

#: Names of one variable (net/netfilter/nf_conntrack_standalone.c, net/ipv4/devinet.c, fs/notify)
_ONE_VARIABLE = (
    ("/proc/sys/net/netfilter/nf_conntrack_max", "/proc/sys/net/nf_conntrack_max"),
    ("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/all/forwarding"),
    ("/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances"),
)
_FORWARDS = _ONE_VARIABLE[1]

#: Keys that come with a module, and their first value
_BROUGHT = {
    "nf_conntrack": {
        "/proc/sys/net/netfilter/nf_conntrack_max": "262144",
        "/proc/sys/net/nf_conntrack_max": "262144",
    },
    "br_netfilter": {"/proc/sys/net/bridge/bridge-nf-call-iptables": "1"},
    "sunrpc": {"/proc/sys/sunrpc/tcp_slot_table_entries": "2"},
}


_STORES = (origin.PATH, origin.COPY)
_STORE = os.path.basename(origin.PATH)
#: With what a killed write of it leaves
_OF_STORE = {_STORE, f".{_STORE}.mlnode-tmp"}
_STORE_FOLDERS = tuple(map(os.path.dirname, _STORES))


def mounted(mounts: Mounts) -> Mounts:
    """The drivers of one kind and that of the agent: as of a module of one area."""
    return {**mounts, places.AGENT: drivers.ALL[places.AGENT]}


def captured(root: str, mounts: Mounts) -> Host:
    return Host(root, mounted(mounts))


class Machine(Host):
    """A Host below a folder. Attributes steer the kernel's moods:

    fails: path → errno of the next writes; unreadable: path of a file or folder → errno of reads; ignores:
    paths whose writes are accepted without effect; gives: path → the most it grants; read_only: paths that
    blocked() names. active: the units systemd runs.
    """

    def __init__(self, root: str) -> None:
        super().__init__(root, drivers.ALL)
        self.fails: dict[str, int] = {}
        self.unreadable: dict[str, int] = {}
        self.ignores: set[str] = set()
        self.gives: dict[str, int] = {}
        self.read_only: dict[str, str] = {}
        self.superuser = True
        self.writes: list[tuple[str, str]] = []
        self.reloads = 0
        self.active: set[str] = set()

    @classmethod
    def debian(cls, root: str, kernel: Mapping[str, str] | None = None) -> Machine:
        """A node as KERNEL and FILES say; kernel adds to or replaces single files."""
        machine = cls(root)
        for path, text in {**OFFERED, **KERNEL, **(kernel or {})}.items():
            machine.put(path, text + "\n")
        for path, text in FILES.items():
            machine.put(path, text)
        return machine

    # -- arranging -----------------------------------------------------------------------

    def put(self, path: str, text: str | bytes, mode: int = 0o644) -> None:
        real = self.root + path
        if not os.path.isdir(folder := os.path.dirname(real)):
            os.makedirs(folder)
        with open(real, "wb") as stream:
            stream.write(text.encode("utf-8") if isinstance(text, str) else text)
        os.chmod(real, mode)
        self._has_origin(path)

    def remove(self, path: str) -> None:
        os.unlink(self.root + path)

    def link(self, path: str, target: str) -> None:
        real = self.root + path
        os.makedirs(os.path.dirname(real), exist_ok=True)
        os.symlink(target, real)
        self._has_origin(path)

    def _has_origin(self, path: str) -> None:
        """Who puts a file of ours into a tree means a node that was tuned, and whose origin is there: one
        that knows the file as it is. A node that has lost it is made by removing the store."""
        if path.startswith(("/proc/", "/sys/")):
            return
        if not any(fnmatch.fnmatchcase(path, one.pattern) for one in places.OWN):
            return
        if any(os.path.lexists(self.root + store) for store in (origin.PATH, origin.COPY)):
            return
        entry = origin.file_entry(Host(self.root), path)
        self.put(origin.PATH, json.dumps({"format": origin.FORMAT, "entries": [entry]}), 0o600)

    def enable_agent(self) -> None:
        """As installed, but for what is in the zip."""
        self.put("/usr/local/bin/mlnode", b"#!/usr/bin/env python3\nPK\x03\x04 mlnode/agent/cli.py", 0o755)
        for path, text in agent_files.TEXTS.items():
            self.put(path, text)
        for link, target in agent_files.LINKS.items():
            self.link(link, target)

    def tree(self) -> dict[str, tuple[str, int]]:
        """Every file, link and folder with its content and mode: what `the same` means in a test. The store
        of the origin is left out, with a folder that holds nothing else: put() may have made it."""
        found: dict[str, tuple[str, int]] = {}
        for folder, folders, files in os.walk(self.root):
            for name in [*folders, *files]:
                real = os.path.join(folder, name)
                path = real[len(self.root) :]
                if path in _STORES or (path in _STORE_FOLDERS and {*os.listdir(real)} <= _OF_STORE):
                    continue
                if os.path.islink(real):
                    found[path] = ("-> " + os.readlink(real), 0)
                elif os.path.isdir(real):
                    found[path] = ("/", 0)
                else:
                    with open(real, "rb") as stream:
                        content = stream.read().decode("utf-8", "surrogateescape")
                    found[path] = (content, os.stat(real).st_mode & 0o7777)
        return found

    def tuned(self) -> dict[str, tuple[str, int]]:
        """tree() without the declarations, which keep what was refused as well."""
        return {
            path: found for path, found in self.tree().items() if not f"{path}/".startswith("/etc/mlnode/")
        }

    def now(self, path: str) -> str:
        return self.read(path).rstrip("\n")

    # -- the kernel ----------------------------------------------------------------------

    def is_superuser(self) -> bool:
        return self.superuser

    def blocked(self, path: str) -> str:
        return self.read_only.get(path, "")

    def read_bytes(self, path: str) -> bytes:
        if path in self.unreadable:
            raise HostError("read", path, self.unreadable[path])
        return super().read_bytes(path)

    def beginning(self, path: str, most: int, seconds: float) -> tuple[bytes, bool]:
        if path in self.unreadable:
            raise HostError("read", path, self.unreadable[path])
        return super().beginning(path, most, seconds)

    def names(self, path: str) -> list[str]:
        if path in self.unreadable:
            raise HostError("list", path, self.unreadable[path])
        return super().names(path)

    def write_kernel(self, path: str, value: str) -> None:
        if path in self.fails:
            raise HostError(f"write {value!r} to", path, self.fails[path])
        self.writes.append((path, value))
        if path in self.ignores:
            return
        old = self.read(path)
        self._store(path, self._accepted(path, value, old.rstrip("\n")))
        if path in _SIBLINGS:
            self._store(_SIBLINGS[path], "0")
        if path in _FORWARDS:
            for other in self.matching("/proc/sys/net/ipv4/conf/*/forwarding"):
                self._store(other, self.now(path))
        for other in (one for group in _ONE_VARIABLE if path in group for one in group):
            if self.exists(other):
                self._store(other, self.now(path))
        if path == f"{THP}/enabled" and value != "never":
            reserve = int(self.now("/proc/sys/vm/min_free_kbytes"))
            self._store("/proc/sys/vm/min_free_kbytes", str(max(reserve, RECOMMENDED_MIN_FREE)))

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if list(command[:2]) == ["modprobe", "--"]:
            return self._load(command[2])
        if list(command[:2]) == ["modprobe", "-r"]:
            return self._unload(command[2])
        if command[0] == "systemctl":
            units = [word for word in command[2:] if not word.startswith("--")]
            return self._shown_all(units) if len(units) > 1 else self._systemctl(command[1], command[-1])
        return super().run(command, seconds)

    def _shown_all(self, units: Sequence[str]) -> Finished:
        """What a machine does not know of a unit, it says nothing of."""
        said = [self._systemctl("show", unit) for unit in units]
        if all(one.rc for one in said):
            return said[0]
        return Finished(0, "\n".join(one.out if one.rc == 0 else "Id=\n" for one in said), "")

    def _systemctl(self, verb: str, unit: str) -> Finished:
        if verb == "daemon-reload":
            self.reloads += 1
        elif verb == "start":
            self.active.add(unit)
        elif verb == "stop":
            self.active.discard(unit)
        elif verb == "is-active":
            return Finished(0 if unit in self.active else 3, "", "")
        else:
            return Finished(1, "", f"Unknown command verb {verb}.\n")
        return Finished(0, "", "")

    def _accepted(self, path: str, value: str, old: str) -> str:
        if "[" in old:
            words = old.replace("[", "").replace("]", "").split()
            if value not in words:
                raise HostError(f"write {value!r} to", path, errno.EINVAL)
            return " ".join(f"[{word}]" if word == value else word for word in words)
        if path.endswith("tcp_congestion_control"):
            if value not in self.now("/proc/sys/net/ipv4/tcp_available_congestion_control").split():
                raise HostError(f"write {value!r} to", path, errno.ENOENT)
            return value
        if path.endswith(("_bytes", "bytes")) and value == "0":
            raise HostError(f"write {value!r} to", path, errno.EINVAL)
        if path.endswith("_ports"):  # a list, in which no number and one number are legal too
            return value
        if re.fullmatch(r"-?\d+(\s+-?\d+)*", old):
            if not re.fullmatch(r"-?\d+(\s+-?\d+)*", value) or len(value.split()) != len(old.split()):
                raise HostError(f"write {value!r} to", path, errno.EINVAL)
            if path in self.gives:
                value = str(min(int(value), self.gives[path]))
            return "\t".join(value.split())
        return value

    def _load(self, name: str) -> Finished:
        if name not in self.read(f"/lib/modules/{RELEASE}/modules.dep"):
            return Finished(1, "", f"modprobe: FATAL: Module {name} not found in directory\n")
        os.makedirs(f"{self.root}/sys/module/{name}", exist_ok=True)
        for path, text in _BROUGHT.get(name, {}).items():
            self.put(path, f"{text}\n")
        if name.startswith("tcp_"):
            path = "/proc/sys/net/ipv4/tcp_available_congestion_control"
            self._store(path, f"{self.now(path)} {name[4:]}")
        return Finished(0, "", "")

    def _unload(self, name: str) -> Finished:
        os.rmdir(f"{self.root}/sys/module/{name}")
        path = "/proc/sys/net/ipv4/tcp_available_congestion_control"
        self._store(path, " ".join(word for word in self.now(path).split() if f"tcp_{word}" != name))
        return Finished(0, "", "")

    def _store(self, path: str, text: str) -> None:
        with open(self.real(path), "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text + "\n")


#: /proc/1/mountinfo of a node with one file system, on a disk
ROOT_MOUNT = "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"


class Live(Machine):
    """The machine that a program runs on, though its files lie below a folder."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        if not self.exists("/proc/1/mountinfo"):
            self.put("/proc/1/mountinfo", ROOT_MOUNT)

    @property
    def live(self) -> bool:
        return True

    def real(self, path: str, follow: bool = True) -> str:
        return Host(self.root).real(path, follow)


class BuildHost(Machine):
    """What an image is built on: its hardware and its programs are not those of a node."""

    def real(self, path: str, follow: bool = True) -> str:
        assert not path.startswith(("/proc", "/sys")), f"looked at {path} of the build host"
        return super().real(path, follow)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        raise AssertionError(f"ran {command} on the build host")
