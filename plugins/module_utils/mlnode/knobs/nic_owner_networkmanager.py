# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NetworkManager's profiles: key files (nm-settings-keyfile(5)) and, where Red Hat still has them, ifcfg
files.

Of the profiles that fit an interface one is activated at boot: the one of the highest priority, and among
equals the one that was used last (autoconnect-priority in nm-settings-nmcli(5)).
"""

from __future__ import annotations

import re
from typing import Callable, Iterable, Mapping, NamedTuple, Sequence

from ..ethtool import words as ethtool_words
from ..host import Host
from . import nic_owner, nic_owner_ifcfg, nic_owner_netplan
from .nic_owner import Device, Entry, Found, Word, fits

OWNER = "NetworkManager"
_UNIT = "NetworkManager.service"

#: A profile hides one of the same UUID in a folder before (nms-keyfile-storage.c: cmp_fcn). In /etc a profile
#: may have any name.
_FOLDERS = (
    ("/usr/lib/NetworkManager/system-connections", True),
    ("/etc/NetworkManager/system-connections", False),
    ("/run/NetworkManager/system-connections", True),
)
_SUFFIX = ".nmconnection"
#: nms-keyfile-utils.c: nms_keyfile_utils_should_ignore_file. .nmmeta is one of the last, six letters that
#: g_file_set_contents() leaves.
_IGNORED = re.compile(r"\.|.*(?:~|\.(?i:pem|der)|\.[A-Za-z0-9]{6})\Z", re.ASCII | re.DOTALL)

#: Seconds since 1970; 20 digits hold every number of 64 bits
_STAMPS = "/var/lib/NetworkManager/timestamps"
_STAMP = re.compile(r"[0-9]{1,20}\Z", re.ASCII)

#: connection.type, whose old names are still written → the type of a device
_TYPES = {
    "ethernet": "ether",
    "802-3-ethernet": "ether",
    "infiniband": "infiniband",
}
_MTU = ("ethernet", "802-3-ethernet", "infiniband")
_DENIED = ("mac-address-denylist", "mac-address-blacklist")
#: Prefixes of the options in [ethtool], each a group of our files (libnm-core: NM_ETHTOOL_OPTNAME_*)
_OPTION = re.compile(r"(ring|channels|coalesce|pause|feature)-([a-z0-9_-]+)\Z", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,9}\Z", re.ASCII)


class _Profile(NamedTuple):
    """fits: None where nobody can tell."""

    path: str
    uuid: str
    priority: int
    fits: Callable[[Device], bool | None]
    words: Callable[[Device], Sequence[Word]]


def read(host: Host, devices: Iterable[Device], found: Found) -> None:
    """Raises HostError where nobody can tell what is started."""
    manager, scripts = (nic_owner.starts(host, unit) for unit in (_UNIT, nic_owner_ifcfg.UNIT))
    ifcfgs = _ifcfgs(host, found, manager, scripts)
    profiles = [*_keyfiles(host, found), *ifcfgs] if manager else ifcfgs
    stamps = _stamps(host, found)
    for device in devices:
        candidates = []
        for profile in profiles:
            fitting = profile.fits(device)
            words = profile.words(device) if fitting is None else ()
            if words:
                found.doubt(
                    f"{words[0].source} sets {words[0].file} to {words[0].value}; whether that is for "
                    f"{device.name} is not known"
                )
            if fitting:
                candidates.append(profile)
        for profile in _activated(candidates, stamps):
            for word in profile.words(device):
                found.say(device.name, word)


def _activated(candidates: Sequence[_Profile], stamps: Mapping[str, int]) -> list[_Profile]:
    """More than one only where nothing tells them apart."""
    ranks = [(profile.priority, stamps.get(profile.uuid, 0)) for profile in candidates]
    return [profile for profile, rank in zip(candidates, ranks) if rank == max(ranks)]


def _stamps(host: Host, found: Found) -> dict[str, int]:
    lines = nic_owner.entries(found.text(host, _STAMPS), _STAMPS, systemd=False) or ()
    return {entry.key: int(entry.value) for entry in lines if _STAMP.match(entry.value)}


# -- key files -----------------------------------------------------------------------------


def _keyfiles(host: Host, found: Found) -> list[_Profile]:
    profiles: dict[str, _Profile] = {}
    for folder, strict in _FOLDERS:
        names = found.names(host, folder)
        for name in names:
            # The link with which NetworkManager deletes a profile that it may not write.
            if name.endswith(".nmmeta") and host.is_link(f"{folder}/{name}"):
                profiles.pop(name[: -len(".nmmeta")], None)
        for name in names:
            if _IGNORED.match(name) or (strict and not name.endswith(_SUFFIX)):
                continue
            path = f"{folder}/{name}"
            lines = nic_owner.entries(found.text(host, path), path, systemd=False) or ()
            # GLib takes the last of the lines that name a key.
            settings = {(entry.section, entry.key): entry for entry in lines}
            if any(section == "connection" for section, _key in settings):
                uuid = _get(settings, "connection", "uuid") or path
                profiles[uuid] = _keyfile(host, path, uuid, settings)
    return list(profiles.values())


def _get(settings: Mapping[tuple[str, str], Entry], section: str, key: str) -> str:
    entry = settings.get((section, key))
    return entry.value if entry else ""


def _keyfile(host: Host, path: str, uuid: str, settings: Mapping[tuple[str, str], Entry]) -> _Profile:
    priority = _get(settings, "connection", "autoconnect-priority")
    words = _words(path, settings)
    return _Profile(
        path=path,
        uuid=uuid,
        priority=int(priority) if _INTEGER.match(priority) else 0,
        fits=lambda device: _fits(host, settings, device),
        words=lambda _device: words,
    )


def _words(path: str, settings: Mapping[tuple[str, str], Entry]) -> list[Word]:
    owner, origin = nic_owner_netplan.owner(path, OWNER), nic_owner_netplan.origin(path)
    found = []
    for (section, key), entry in settings.items():
        file, value = _file(section, key, entry.value)
        if value:
            found.append(Word(file, value, entry.source + origin, owner))
    return found


def _file(section: str, key: str, text: str) -> tuple[str, str]:
    """Our file and the value; the value is empty for what is not one of ours, or leaves it as it is."""
    if section in _MTU and key == "mtu":
        return "mtu", nic_owner.number(text).strip("0") and nic_owner.number(text)
    if (section, key) == ("link", "tx-queue-length"):
        return "tx_queue_len", nic_owner.number(text)
    if (section, key) == ("ethtool", "fec-mode"):
        # The bits are the kernel's (libnm-core: NMSettingEthtoolFecMode).
        mask = int(nic_owner.number(text) or "0")
        return "fec/encoding", ethtool_words.fec(mask) if mask > 1 else ""
    option = _OPTION.match(key) if section == "ethtool" else None
    if not option:
        return "", ""
    file = f"{option[1]}/{option[2]}"
    return file, nic_owner.value(file, text)


def _fits(host: Host, settings: Mapping[tuple[str, str], Entry], device: Device) -> bool | None:
    if nic_owner.switch(_get(settings, "connection", "autoconnect")) == "off":
        return False
    name = _get(settings, "connection", "interface-name")
    kind = _get(settings, "connection", "type") or "ethernet"
    # A profile of another kind, such as a bond's, is for what it makes, which has its name.
    if name and name != device.name:
        return False
    if not name and _TYPES.get(kind) != device.type:
        return None if device.type is None and kind in _TYPES else False
    address = next(filter(None, (_get(settings, section, "mac-address") for section in _MTU)), "")
    if address and nic_owner.mac(address) != device.mac:
        return False if device.own_mac else None
    denied = (_get(settings, section, key) for section in _MTU for key in _DENIED)
    if device.mac in (nic_owner.mac(item) for text in denied for item in text.split(";") if item):
        return False
    return _matches(host, settings, device)


def _matches(host: Host, settings: Mapping[tuple[str, str], Entry], device: Device) -> bool | None:
    """All that [match] asks for."""
    arguments = host.text("/proc/cmdline").split()
    arguments += [word.partition("=")[0] for word in arguments]
    asked: Mapping[str, Sequence[str] | None] = {
        "interface-name": [device.name],
        "driver": None if device.driver is None else [device.driver],
        "path": None if device.path is None else [device.path],
        "kernel-command-line": arguments,
    }
    answers: list[bool | None] = []
    for key, texts in asked.items():
        patterns = [item for item in _get(settings, "match", key).split(";") if item]
        if patterns:
            equal = key == "kernel-command-line"
            answers.append(None if texts is None else _wildcards(patterns, texts, equal))
    return False if False in answers else None if None in answers else True


def _wildcards(patterns: Sequence[str], texts: Sequence[str], equal: bool) -> bool:
    """| marks what is optional, & what is mandatory, and ! what must not be, which makes it mandatory too:
    match.interface-name in nm-settings-nmcli(5)."""
    optional: list[bool] = []
    mandatory: list[bool] = []
    for pattern in patterns:
        mark = pattern[0] if pattern[0] in "|&" else ""
        rest = pattern[len(mark) :]
        inverted = rest.startswith("!")
        rest = rest[inverted:]
        rest = rest[rest.startswith("\\") :]
        found = any(rest == text if equal else fits(rest, text) for text in texts)
        chosen = mandatory if mark == "&" or (inverted and not mark) else optional
        chosen.append(found is not inverted)
    return all(mandatory) and (not optional or any(optional))


# -- ifcfg files ---------------------------------------------------------------------------


def _ifcfgs(host: Host, found: Found, manager: bool, scripts: bool) -> list[_Profile]:
    profiles = []
    for path in nic_owner_ifcfg.paths(host, found) if manager or scripts else ():
        variables = nic_owner_ifcfg.parse(found.text(host, path))
        managed = manager and nic_owner.switch(nic_owner_ifcfg.value(variables, "NM_CONTROLLED")) != "off"
        if variables and (managed or scripts):
            profiles.append(_ifcfg(path, variables, OWNER if managed else nic_owner_ifcfg.OWNER))
    return profiles


def _ifcfg(path: str, variables: Mapping[str, tuple[str, int]], owner: str) -> _Profile:
    priority = nic_owner_ifcfg.value(variables, "AUTOCONNECT_PRIORITY")
    return _Profile(
        path=path,
        uuid=nic_owner_ifcfg.value(variables, "UUID") or path,
        priority=int(priority) if _INTEGER.match(priority) else 0,
        fits=lambda device: nic_owner_ifcfg.applies(variables, device),
        words=lambda device: nic_owner_ifcfg.words(variables, path, device, owner),
    )
