# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of other programs' files that set a value of a NIC: the knob of each keyword, and the interfaces of
the file.

A plain search: no file is resolved as its program would.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Iterator, Mapping, Sequence

from ...drivers.ethtool import words as ethtool_words
from ...host.host import Host
from ...linux import systemd_conf
from ...model import values
from ...model.errors import printable
from ...model.record import NamedTuple, regex

_NETS = "/sys/class/net"


class Target(NamedTuple):
    """An interface. mac: the present address."""

    name: str
    mac: str
    driver: str


class Line(NamedTuple):
    """KEY=VALUE below a [SECTION], or an equivalent spelling. source: `path:line`."""

    section: str
    key: str
    value: str
    source: str


#: Words for an interface that a file may use; `vague` are keys for which they prove nothing
Known = Mapping[str, Sequence[str]]

#: Keys of [Link] in systemd.link(5) = our files; the features as in systemd's shared/ethtool-util.c:
#: netdev_feature_table
_SYSTEMD = """
MTUBytes=mtu TransmitQueueLength=tx_queue_len
RxBufferSize=ring/rx RxMiniBufferSize=ring/rx-mini RxJumboBufferSize=ring/rx-jumbo TxBufferSize=ring/tx
RxChannels=channels/rx TxChannels=channels/tx OtherChannels=channels/other
CombinedChannels=channels/combined
RxFlowControl=pause/rx TxFlowControl=pause/tx AutoNegotiationFlowControl=pause/autoneg
UseAdaptiveRxCoalesce=coalesce/adaptive-rx UseAdaptiveTxCoalesce=coalesce/adaptive-tx
CoalescePacketRateLow=coalesce/pkt-rate-low CoalescePacketRateHigh=coalesce/pkt-rate-high
CoalescePacketRateSampleIntervalSec=coalesce/sample-interval
StatisticsBlockCoalesceSec=coalesce/stats-block-usecs
ReceiveChecksumOffload=feature/rx-checksum TransmitChecksumOffload=feature/tx
TCPSegmentationOffload=feature/tx-tcp-segmentation TCP6SegmentationOffload=feature/tx-tcp6-segmentation
GenericSegmentationOffload=feature/tx-generic-segmentation GenericReceiveOffload=feature/rx-gro
GenericReceiveOffloadHardware=feature/rx-gro-hw LargeReceiveOffload=feature/rx-lro
ReceiveVLANCTAGHardwareAcceleration=feature/rx-vlan-hw-parse ReceiveVLANCTAGFilter=feature/rx-vlan-filter
TransmitVLANCTAGHardwareAcceleration=feature/tx-vlan-hw-insert
TransmitVLANSTAGHardwareAcceleration=feature/tx-vlan-stag-hw-insert NTupleFilter=feature/rx-ntuple-filter
ScatterGather=feature/tx-scatter-gather ScatterGatherFragmentList=feature/tx-scatter-gather-fraglist
TCPECNSegmentationOffload=feature/tx-tcp-ecn-segmentation
TCPMangleIdSegmentationOffload=feature/tx-tcp-mangleid-segmentation
GenericReceiveOffloadList=feature/rx-gro-list GenericReceiveOffloadUDPForwarding=feature/rx-udp-gro-forwarding
ReceivePacketSteeringCPUMask=rps/cpus IRQAffinityPolicy=irq/policy IRQAffinity=irq/cpus
IRQAffinityNUMA=irq/nodes
"""
_LINK: Mapping[str, str] = dict(pair.split("=") for pair in _SYSTEMD.split())
#: Files of newer options → first version of systemd with them. The pull request of IRQAffinityPolicy= was
#: merged in 2026, after release 259.
SINCE = {"rps/cpus": 256, **dict.fromkeys(("irq/policy", "irq/cpus", "irq/nodes"), 260)}
#: Lists of CPUs or nodes, to which each further line adds (config_parse_cpu_set)
SETS = ("rps/cpus", "irq/cpus", "irq/nodes")
#: RxCoalesceIrqSec is coalesce/rx-usecs-irq, TxMaxCoalescedFrames is coalesce/tx-frames
_COALESCE = regex(r"(Rx|Tx)(?:Max)?Coalesced?(Irq|Low|High)?(Sec|Frames)\Z")
#: netplan-yaml(5) has some of these words as well: receive-checksum-offload
_NETPLAN = {key.lower(): file for key, file in _LINK.items() if key.endswith("Offload")}
#: nm-settings-keyfile(5); nm-settings-ifcfg-rh(5), without sections; interfaces(5)
_MTU = (("ethernet", "mtu"), ("802-3-ethernet", "mtu"), ("infiniband", "mtu"), ("", "MTU"), ("iface", "mtu"))
_KEYS = {
    **dict.fromkeys((*_MTU, ("netplan", "mtu")), "mtu"),
    ("link", "tx-queue-length"): "tx_queue_len",
    ("ethtool", "fec-mode"): "fec/encoding",
    ("dcb", "priority-flow-control"): "dcb/pfc",
    ("dcb", "priority-group-bandwidth"): "dcb/ets",
    ("dcb", "priority-traffic-class"): "dcb/ets",
}
#: Options of NetworkManager's [ethtool], and of Debian's package ethtool in interfaces(5): group and field
_OPTION = regex(
    r"(?:ethernet-|hardware-irq-|hardware-dma-)?(ring|channels|coalesce|pause|feature|offload)-([a-z0-9_-]+)\Z"
)
#: Options of ethtool(8) that set a value → the group of our files
_GROUPS = {
    "-G": "ring", "--set-ring": "ring", "-L": "channels", "--set-channels": "channels",
    "-C": "coalesce", "--coalesce": "coalesce", "-A": "pause", "--pause": "pause",
    "-K": "feature", "--features": "feature", "--offload": "feature",
    "--set-fec": "fec", "--set-priv-flags": "private-flag",
}  # fmt: skip
_ETHTOOL = regex(rf"(?:^|\s)({'|'.join(_GROUPS)})\s+(\S+)\s+([^;&|<>)}}]*)", re.ASCII)
#: Options of `ip link set` and ifconfig
_IP = regex(r"\b(mtu|txqueuelen|txqlen)\s+([0-9]+)", re.ASCII)
_VARIABLE = regex(r"\$(?:\{(?:IFACE|DEVICE)\}|(?:IFACE|DEVICE)\b)", re.ASCII)

