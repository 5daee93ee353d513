# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot layer of a parameter: the loader's menu and its command line for each kernel of this system."""

from __future__ import annotations

from typing import Sequence

from ...engine.kind import Context
from ...loader import boot_loader, cmdline, deployed
from ...loader.boot_loader import Loader
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...model.setting import Boot, Setting, Value
from ...topology import hardware
from ...topology.model import Topology
from . import isolation, loaders
from . import parse as boot_parse

#: Loader → its ways to choose an entry, and places with words or entries that count instead
_CHOICE = {"GRUB": "GRUB_DEFAULT (grub-set-default)", "systemd-boot": "bootctl set-default"}
_PLACES = {
    "GRUB": "GRUB_DEFAULT, grub-editenv list, custom.cfg, another disk or GRUB",
    "systemd-boot": "bootctl list, io.systemd.stub.kernel-cmdline-extra of SMBIOS, another loader",
}


class Node(NamedTuple):
    """Data shared by one run's settings.

    isolated: CPUs that this and other declarations take away. too_long: why the kernel would not read all
    words; empty if it would.
    """

    loader: Loader
    line: Value
    isolated: tuple[int, ...]
    context: Context
    too_long: str = ""

    @property
    def topology(self) -> Topology:
        return hardware.topology(self.context.host)


def boot_layer(setting: Setting, want: str, runtime: Value, node: Node) -> Boot:
    """The words of the first kernel of the menu that differs, else the wanted words."""
    loader = node.loader
    if loader.unreadable:
        return Boot(Value(unreadable=loader.unreadable))
    if not loader.entries:
        # In a guest, the only assumption is that the host starts this kernel in the same way again.
        known = runtime if runtime.text is not None else Value(absent=loader.lacks)
        return Boot(known, "kernel command line")
    name, wanted = boot_parse.name_of(setting), cmdline.wanted(want)
    for entry in loader.entries:
        words, where, foreign = entry.parameter(name)
        if not isolation.alike(words, wanted):
            if entry.by_hand:
                return _by_hand(words, where, loader.default.place)
            if words and loader.style == "deployment":
                try:
                    where, foreign = deployed.setter(node.context.host, entry, name)
                except HostError as error:
                    return Boot(Value(unreadable=str(error)))
            return _wrong(name, words, where, foreign, node)
    if runtime.text is not None and runtime.text != want:
        lost = _lost(node)
        if lost is not None:
            return lost
    return Boot(Value(text=want), loader.entries[0].where)


def _lost(node: Node) -> Boot | None:
    """Reason why the next boot will lack words that are in all entries of the menu; None if it has them."""
    loader = node.loader
    where = loader.entries[0].where
    if loader.default.astray:
        reason = f"{loader.default.astray}; have {_CHOICE[loader.name]} name a generated entry"
        return Boot(Value(absent=reason), loader.default.place or where, foreign=True)
    try:
        if not boot_loader.was_there(node.context.host, loader):
            return None
    except HostError as error:
        return Boot(Value(unreadable=str(error)))
    image = " ".join(cmdline.parameter(node.line.text or "", "BOOT_IMAGE")) or loader.name
    reason = (
        f"{where} had it before the last boot, which did not bring it: the boot chain starts another entry "
        f"({image}). Look which one: {_PLACES[loader.name]} in "
        "the order of the firmware. If it was chosen by hand or by kexec, reboot once more"
    )
    return Boot(Value(absent=reason), where, foreign=True)


def _by_hand(words: Sequence[str], where: str, place: str) -> Boot:
    chosen = f" ({place})" if place else ""
    hint = (
        f"{where}, the entry that GRUB starts by default{chosen}, is not made by grub-mkconfig: give it the "
        "parameter there, or have GRUB_DEFAULT (grub-set-default) name a generated entry"
    )
    if not words:
        return Boot(Value(absent=hint), where, foreign=True)
    return Boot(Value(text=cmdline.shown(words)), hint, foreign=True)


def _wrong(name: str, words: Sequence[str], where: str, foreign: bool, node: Node) -> Boot:
    try:
        later = _overriding(name, node, lost=not words) if not foreign else ""
    except HostError as error:
        return Boot(Value(unreadable=str(error)))
    hint = f" ({node.loader.lacks})" if node.loader.lacks else ""
    if not words:
        reason = f"{later} takes it away" if later else f"{where} does not have it{hint}"
        return Boot(Value(absent=reason), later or where, bool(later))
    return Boot(Value(text=cmdline.shown(words)), later or f"{where}{hint}", foreign or bool(later))


def _overriding(name: str, node: Node, lost: bool) -> str:
    """A later drop-in that overrides mlnode's."""
    host, own = node.context.host, node.context.name
    if node.loader.style != "drop-in" or loaders.given(node.loader, host, own, name) is None:
        return ""
    return loaders.later_file(host, own, name, lost)
