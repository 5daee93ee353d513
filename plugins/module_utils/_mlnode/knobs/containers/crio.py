# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CRI-O's defaults in crio.conf.d (crio.conf(5), crio.conf.d(5)).

CRI-O reads its files when it starts; a reload reads neither list again (pkg/config/reload.go). For pods with
the network of the node, it leaves sysctls of net out (server/sandbox_run.go).
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ...host.host import Host
from ...model.setting import BootFile
from .. import own_file
from . import lists
from .parse import SHM_SIZE, Values
from .runtime import FILE, Given, Runtime, argument, arguments, walked

_MAIN, _FOLDER = "/etc/crio/crio.conf", "/etc/crio/crio.conf.d"
_TABLE = ("crio", "runtime")


class Crio(Runtime):
    name = program = process = "crio"
    unit = "crio.service"
    parents = (unit,)
    path = f"{_FOLDER}/{FILE}NAME.conf"
    restart = "systemctl restart crio"
    lacks: Mapping[str, str] = {
        SHM_SIZE: "CRI-O has no default for it, and gives 64 MiB: set an emptyDir with medium: Memory at "
        "/dev/shm in the pod, or its annotation io.kubernetes.cri-o.ShmSize"
    }

    def unread(self, host: Host, topic: str) -> str:
        for flags, usual in ((("config", "c"), _MAIN), (("config-dir", "d"), _FOLDER)):
            value, where = _argument(host, *flags)
            if value and value.rstrip("/") != usual:
                return f"{where} makes crio read {value} instead of {usual}: set the values there"
        return super().unread(host, topic)

    def flag(self, host: Host, topic: str) -> str:
        return _argument(host, lists.KEYS[topic].replace("_", "-"))[1]

    def given(self, host: Host, topic: str, name: str, want: Values) -> Given:
        own = self.file(name)
        files = walked(host, _FOLDER)
        before = [path for path in (_MAIN,) if host.exists(path)] + [path for path in files if path < own]
        order = (before, [path for path in files if path > own])
        return lists.given(host, _TABLE, topic, own, order, want)

    def files(self, host: Host, name: str, wants: Mapping[str, Values]) -> list[BootFile]:
        others = {topic: self.given(host, topic, name, want).others for topic, want in wants.items()}
        body = lists.lines(".".join(_TABLE), wants, others)
        return [BootFile(self.file(name), own_file.content(name, body, explains="containers.crio.sysctls"))]

    def read_files(self, host: Host) -> Sequence[str]:
        return [path for path in (_MAIN,) if host.exists(path)] + walked(host, _FOLDER)

    def folder(self, host: Host) -> str:
        return _FOLDER

    def sources(self, host: Host, topic: str) -> list[str]:
        return lists.sources(host, self.read_files(host), _TABLE, topic)


def _argument(host: Host, *flags: str) -> tuple[str, str]:
    """As argument(), also for the variable of the first flag (internal/criocli/criocli.go: EnvVars)."""
    variable = f"CONTAINER_{flags[0].upper().replace('-', '_')}"
    return argument(arguments(host, Crio.unit), *flags, variable)
