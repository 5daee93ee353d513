# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Podman's defaults in containers.conf.d, which also apply to Buildah (containers.conf(5)).

Each command of podman reads the files. With the network of the node or of another container, podman leaves
default sysctls of net out (pkg/specgen/generate/security_linux.go).
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...model.setting import BootFile
from .. import own_file
from . import lists
from .parse import Values
from .runtime import FILE, Given, Runtime, version

_FOLDER = "/etc/containers/containers.conf.d"
_TABLE = ("containers",)
_VENDOR, _NODE = "/usr/share/containers/containers.conf", "/etc/containers/containers.conf"
#: Of root: other users have their own
_ROOT = "/root/.config/containers/containers.conf"

#: Before podman 6, one file after the other. From podman 6, the first of three main files, and then drop-ins
#: of all folders in the order of their names. A file in a later folder hides an equal name in an earlier one
#: (container-libs, storage/pkg/configfile/parse.go).
_FOLDERS_6 = (
    f"{_VENDOR}.d",
    "/usr/share/containers/containers.rootful.conf.d",
    _FOLDER,
    "/etc/containers/containers.rootful.conf.d",
)
#: containers/common 0.57, pkg/config: lists with attributes. An older one reads no file with them.
_APPENDS_SINCE = (4, 8)
#: containers/common 0.58: an older podman reads such files for other users only
_ROOTS_SINCE = (5, 0)


class _Order(NamedTuple):
    """Files before and after mlnode's own file."""

    before: Sequence[str]
    after: Sequence[str]


class _OfRoot(NamedTuple):
    """Root's own files. unread: why they are not known; empty if they are."""

    main: Sequence[str] = ()
    drop_ins: Sequence[str] = ()
    unread: str = ""


def _of_root(host: Host) -> _OfRoot:
    """Raises HostError for root; other users may look at all the rest."""
    try:
        files = _OfRoot(_existing(host, _ROOT), _drop_ins(host, f"{_ROOT}.d"))
    except HostError as error:
        if host.is_superuser():
            raise
        return _OfRoot(unread=f"files of root are not considered: {error}")
    if (files.main or files.drop_ins) and version(host, "podman") < _ROOTS_SINCE:
        return _OfRoot()
    return files


def _existing(host: Host, *paths: str) -> list[str]:
    return [path for path in paths if host.exists(path)]


def _drop_ins(host: Host, folder: str) -> list[str]:
    """Not those behind a link, which podman does not follow."""
    names = () if host.is_link(folder) else sorted(host.names(folder))
    return [f"{folder}/{name}" for name in names if name.endswith(".conf")]


def _until_5(host: Host, own: str, root: _OfRoot) -> _Order:
    node = _drop_ins(host, _FOLDER)
    return _Order(
        [*_existing(host, _VENDOR, _NODE), *(path for path in node if path < own)],
        [*(path for path in node if path > own), *root.main, *root.drop_ins],
    )


def _from_6(host: Host, own: str, root: _OfRoot) -> _Order:
    main = [*root.main, *_existing(host, _NODE, _VENDOR)][:1]
    drop_ins = [*(path for folder in _FOLDERS_6 for path in _drop_ins(host, folder)), *root.drop_ins]
    # The last of several files with one name
    files = {path.rpartition("/")[2]: path for path in drop_ins if not host.is_link(path)}
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
        own, root = self.file(name), _of_root(host)
        _refuse_attributes(host, own, root)
        older, newer = (
            lists.given(host, _TABLE, topic, own, order(host, own, root), want)
            for order in (_until_5, _from_6)
        )
        given = older if older == newer or not _is_6(host) else newer
        return given._replace(note=root.unread)

    def files(self, host: Host, name: str, wants: Mapping[str, Values]) -> list[BootFile]:
        others = {topic: self.given(host, topic, name, want).others for topic, want in wants.items()}
        content = own_file.content(
            name, lists.lines(_TABLE[0], wants, others), explains="containers.podman.sysctls"
        )
        return [BootFile(self.file(name), content)]

    def sources(self, host: Host, topic: str) -> list[str]:
        files = (_from_6 if _is_6(host) else _until_5)(host, "", _of_root(host))
        return lists.sources(host, (*files.before, *files.after), _TABLE, topic)


def _refuse_attributes(host: Host, own: str, root: _OfRoot) -> None:
    """Raises HostError for an attribute that this version does not know."""
    order = _until_5(host, own, root)
    place = lists.attribute(host, (*order.before, *order.after))
    if place and version(host, "podman") < _APPENDS_SINCE:
        path, _colon, line = place.rpartition(":")
        words = f"line {line}: attributes of a list need podman 4.8, and an older one does not start"
        raise HostError("understand", path, None, f"{words}; correct it first")


def _is_6(host: Host) -> bool:
    """Raises HostError."""
    return version(host, "podman") >= (6, 0)
