# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters in the entries of the Boot Loader Specification that GRUB reads on the Red Hat family.

/boot/loader/entries holds one file per kernel; its `options` lines are the command line. New kernels take
their parameters from /etc/kernel/cmdline if it exists (kernel-install(8)), else from /etc/default/grub. The
folder is shared with other systems on the disk, and with ostree, which writes an entry for each deployment.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from ..host.host import Host
from ..linux import systemd_boot
from ..model.errors import HostError
from ..model.record import regex
from . import cmdline
from .grub import Entry, entry

ENTRIES = "/boot/loader/entries"
#: The same, and on an EFI system partition
FOLDERS = (ENTRIES, "/efi/loader/entries", "/boot/efi/loader/entries")
CMDLINE = systemd_boot.CMDLINE
#: Files with GRUB variables that an entry may use; kernelopts is the whole command line on RHEL 8
ENVIRONMENT = ("/boot/grub2/grubenv", "/boot/grub/grubenv")
KERNEL_OPTS = "$kernelopts"

_OPTIONS = regex(r"([ \t]*options[ \t]+)(.*)\Z")
#: Rescue kernels of dracut-config-rescue
_RESCUE = regex(r"-0-rescue\b|-rescue\.conf\Z")
#: An entry without this line does not start Linux: for example Windows (efi)
_KERNEL = regex(r"^[ \t]*(?:linux|uki)[ \t]", re.MULTILINE)
#: kernel-install(8) names its entries MACHINE_ID-VERSION.conf and repeats the id in a line
_ID = regex(r"([0-9a-f]{32})-")
_ID_LINE = regex(r"^[ \t]*machine-id[ \t]+([0-9a-f]{32})[ \t]*$", re.MULTILINE)
_MACHINE_ID = "/etc/machine-id"
#: Options that mark a deployment: ostree-prepare-root(1), bootc
_DEPLOYED = regex(r"^[ \t]*options[ \t](?:.*[ \t])?(?:ostree|composefs)=", re.MULTILINE)
#: ostree writes a number here, the greatest for the default deployment (ostree-sysroot-deploy.c)
_VERSION = regex(r"^[ \t]*version[ \t]+([0-9]{1,9})[ \t]*$", re.MULTILINE)


def files(host: Host, image: bool = False) -> list[str]:
    """Entries of this system's kernels, without rescue kernels. Raises HostError.

    image: the root is a tree that a machine will boot from. All its entries count, because the running
    command line is not the tree's.
    """
    texts = {path: host.read(path) for path in host.matching(f"{ENTRIES}/*.conf")}
    return [path for path, text in texts.items() if is_own(host, path, text, image)]


def is_own(host: Host, path: str, text: str, image: bool = False) -> bool:
    """True if an entry of this name and text starts a kernel of this system, and not to rescue it. Raises
    HostError."""
    if _RESCUE.search(path):
        return False
    if image or not _KERNEL.search(text):
        return bool(_KERNEL.search(text))
    own = host.text(_MACHINE_ID).strip()
    root = cmdline.parameter(host.text(cmdline.COMMAND_LINE), "root")
    return not _is_of_another(path, text, own, root)


def _is_of_another(path: str, text: str, own: str, root: Sequence[str]) -> bool:
    """True if an entry is another system's: its root file system differs, and its id is not this machine's.

    The id alone proves little, because a cloned machine's id differs from the entries of its image.
    """
    named = _ID.match(path.rpartition("/")[2]) or _ID_LINE.search(text)
    line = " ".join(match.group(2) for _number, match in _options(text))
    its = cmdline.parameter(line, "root", cmdline.LOADER_QUOTES)
    if not root or not its or root[-1] == its[-1] or "$" in its[-1]:
        return False
    return not (own and named and named.group(1) == own)


def of_ostree(host: Host) -> str:
    """Entry of the deployment that ostree boots next (greatest version); "" if none. Raises HostError."""
    deployments = []
    for path in files(host, image=True):
        text = host.read(path)
        version = _VERSION.search(text)
        if _DEPLOYED.search(text):
            deployments.append((int(version.group(1)) if version else 0, path))
    return max(deployments)[1] if deployments else ""


def entries(host: Host, paths: Sequence[str], quotes: str = cmdline.LOADER_QUOTES) -> list[Entry]:
    """The kernels of these entries, each with its command line. Raises HostError.

    quotes: those that the loader removes; only GRUB, which does, knows variables.
    """
    known = variables(host) if quotes == cmdline.LOADER_QUOTES else {}
    kernels = []
    for path in paths:
        options = _options(host.read(path))
        where = f"{path}:{options[0][0] + 1}" if options else path
        line = " ".join(match.group(2) for _number, match in options)
        kernels.append(entry(where, line, known)._replace(quotes=quotes))
    return kernels


def _options(text: str) -> list[tuple[int, re.Match[str]]]:
    matches = ((number, _OPTIONS.match(line)) for number, line in enumerate(text.splitlines()))
    return [(number, match) for number, match in matches if match]


def variables(host: Host) -> dict[str, tuple[str, str]]:
    """Name → value and place. The last file that sets a name wins. Raises HostError."""
    values: dict[str, tuple[str, str]] = {}
    for path in ENVIRONMENT:
        try:
            text = host.read(path)
        except HostError as error:
            if not error.absent:
                raise
            continue
        for number, line in enumerate(text.splitlines(), 1):
            name, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                values[name] = (value, f"{path}:{number}")
    return values


def edited(text: str, changes: Mapping[str, Sequence[str]], quotes: str = cmdline.LOADER_QUOTES) -> str:
    """An entry with these words in its options; all other bytes are unchanged."""
    lines = text.splitlines(keepends=True)
    options = _options(text)
    if not options:
        (line,) = cmdline.merged([""], changes, quotes)
        end = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{end}options {line}\n" if line else text
    merged = cmdline.merged([match.group(2) for _number, match in options], changes, quotes)
    for (number, match), line in zip(options, merged):
        end = lines[number][match.end() :]
        lines[number] = f"{match.group(1)}{line}{end}"
    return "".join(lines)


def edited_line(text: str, changes: Mapping[str, Sequence[str]], quotes: str = cmdline.LOADER_QUOTES) -> str:
    """Content of /etc/kernel/cmdline, one command line, with these words in it."""
    line = text.rstrip("\n")
    (merged,) = cmdline.merged([line], changes, quotes)
    return merged + text[len(line) :]
