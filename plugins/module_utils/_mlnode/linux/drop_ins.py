# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration in folders such as /etc/sysctl.d and /usr/lib/sysctl.d: a name in an earlier folder hides the
same name in a later one, and files are effective in the order of their names (sysctl.d(5), modules-load.d(5),
modprobe.d(5), systemd.unit(5))."""

from __future__ import annotations

import errno
from typing import Iterator, Sequence

from ..host.host import Host
from ..model.errors import HostError

#: Parents of these folders; earlier hides later
TOPS = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")

_MASK = "/dev/null"


def counts(host: Host, path: str) -> bool:
    """False for paths below /lib if that is a link to /usr/lib. Raises HostError."""
    return not (path.startswith("/lib/") and host.is_link("/lib"))


def paths(
    host: Host,
    folders: Sequence[str],
    endings: tuple[str, ...] = (".conf",),
    problems: list[str] | None = None,
    without: str = "",
) -> list[str]:
    """The effective files, in their order.

    problems: takes messages about unreadable folders; without it they raise HostError. without: prefix of
    paths to ignore, which also hide nothing.
    """
    files: dict[str, str] = {}
    for folder in folders:
        try:
            names = host.names(folder) if counts(host, folder) else ()
        except HostError as error:
            if problems is None:
                raise
            problems.append(str(error))
            continue
        for name in names:
            path = f"{folder}/{name}"
            if (
                name.endswith(endings)
                and not name.startswith(".")
                and not (without and path.startswith(without))
            ):
                files.setdefault(name, path)
    return [files[name] for name in sorted(files)]


def texts(
    host: Host,
    folders: Sequence[str],
    problems: list[str],
    endings: tuple[str, ...] = (".conf",),
    without: str = "",
) -> Iterator[tuple[str, str]]:
    """Path and content of each file; arguments as for paths()."""
    for path in paths(host, folders, endings, problems, without):
        try:
            yield path, text(host, path)
        except HostError as error:
            problems.append(str(error))


def text(host: Host, path: str) -> str:
    """The content; empty for a folder, a dangling link, and a link to /dev/null, which masks. Raises
    HostError."""
    if is_masked(host, path):
        return ""
    try:
        return host.text(path)
    except HostError as error:
        if error.errno != errno.EISDIR:
            raise
        return ""


def wrapped(content: str, comment: str = "") -> Iterator[tuple[int, str]]:
    """Lines, joined after a backslash at the end; the number is the first line's.

    comment: sign of comment lines, which never continue, as in a shell; in modprobe.d they do.
    """
    begun: list[str] = []
    here = 0
    for here, text in enumerate(content.split("\n"), start=1):
        ends = bool(comment) and not begun and text.lstrip().startswith(comment)
        if text.endswith("\\") and not ends:
            begun.append(text[:-1])
            continue
        yield here - len(begun), "".join([*begun, text])
        begun = []
    if begun:  # the text ends here
        yield here - len(begun) + 1, "".join(begun)


def is_masked(host: Host, path: str) -> bool:
    return host.link_target(path) == _MASK
