# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Podman's defaults in containers.conf.d, which also apply to Buildah (containers.conf(5)).

Each command of podman reads the files. With the network of the node or of another container, podman leaves
default sysctls of net out (pkg/specgen/generate/security_linux.go).
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...model.setting import BootFile
from .. import own_file
from . import lists
from .parse import Values
from .runtime import FILE, Given, Runtime

_FOLDER = "/etc/containers/containers.conf.d"
_TABLE = ("containers",)
_VENDOR, _NODE = "/usr/share/containers/containers.conf", "/etc/containers/containers.conf"
#: Of root: other users have their own
_ROOT = "/root/.config/containers/containers.conf"

#: Before podman 6, one file after the other. From podman 6, the first of three main files, and then drop-ins
#: of all folders in the order of their names. A file in a later folder hides an equal name in an earlier one
#: (container-libs, storage/pkg/configfile/parse.go).
_MAIN_6 = (_ROOT, _NODE, _VENDOR)
_FOLDERS_6 = (
    f"{_VENDOR}.d",
    "/usr/share/containers/containers.rootful.conf.d",
    _FOLDER,
    "/etc/containers/containers.rootful.conf.d",
    f"{_ROOT}.d",
)
_VERSION = re.compile(r"\b([0-9]{1,3})\.[0-9]")


class _Order(NamedTuple):
    """Files before and after mlnode's own file."""

    before: Sequence[str]
    after: Sequence[str]


def _drop_ins(host: Host, folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in sorted(host.names(folder)) if name.endswith(".conf")]


def _until_5(host: Host, own: str) -> _Order:
    node = _drop_ins(host, _FOLDER)
    of_root = [path for path in (_ROOT,) if host.exists(path)]
    return _Order(
        [
            *(path for path in (_VENDOR, _NODE) if host.exists(path)),
            *(path for path in node if path < own),
        ],
        [*(path for path in node if path > own), *of_root, *_drop_ins(host, f"{_ROOT}.d")],
    )


def _from_6(host: Host, own: str) -> _Order:
    main = [path for path in _MAIN_6 if host.exists(path)][:1]
    files: dict[str, str] = {}
    for path in (path for folder in _FOLDERS_6 for path in _drop_ins(host, folder)):
        if not host.is_link(path):
            files[path.rpartition("/")[2]] = path
    name = own.rpartition("/")[2]
    return _Order(
        [*main, *(files[other] for other in sorted(files) if other < name)],
        [files[other] for other in sorted(files) if other > name],
    )


class Podman(Runtime):
    name = program = "podman"
    path = f"{_FOLDER}/{FILE}NAME.conf"
    #: pkg/specgen/generate/oci_linux.go: addRlimits(), for root. Newer versions give a million processes.
    #: Podman 4.3 gives kernel.pid_max, which is 32768 or more
    usual: Values = {"nofile": "1048576", "nproc": "32768"}

    def given(self, host: Host, topic: str, name: str, want: Values) -> Given:
        own = self.file(name)
        older, newer = (
            lists.given(host, _TABLE, topic, own, order(host, own), want) for order in (_until_5, _from_6)
        )
        return older if older == newer or not _is_6(host) else newer

    def files(self, host: Host, name: str, wants: Mapping[str, Values]) -> list[BootFile]:
        others = {topic: self.given(host, topic, name, want).others for topic, want in wants.items()}
        content = own_file.content(
            name, lists.lines(_TABLE[0], wants, others), explains="containers.podman.sysctls"
        )
        return [BootFile(self.file(name), content)]

    def sources(self, host: Host, topic: str) -> list[str]:
        files = (_from_6 if _is_6(host) else _until_5)(host, "")
        return lists.sources(host, (*files.before, *files.after), _TABLE, topic)


def _is_6(host: Host) -> bool:
    """Raises HostError if podman does not tell its version."""

    def ask() -> bool:
        said = host.must_run(["podman", "--version"], "read podman's version:")
        match = _VERSION.search(said)
        if match is None:
            raise HostError("understand", "podman --version", None, f"it says {said[:80]!r}")
        return int(match.group(1)) >= 6

    return host.once("podman version", ask)
