# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page size in which the next boot counts a pool of huge pages.

`vm.nr_hugepages` is a number of pages of the default size. `default_hugepagesz=` on the command line of the
next boot changes that size: 512 pages are 1 GiB today and 512 GiB tomorrow (admin-guide/mm/hugetlbpage.rst).
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ...engine import declared
from ...engine.kind import Context, Facts
from ...host.host import Host
from ...loader import boot_loader, cmdline
from ...model import values
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...model.schema import unless_allowed
from ...model.setting import Boot, Setting, Value
from .. import sizing
from . import parse

_PARAMETER = "default_hugepagesz"
#: The size of a page that one entry of a page middle directory maps, which is the kernel's default
_PMD = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
#: The largest share of memory for a pool without permission, as in the guard of a running one
_SHARE = 2


class _Size(NamedTuple):
    """kbytes: 0 if unknown. where: the line that sets it, or why it is unknown."""

    kbytes: int
    where: str


def are_default(key: str) -> bool:
    """True for a pool that is counted in pages of the default size."""
    share = parse.node_pages(key)
    return key == "vm.nr_hugepages" or (share is not None and share[1] is None)


def at_boot(
    setting: Setting, want: str, boot: Boot, native: bool, context: Context
) -> tuple[Boot, bool, str]:
    """The boot layer of such a pool, in the pages of the next boot; whether a file may hold its number; and a
    note.
    """
    now = context.facts.hugepage_kbytes()
    size = context.host.once("next huge page size", lambda: _next(context.host, now), of_files=True)
    if size.kbytes == now or not now:
        return boot, native, ""
    need = parse.bytes_of(setting)
    if need is not None:
        return _of_bytes(setting, need, size, context)
    if not size.kbytes:
        return boot, native, f"it is not known in which pages the next boot counts: {size.where}"
    return _of_number(setting, want, size, boot, native, context)


def _of_bytes(setting: Setting, need: int, size: _Size, context: Context) -> tuple[Boot, bool, str]:
    if not size.kbytes:
        why = f"the agent counts the pages in the next boot; their size is not known: {size.where}"
        return context.boot_by_agent(setting, setting.claim), False, why
    count = sizing.hugepages(need, size.kbytes * sizing.KIB)
    note = f"the next boot has pages of {size.kbytes} kB ({size.where}); the agent sets {count} of them"
    return context.boot_by_agent(setting, str(count)), False, note


def _of_number(
    setting: Setting, want: str, size: _Size, boot: Boot, native: bool, context: Context
) -> tuple[Boot, bool, str]:
    """The same for a pool that is declared as a number of pages: a file sets it before the agent can check
    it.
    """
    kbytes = (values.number(want) or 0) * size.kbytes
    counted = f"the next boot has pages of {size.kbytes} kB ({size.where}): {want} of them are {kbytes} kB"
    most = context.facts.memory_kbytes() // _SHARE
    advice = f"declare {setting.key}: {{for_bytes: N}}, which counts in the pages of each boot"
    if not native or kbytes <= most:
        return boot, native, f"{counted}; {advice}"
    reason = f"{counted}, over half of the memory, so no file has the number; {advice}"
    refused = unless_allowed("hugepages", reason, context.allow)
    return (Boot(Value(absent=refused)), False, "") if refused else (boot, native, counted)


def _next(host: Host, now: int) -> _Size:
    """The default size of the next boot. Never raises."""
    try:
        loader = boot_loader.find(host)
        if loader.unreadable:
            return _Size(0, loader.unreadable)
        sizes = [] if loader.lacks else _declared(host)
        sizes = sizes or [_of_words(host, *entry.parameter(_PARAMETER)[:2], now) for entry in loader.entries]
    except HostError as error:
        return _Size(0, str(error))
    if len({size.kbytes for size in sizes}) > 1:
        return _Size(0, f"the entries of the boot loader differ in {_PARAMETER}=")
    return sizes[0] if sizes else _Size(now, "kernel command line")


def _declared(host: Host) -> list[_Size]:
    """Words that the node's declarations, including this one, give to the loader."""
    sizes = []
    for declaration in declared.expected(host):
        given = declaration.kinds.get("boot", {}).get("parameters")
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if cmdline.key_of(str(name)) == _PARAMETER and value is not None:
                first = value[0] if isinstance(value, list) and value else value
                sizes.append(_size([f"{_PARAMETER}={first}"], f"{declaration.path}: boot.{_PARAMETER}"))
    return sizes


def _of_words(host: Host, words: Sequence[str], where: str, now: int) -> _Size:
    if words:
        return _size(words, where)
    if not Facts(host).command_line(_PARAMETER):
        return _Size(now, where)
    default = values.number(host.value(_PMD).text)
    return _Size(default // sizing.KIB if default else 0, f"{where} has no {_PARAMETER}=")


def _size(words: Sequence[str], where: str) -> _Size:
    """The size on a command line. The first one counts (mm/hugetlb.c: default_hugepagesz_setup)."""
    kbytes = _kilobytes(words[0].partition("=")[2])
    return _Size(kbytes, where if kbytes else f"{where} has {words[0]}")


def _kilobytes(text: str) -> int:
    """The size in kB; 0 if the text is not the size of a page."""
    kbytes = (values.memparse(text) or 0) // sizing.KIB
    return kbytes if kbytes and kbytes & (kbytes - 1) == 0 else 0