#: basic/parse-util.c: parse_boolean of systemd; the others accept some of these
_SWITCHES = {**dict.fromkeys(systemd_conf.YES, "on"), **dict.fromkeys(systemd_conf.NO, "off")}
#: systemd.time(7); a number alone is in seconds
_MICROSECONDS = {"": 10**6, "s": 10**6, "sec": 10**6, "ms": 1000, "msec": 1000, "us": 1, "usec": 1, "µs": 1}
_SPAN = regex(r"([0-9]{1,9})\s*([a-zµ]*)\Z", re.ASCII)
_SIZE = regex(r"([0-9]{1,9})([KMG])\Z", re.ASCII)


def file_of(line: Line) -> str:
    """The knob that a line sets; empty if mlnode does not have it."""
    known = _KEYS.get((line.section, line.key), "")
    option = _OPTION.match(line.key) if line.section in ("ethtool", "iface") else None
    if option:
        return f"{option[1].replace('offload', 'feature')}/{option[2]}"
    if line.section == "netplan":
        return known or _NETPLAN.get(line.key.replace("-", ""), "")
    coalesce = _COALESCE.match(line.key)
    if line.section == "Link" and coalesce:
        parts = (coalesce[1], "usecs" if coalesce[3] == "Sec" else "frames", coalesce[2] or "")
        return f"coalesce/{'-'.join(parts).strip('-').lower()}"
    return _LINK.get(line.key, "") if line.section == "Link" else known


