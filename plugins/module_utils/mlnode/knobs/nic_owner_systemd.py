# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd.link(5), which udev applies when an interface appears, and systemd.network(5), which
systemd-networkd applies to it later.

Of each, the first file in the order of the names that matches is the only one that counts. Where a file asks
for what nobody can tell here, what systemd itself took last decides, which udev's data and networkd's state
show.
"""

from __future__ import annotations

import re
import shlex
from typing import Callable, Iterable, Mapping, NamedTuple, Sequence

from ..errors import printable
from ..host import Host
from . import nic_owner, nic_owner_netplan
from .nic_owner import Device, Entry, Found, Word, fits

LINK_OWNER = "systemd .link"
NETWORK_OWNER = "systemd-networkd"
_UNIT = "systemd-networkd.service"

#: Earlier hides later; /lib counts only where it is no link to /usr/lib
_FOLDERS = (
    "/etc/systemd/network",
    "/run/systemd/network",
    "/usr/local/lib/systemd/network",
    "/usr/lib/systemd/network",
    "/lib/systemd/network",
)

_32_BITS = 1 << 32

#: Microseconds of the units of systemd.time(7) that make sense for a NIC; a number alone is in seconds
_MICROSECONDS = {
    "us": 1, "usec": 1, "µs": 1, "μs": 1, "ms": 1000, "msec": 1000,
    "": 1000000, "s": 1000000, "sec": 1000000, "second": 1000000, "seconds": 1000000,
    "h": 3600000000, "m": 60000000, "min": 60000000, "minute": 60000000, "minutes": 60000000,
}  # fmt: skip
#: 20 digits hold every number of 64 bits
_SPAN = re.compile(r"\s*([0-9]{1,20})(?:\.([0-9]{1,20}))?\s*([a-zµμ]*)", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,20})\s*([KMG]?)B?\Z", re.ASCII)


def _number(text: str) -> str:
    found = nic_owner.number(text)
    return found if found and int(found) < _32_BITS else ""


def _most(text: str) -> str:
    """Of rings and channels: 0 is refused, and too much is taken for `max`."""
    return "max" if text == "max" else _number(text) if _number(text) != "0" else ""


def _mtu(text: str) -> str:
    found = _SIZE.match(text)
    size = int(found[1]) << 10 * " KMG".index(found[2] or " ") if found else 0
    return str(size) if 0 < size < _32_BITS else ""


def _microseconds(text: str) -> str:
    place, total = 0, 0
    while place < len(text):
        found = _SPAN.match(text, place)
        if not found or found[3] not in _MICROSECONDS:
            return ""
        unit = _MICROSECONDS[found[3]]
        total += int(found[1]) * unit + int(found[2] or "0") * unit // 10 ** len(found[2] or "0")
        place = found.end()
    return str(total) if text and total < _32_BITS else ""


def _seconds(text: str) -> str:
    found = _microseconds(text)
    return str(-(-int(found) // 1000000)) if found.strip("0") else ""


def _not_zero(text: str) -> str:
    found = _microseconds(text)
    return "" if found == "0" else found


class _Sort(NamedTuple):
    """Of files. name: the key that matches names. settings: keys of [Link] → our file and how to read it."""

    suffix: str
    owner: str
    name: str
    last: Callable[[Device], str]
    settings: Mapping[str, tuple[str, Callable[[str], str]]]


#: src/udev/net/link-config-gperf.gperf, and for the features shared/ethtool-util.c: netdev_feature_table. The
#: last six are of systemd 260.
_LINK_SETTINGS: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "MTUBytes": ("mtu", _mtu),
    "TransmitQueueLength": ("tx_queue_len", _number),
    "RxBufferSize": ("ring/rx", _most),
    "RxMiniBufferSize": ("ring/rx-mini", _most),
    "RxJumboBufferSize": ("ring/rx-jumbo", _most),
    "TxBufferSize": ("ring/tx", _most),
    "RxChannels": ("channels/rx", _most),
    "TxChannels": ("channels/tx", _most),
    "OtherChannels": ("channels/other", _most),
    "CombinedChannels": ("channels/combined", _most),
    "RxFlowControl": ("pause/rx", nic_owner.switch),
    "TxFlowControl": ("pause/tx", nic_owner.switch),
    "AutoNegotiationFlowControl": ("pause/autoneg", nic_owner.switch),
    "UseAdaptiveRxCoalesce": ("coalesce/adaptive-rx", nic_owner.switch),
    "UseAdaptiveTxCoalesce": ("coalesce/adaptive-tx", nic_owner.switch),
    "RxCoalesceSec": ("coalesce/rx-usecs", _microseconds),
    "RxCoalesceIrqSec": ("coalesce/rx-usecs-irq", _microseconds),
    "RxCoalesceLowSec": ("coalesce/rx-usecs-low", _microseconds),
    "RxCoalesceHighSec": ("coalesce/rx-usecs-high", _microseconds),
    "TxCoalesceSec": ("coalesce/tx-usecs", _microseconds),
    "TxCoalesceIrqSec": ("coalesce/tx-usecs-irq", _microseconds),
    "TxCoalesceLowSec": ("coalesce/tx-usecs-low", _microseconds),
    "TxCoalesceHighSec": ("coalesce/tx-usecs-high", _microseconds),
    "RxMaxCoalescedFrames": ("coalesce/rx-frames", _number),
    "RxMaxCoalescedIrqFrames": ("coalesce/rx-frames-irq", _number),
    "RxMaxCoalescedLowFrames": ("coalesce/rx-frames-low", _number),
    "RxMaxCoalescedHighFrames": ("coalesce/rx-frames-high", _number),
    "TxMaxCoalescedFrames": ("coalesce/tx-frames", _number),
    "TxMaxCoalescedIrqFrames": ("coalesce/tx-frames-irq", _number),
    "TxMaxCoalescedLowFrames": ("coalesce/tx-frames-low", _number),
    "TxMaxCoalescedHighFrames": ("coalesce/tx-frames-high", _number),
    "CoalescePacketRateLow": ("coalesce/pkt-rate-low", _number),
    "CoalescePacketRateHigh": ("coalesce/pkt-rate-high", _number),
    "CoalescePacketRateSampleIntervalSec": ("coalesce/sample-interval", _seconds),
    "StatisticsBlockCoalesceSec": ("coalesce/stats-block-usecs", _not_zero),
    "ReceiveChecksumOffload": ("feature/rx-checksum", nic_owner.switch),
    "TransmitChecksumOffload": ("feature/tx", nic_owner.switch),
    "TCPSegmentationOffload": ("feature/tx-tcp-segmentation", nic_owner.switch),
    "TCP6SegmentationOffload": ("feature/tx-tcp6-segmentation", nic_owner.switch),
    "GenericSegmentationOffload": ("feature/tx-generic-segmentation", nic_owner.switch),
    "GenericReceiveOffload": ("feature/rx-gro", nic_owner.switch),
    "GenericReceiveOffloadHardware": ("feature/rx-gro-hw", nic_owner.switch),
    "LargeReceiveOffload": ("feature/rx-lro", nic_owner.switch),
    "ReceiveVLANCTAGHardwareAcceleration": ("feature/rx-vlan-hw-parse", nic_owner.switch),
    "TransmitVLANCTAGHardwareAcceleration": ("feature/tx-vlan-hw-insert", nic_owner.switch),
    "ReceiveVLANCTAGFilter": ("feature/rx-vlan-filter", nic_owner.switch),
    "TransmitVLANSTAGHardwareAcceleration": ("feature/tx-vlan-stag-hw-insert", nic_owner.switch),
    "NTupleFilter": ("feature/rx-ntuple-filter", nic_owner.switch),
    "ScatterGather": ("feature/tx-scatter-gather", nic_owner.switch),
    "ScatterGatherFragmentList": ("feature/tx-scatter-gather-fraglist", nic_owner.switch),
    "TCPECNSegmentationOffload": ("feature/tx-tcp-ecn-segmentation", nic_owner.switch),
    "TCPMangleIdSegmentationOffload": ("feature/tx-tcp-mangleid-segmentation", nic_owner.switch),
    "GenericReceiveOffloadList": ("feature/rx-gro-list", nic_owner.switch),
    "GenericReceiveOffloadUDPForwarding": ("feature/rx-udp-gro-forwarding", nic_owner.switch),
}
_LINK = _Sort(".link", LINK_OWNER, "OriginalName", lambda device: device.link_file, _LINK_SETTINGS)
_NETWORK = _Sort(
    ".network", NETWORK_OWNER, "Name", lambda device: device.network_file, {"MTUBytes": ("mtu", _mtu)}
)

#: Names that systemd may have given beside the first one (AlternativeNamesPolicy=), as udev's properties
_ALTERNATIVE = (
    "ID_NET_NAME_FROM_DATABASE",
    "ID_NET_NAME_ONBOARD",
    "ID_NET_NAME_SLOT",
    "ID_NET_NAME_PATH",
    "ID_NET_NAME_MAC",
)

#: Of [Match]: nothing here looks at what they ask of the machine, so that only systemd's last choice can tell
_CONDITIONS = (
    "Host", "Virtualization", "KernelCommandLine", "KernelVersion", "Credential", "Architecture", "Firmware",
)  # fmt: skip
#: Only a radio has these
_WIRELESS = ("WLANInterfaceType", "SSID", "BSSID")
_DEVICE = ("MACAddress", "PermanentMACAddress", "Path", "Driver", "Type", "Kind", "Property")
_KEYS = frozenset((*_DEVICE, *_CONDITIONS, *_WIRELESS))


def read_links(host: Host, devices: Iterable[Device], found: Found) -> None:
    _read(host, devices, found, _LINK)


def read_networks(host: Host, devices: Iterable[Device], found: Found) -> None:
    """Raises HostError where nobody can tell whether systemd-networkd is started."""
    if nic_owner.starts(host, _UNIT):
        _read(host, devices, found, _NETWORK)


def _read(host: Host, devices: Iterable[Device], found: Found, sort: _Sort) -> None:
    files = [(path, _entries(host, path, found)) for path in _files(host, found, "", sort.suffix)]
    for device in devices:
        for path, lines in files:
            matching = _matches(lines, device, sort)
            last = sort.last(device)
            if matching is None and last:
                matching = _same(path, last)
            words = _words(path, lines, sort)
            if matching is None and words:
                found.doubt(
                    f"{words[0].source} sets {words[0].file} to {words[0].value}; whether the [Match] of "
                    f"{printable(path)} means {device.name} is not known"
                )
            if matching:
                for word in words:
                    found.say(device.name, word)
                break


def _same(path: str, other: str) -> bool:
    return re.sub("^/usr/lib/", "/lib/", path) == re.sub("^/usr/lib/", "/lib/", other)


# -- the files -----------------------------------------------------------------------------


def _files(host: Host, found: Found, below: str, suffix: str) -> list[str]:
    """Of all folders, in the order in which they count."""
    files: dict[str, str] = {}
    for folder in _FOLDERS:
        if folder.startswith("/lib/") and host.is_link("/lib"):
            continue
        for name in found.names(host, folder + below):
            if name.endswith(suffix) and not name.startswith("."):
                files.setdefault(name, f"{folder}{below}/{name}")
    return [files[name] for name in sorted(files)]


def _entries(host: Host, path: str, found: Found) -> list[Entry]:
    """Of a file and of what is dropped in; none where the file is masked, or one of them is refused."""
    text = found.text(host, path)
    if not text:
        return []
    below = f"/{path.rpartition('/')[2]}.d"
    texts = [(path, text)]
    texts += [(other, found.text(host, other)) for other in _files(host, found, below, ".conf")]
    lines: list[Entry] = []
    for name, text in texts:
        more = nic_owner.entries(text, name, systemd=True)
        if more is None:
            return []
        lines += more
    return lines


def _words(path: str, lines: Sequence[Entry], sort: _Sort) -> list[Word]:
    """The last assignment of each key. An empty one takes it back, but makes no sense as an MTU
    (shared/conf-parser.c: config_parse_mtu), and what makes none is ignored."""
    found: dict[str, Word] = {}
    for entry in lines:
        unmanaged = sort is _NETWORK and (entry.section, entry.key) == ("Link", "Unmanaged")
        if unmanaged and nic_owner.switch(entry.value) == "on":
            return []
        if entry.section != "Link" or entry.key not in sort.settings:
            continue
        file, read = sort.settings[entry.key]
        value = read(entry.value)
        if value or (not entry.value and file != "mtu"):
            found.pop(file, None)
        if value:
            owner = nic_owner_netplan.owner(path, sort.owner)
            found[file] = Word(file, value, entry.source + nic_owner_netplan.origin(path), owner)
    return list(found.values())


# -- [Match] -------------------------------------------------------------------------------


def _matches(lines: Sequence[Entry], device: Device, sort: _Sort) -> bool | None:
    """None where nobody can tell. A file without any [Match] is ignored (udev/net/link-config.c:
    link_load_one, network/networkd-network.c: network_verify)."""
    lists: dict[str, list[str]] = {}
    for entry in lines:
        if entry.section == "Match" and (entry.key in _KEYS or entry.key == sort.name):
            if not entry.value or entry.key in _CONDITIONS:
                lists.pop(entry.key, None)
            if entry.value:
                lists.setdefault(entry.key, []).extend(_patterns(entry.value))
    answers = [_answer(key, patterns, device, sort) for key, patterns in lists.items() if patterns]
    if not answers or False in answers:
        return False
    return None if None in answers else True


def _patterns(value: str) -> list[str]:
    """A mark in front inverts all of a line (shared/net-condition.c: config_parse_match_strv)."""
    mark = "!" if value.startswith("!") else ""
    try:
        words = shlex.split(value[len(mark) :])
    except ValueError:
        return []
    return [mark + word for word in words]


def _answer(key: str, patterns: Sequence[str], device: Device, sort: _Sort) -> bool | None:
    if key == sort.name:
        return _named(patterns, device, sort)
    if key in ("MACAddress", "PermanentMACAddress"):
        if device.mac in map(nic_owner.mac, patterns):
            return True
        return False if device.own_mac or key == "MACAddress" else None
    if key == "Property":
        return None if device.properties is None else _has(patterns, device.properties)
    if key in _CONDITIONS:
        return None
    known = {"Path": device.path, "Driver": device.driver, "Type": device.type, "Kind": device.kind}
    text = known.get(key, "")
    return None if text is None else _any(patterns, text)


def _named(patterns: Sequence[str], device: Device, sort: _Sort) -> bool | None:
    """The name that the kernel gave, which is lost where udev gave another, or any that it has now."""
    if _any(patterns, device.name):
        return True
    if sort is _LINK:
        return None if device.renamed else False
    others = ((device.properties or {}).get(name, "") for name in _ALTERNATIVE)
    return any(_any(patterns, name) for name in others if name)


def _any(patterns: Sequence[str], text: str) -> bool:
    """As shared/net-condition.c: net_condition_test_strv. Nothing has an empty text."""
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    if text and any(fits(pattern[1:], text) for pattern in patterns if pattern.startswith("!")):
        return False
    return not wanted or bool(text and any(fits(pattern, text) for pattern in wanted))


def _has(patterns: Sequence[str], properties: Mapping[str, str]) -> bool:
    """All of them (shared/net-condition.c: net_condition_test_property)."""
    for pattern in patterns:
        inverted = pattern.startswith("!")
        name, _equals, value = pattern[inverted:].partition("=")
        if (name in properties and fits(value, properties[name])) is inverted:
            return False
    return True
