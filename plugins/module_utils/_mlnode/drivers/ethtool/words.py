# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that ethtool(8) uses: switches, FEC modes, and families of features such as tso."""

from __future__ import annotations

import fnmatch
from typing import Iterable

from ...model import slips
from ...model.record import NamedTuple

#: In the order of enum ethtool_fec_config_bits, which is also the order of a printed value
FEC = ("none", "auto", "off", "rs", "baser", "llrs")


def switch(on: bool) -> str:
    return "on" if on else "off"


def is_on(name: str, text: str) -> bool:
    """Raises ValueError with a message for an operator."""
    if text not in ("on", "off"):
        raise ValueError(f"{name} is on or off, not {text!r}")
    return text == "on"


def fec(mask: int) -> str:
    """Modes such as `auto rs`; a mode newer than this list as its bit in hexadecimal."""
    bits = [bit for bit in range(32) if mask >> bit & 1]
    return " ".join(FEC[bit] if bit < len(FEC) else f"{1 << bit:#x}" for bit in bits) or FEC[0]


def fec_mask(text: str) -> int:
    """The mask of a text. Raises ValueError with a message for an operator."""
    names = text.split()
    # The kernel refuses `none`: drivers without FEC support report it.
    if not names or any(name not in FEC[1:] for name in names):
        raise ValueError(f"a FEC encoding is one of {', '.join(FEC[1:])}, not {text!r}")
    return sum(1 << FEC.index(name) for name in set(names))


class Family(NamedTuple):
    """short, long: names in `ethtool -K` and `-k`. pattern: of the kernel's names, as in glob(7)."""

    short: str
    long: str
    pattern: str


#: Names and patterns are ethtool's own (common.c: off_flag_def), so they agree with its output. The kernel's
#: masks contain the same bits (net/ethtool/ioctl.c: ethtool_get_feature_mask).
FAMILIES = (
    Family("rx", "rx-checksumming", "rx-checksum"),
    Family("tx", "tx-checksumming", "tx-checksum-*"),
    Family("sg", "scatter-gather", "tx-scatter-gather*"),
    Family("tso", "tcp-segmentation-offload", "tx-tcp*-segmentation"),
    Family("gso", "generic-segmentation-offload", "tx-generic-segmentation"),
    Family("gro", "generic-receive-offload", "rx-gro"),
    Family("lro", "large-receive-offload", "rx-lro"),
    Family("rxvlan", "rx-vlan-offload", "rx-vlan-hw-parse"),
    Family("txvlan", "tx-vlan-offload", "tx-vlan-hw-insert"),
    Family("ntuple", "ntuple-filters", "rx-ntuple-filter"),
    Family("rxhash", "receive-hashing", "rx-hashing"),
)


#: Families that are on if one member is on: checksums of all protocols exclude checksums of single ones
#: (netdev_fix_features in net/core/dev.c), and scatter-gather of fragment lists is for software devices
ONE_IS_ENOUGH = frozenset({"tx", "sg"})


def family(name: str) -> str:
    """The short name of a family, from either name; "" for a single feature."""
    return next((known.short for known in FAMILIES if name in (known.short, known.long)), "")


#: The kernel's names (netdev_features_strings of Linux 4.19, 6.1, 6.12 and 7.3)
_FEATURES = """
tx-scatter-gather tx-checksum-ipv4 tx-checksum-ip-generic tx-checksum-ipv6 highdma
tx-scatter-gather-fraglist tx-vlan-hw-insert rx-vlan-hw-parse rx-vlan-filter tx-vlan-stag-hw-insert
rx-vlan-stag-hw-parse rx-vlan-stag-filter vlan-challenged tx-generic-segmentation tx-lockless netns-local
rx-gro rx-gro-hw rx-lro tx-tcp-segmentation tx-gso-robust tx-tcp-ecn-segmentation
tx-tcp-accecn-segmentation tx-tcp-mangleid-segmentation tx-tcp6-segmentation tx-fcoe-segmentation
tx-gre-segmentation tx-gre-csum-segmentation tx-ipxip4-segmentation tx-ipxip6-segmentation
tx-udp_tnl-segmentation tx-udp_tnl-csum-segmentation tx-gso-partial tx-tunnel-remcsum-segmentation
tx-sctp-segmentation tx-esp-segmentation tx-udp-segmentation tx-gso-list tx-checksum-fcoe-crc
tx-checksum-sctp fcoe-mtu rx-ntuple-filter rx-hashing rx-checksum tx-nocache-copy loopback rx-fcs rx-all
l2-fwd-offload hw-tc-offload esp-hw-offload esp-tx-csum-hw-offload rx-udp_tunnel-port-offload tls-hw-record
tls-hw-tx-offload tls-hw-rx-offload rx-gro-list macsec-hw-offload rx-udp-gro-forwarding
hsr-tag-ins-offload hsr-tag-rm-offload hsr-fwd-offload hsr-dup-offload
"""


def meant(name: str) -> str:
    """Nearest known feature or family for a misspelt name; "" if the name is known, or resembles none."""
    families = (spelling for family in FAMILIES for spelling in (family.short, family.long))
    known = [*_FEATURES.split(), *families]
    near = [(slips.count(name, word, slips.most(word)), word) for word in known]
    number, nearest = min(near)
    return "" if number > slips.most(nearest) or number == 0 else nearest


def members(name: str, features: Iterable[str]) -> tuple[str, ...]:
    """The kernel's features for a name: the members of a family, or the single feature. May be empty."""
    patterns = [family.pattern for family in FAMILIES if name in (family.short, family.long)]
    if not patterns:
        return tuple(feature for feature in features if feature == name)
    return tuple(feature for feature in features if fnmatch.fnmatchcase(feature, patterns[0]))