def value_of(file: str, text: str, key: str = "") -> str:
    """A text in the kernel's spelling for a file; empty if it leaves the value unchanged. Unknown spellings
    are returned unchanged.
    """
    group, _slash, name = file.rpartition("/")
    if group in ("feature", "pause", "private-flag") or name.startswith("adaptive-"):
        return _SWITCHES.get(text.lower(), text)
    if file == "fec/encoding":  # Bits as in libnm-core, NMSettingEthtoolFecMode
        mask = values.number(text)
        return text.lower() if mask is None else ethtool_words.fec(mask) if 1 < mask < 1 << 32 else ""
    if file in SETS:  # As in cpulist.parse(); `disable` is an empty mask
        return ",".join(re.split(r"[\s,]+", text.strip())) if text != "disable" else "off"
    if file == "dcb/pfc":  # A flag for each priority, as in dcb(8): the enabled ones
        flags = re.split(r"[,;]", text.strip(" ;"))
        return ",".join(str(place) for place, flag in enumerate(flags) if flag.strip() == "1") or "none"
    size, span = _SIZE.match(text), _SPAN.match(text)
    if size and file == "mtu":
        return str(int(size[1]) << 10 * " KMG".index(size[2]))
    if span and span[2] in _MICROSECONDS and key.endswith("Sec"):
        total = int(span[1]) * _MICROSECONDS[span[2]]
        return str(total // 10**6 if name == "sample-interval" else total)
    return "" if text in ("auto", "-1") or (file, text) == ("mtu", "0") else text


def commands(text: str, own: str, name: str) -> Iterator[tuple[str, str]]:
    """File and value of each command of ethtool, ip or ifconfig for an interface. own: interface that the
    line runs for.
    """
    text = _VARIABLE.sub(lambda _match: own, re.sub("[\"']", " ", text))
    for option, interface, rest in _ETHTOOL.findall(text):
        words = rest.split() if interface == name else ()
        for field, word in zip(words[::2], words[1::2]):
            file = f"{_GROUPS[option]}/{field}"
            yield file, value_of(file, word)
    if re.search(r"\b(?:ip|ifconfig)\b", text) and name in text.split():
        for field, number in _IP.findall(text):
            yield "mtu" if field == "mtu" else "tx_queue_len", number


def lines(text: str, path: str) -> list[Line]:
    """Lines of the form KEY=VALUE that are not comments."""
    entries, section = [], ""
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        key, equals, rest = line.partition("=")
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif equals and not line.startswith(("#", ";")):
            word = re.split(r"\s#", rest)[0].strip().strip("\"'")
            entries.append(Line(section, key.strip(), word, source(path, number)))
    return entries


def systemd_lines(text: str, path: str) -> list[Line]:
    """As lines(), by the rules of systemd.syntax(7)."""
    return [
        Line(line.section[1:-1], line.key, line.value, source(path, line.number))
        for line in systemd_conf.of_text(text, path)
    ]


def source(path: str, number: int) -> str:
    return f"{printable(path)}:{number}"


#: Section and key → property by which it matches an interface
_ASKS = {
    ("Match", "Name"): "name", ("Match", "OriginalName"): "name",
    ("Match", "MACAddress"): "mac", ("Match", "PermanentMACAddress"): "mac",
    ("Match", "Driver"): "driver", ("Match", "Path"): "path", ("Match", "Type"): "type",
    ("connection", "interface-name"): "name", ("connection", "type"): "type",
    ("match", "interface-name"): "name", ("match", "driver"): "driver", ("match", "path"): "path",
    ("ethernet", "mac-address"): "mac", ("802-3-ethernet", "mac-address"): "mac",
    ("", "DEVICE"): "name", ("", "HWADDR"): "mac",
}  # fmt: skip
#: Section, key and switch that disable a file
_OFF = {("Link", "Unmanaged", "on"), ("connection", "autoconnect", "off"), ("", "ONBOOT", "off")}
#: ARPHRD_* of include/uapi/linux/if_arp.h → as systemd and NetworkManager spell them
_TYPES = {"1": ("ether", "ethernet", "802-3-ethernet"), "32": ("infiniband",)}
#: addr_assign_type and name_assign_type of include/uapi/linux/netdevice.h: NET_ADDR_PERM, NET_NAME_RENAMED
_PERMANENT, _RENAMED = "0", "4"


def index(host: Host, name: str) -> int | None:
    return values.number(host.value(f"{_NETS}/{name}/ifindex").text)


def known(host: Host, target: Target) -> Known:
    """Properties from sysfs and udev's data. Never raises: an unreadable property is left out."""
    net = f"{_NETS}/{target.name}"
    udev = host.value(f"/run/udev/data/n{index(host, target.name)}").text or ""
    own = host.value(f"{net}/bonding_slave/perm_hwaddr").text or ""
    vague = ["OriginalName"] if host.value(f"{net}/name_assign_type").text == _RENAMED else []
    if not own and host.value(f"{net}/addr_assign_type").text != _PERMANENT:
        vague += ["PermanentMACAddress", "mac-address", "HWADDR"]
    return {
        "name": [target.name],
        "mac": [mac(address) for address in (target.mac, own) if address],
        "driver": [target.driver] if target.driver else [],
        "path": re.findall("^E:ID_PATH=(.+)", udev, re.MULTILINE),
        "type": _TYPES.get(host.value(f"{net}/type").text or "", ()),
        "vague": vague,
    }


def concerns(file_lines: Sequence[Line], interface: Known) -> bool | None:
    """True if a file is for an interface; None if a plain search cannot decide."""
    asked: dict[tuple[str, str], list[str]] = {}
    for line in file_lines:
        ask = (line.section, line.key)
        if (*ask, _SWITCHES.get(line.value.lower())) in _OFF:
            return False
        if ask in _ASKS or line.section.lower() == "match":
            patterns = re.split(r"[\s;]+", line.value.strip(";"))
            # An empty value cancels earlier ones.
            asked[ask] = [*asked.get(ask, ()), *patterns] if line.value else []
    asked = {ask: patterns for ask, patterns in asked.items() if patterns}
    # A type only narrows a name or an address. In a bond's profile it is the type of the bond.
    counted = [ask for ask in asked if _ASKS.get(ask) != "type"] or [*asked]
    answers = [_answer(ask, asked[ask], interface) for ask in counted]
    return False if False in answers else None if None in answers or not answers else True


def _answer(ask: tuple[str, str], patterns: Sequence[str], interface: Known) -> bool | None:
    fact = _ASKS.get(ask, "")
    texts = interface.get(fact)
    # systemd inverts all patterns of a key at once but no addresses, NetworkManager each.
    inverted = ask[0] == "Match" and fact != "mac" and patterns[0][:1] == "!"
    patterns = [patterns[0][inverted:], *patterns[1:]]
    if not texts or any(pattern[:1] in ("!", "|", "&", "\\") for pattern in patterns):
        return None
    wanted = [mac(pattern) for pattern in patterns] if fact == "mac" else patterns
    if ask[1] in interface["vague"] and "*" not in wanted:
        return None
    return any(_fits(pattern, text) for pattern in wanted for text in texts) != inverted


def mac(text: str) -> str:
    """An address in the kernel's spelling, also from 00-11-.. and 0011.2233.. (systemd.link(5))."""
    digits = re.sub(r"[:.-]", "", text.strip().lower())
    return ":".join(digits[place : place + 2] for place in range(0, len(digits), 2))


def _fits(pattern: str, text: str) -> bool:
    try:
        return fnmatch.fnmatchcase(text, pattern)
    except re.error:  # Such as [z-a]: Python 3.8 rejects it, later versions match nothing
        return False
