# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse and check a sysctl declaration, as far as that is possible without a kernel."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator, Mapping

from ...engine.kind import Facts
from ...linux import sysctl_aliases, sysctl_values
from ...linux.sysctl_d import dotted, parts, slashed
from ...model.errors import DeclarationError
from ...model.record import NamedTuple, regex
from ...model.schema import Checked
from ...model.setting import Setting
from ...model.values import integers, number_ranges, same, tokens
from .. import sizing
from ..sizing import Sizing

_KEY = regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/+-]*\Z", re.ASCII)
#: vm.nr_hugepages@node0 and vm.nr_hugepages@node0/1048576kB: one NUMA node's share of the pool
_NODE_PAGES = regex(r"vm\.nr_hugepages@node(0|[1-9][0-9]{0,3})(?:/([1-9][0-9]{0,9})kB)?\Z", re.ASCII)
#: All that numbers, lists, names and paths in /proc/sys need; no line end, no shell character
_VALUE = regex(r"[A-Za-z0-9 \t_.,:+/%@=-]*\Z", re.ASCII)

_FORM = "a number, a text, `auto`, {at_least: N}, {exactly: N} or, for huge pages, {for_bytes: N}"

#: Files that trigger an action when written, and hold no state (vm.rst, ip-sysctl.rst)
ACTIONS = frozenset(
    {
        "vm.drop_caches",
        "vm.compact_memory",
        "vm.stat_refresh",
        "net.ipv4.route.flush",
        "net.ipv6.route.flush",
    }
)

GC_THRESH = tuple(f"net.{family}.neigh.default.gc_thresh" for family in ("ipv4", "ipv6"))

#: Other keys for a pool, which already has a key
ALIASES = {"vm.nr_hugepages_mempolicy": "vm.nr_hugepages or vm.nr_hugepages@nodeN"}

MIGRATION_COST = "kernel.sched_migration_cost_ns"


def sibling(key: str) -> str | None:
    """The other half of a ratio/bytes family."""
    other = sysctl_aliases.sibling(slashed(key))
    return dotted(other) if other else None


def conflicts(key: str) -> tuple[str, ...]:
    """Keys that exclude this one, whatever their values. Per-node shares are matched by their prefix."""
    other = sibling(key)
    if other:
        return (other,)
    share = node_pages(key)
    # Pools of another page size are independent.
    return ("vm.nr_hugepages",) if share and share[1] is None else ()


def twins(setting: Setting, others: Mapping[str, Setting]) -> Iterator[Setting]:
    """Settings with another value for the same variable of the kernel under another name."""
    for name, shows in sysctl_aliases.twins(slashed(setting.key)).items():
        other = others.get(dotted(name))
        if other is None or (other.claim, other.raise_only) == (setting.claim, setting.raise_only):
            continue
        literal = not (other.raise_only or setting.raise_only) and other.want and setting.want
        shown = shows(other.want or "", "") if literal else None
        if shown is None or not same(shown, setting.want or ""):
            yield other


def node_pages(key: str) -> tuple[int, int | None] | None:
    """NUMA node and page size in kB (None: the default size) of a per-node key."""
    match = _NODE_PAGES.match(key)
    if not match:
        return None
    return int(match.group(1)), int(match.group(2)) if match.group(2) else None


def parse(given: Checked, facts: Facts | None) -> list[Setting]:
    """All settings of one declaration. Raises DeclarationError with the key and a correction."""
    size = Sizing(**given.get("sizing", {}))
    settings: dict[str, Setting] = {}
    for raw_key, raw_value in given.get("settings", {}).items():
        key = canonical(raw_key)
        setting = _setting(key, raw_value, size, facts)
        if key in settings and settings[key].claim != setting.claim:
            raise DeclarationError(
                f"{key} is declared twice, as {settings[key].claim!r} and {setting.claim!r}: keep one"
            )
        settings[key] = setting
    _refuse_families(settings)
    # Keys that change the files of interfaces are written first, at run time and in the drop-in.
    return sorted(
        settings.values(), key=lambda setting: not sysctl_aliases.moves_others(slashed(setting.key))
    )


def canonical(key: str) -> str:
    """The one spelling of a key; VLAN interfaces keep theirs (net.ipv4.conf.eth0/100.rp_filter)."""
    if _NODE_PAGES.match(key):
        return key
    if not _KEY.match(key) or any(part in ("", ".", "..") for part in parts(key)):
        raise DeclarationError(
            f"sysctl key {key!r}: not a name below /proc/sys, such as vm.swappiness or "
            "net.ipv4.conf.eth0/100.rp_filter"
        )
    name = dotted(slashed(key))
    if name in ALIASES:
        raise DeclarationError(f"{name}: the same pool as {ALIASES[name]}: declare that")
    if name in ACTIONS:
        raise DeclarationError(f"{name}: writing it is an action, not a state that a node can keep")
    return name


def _setting(key: str, raw: Any, size: Sizing, facts: Facts | None) -> Setting:
    form, raise_only = "", False
    if isinstance(raw, Mapping):
        if len(raw) != 1 or next(iter(raw)) not in ("at_least", "exactly", "for_bytes"):
            raise DeclarationError(f"{key}: {dict(raw)!r} is not {_FORM}")
        form, raw = next(iter(raw.items()))
        if form == "for_bytes":
            return _hugepages_for(key, raw, facts)
        raise_only = form == "at_least"
    text = _text(key, raw)
    claim = f">= {text}" if raise_only else text
    if "auto" not in tokens(text):
        want = _floor(key, text) if raise_only else text
        return Setting("sysctl", key, path_of(key), want, claim, raise_only)
    if form == "exactly":
        raise DeclarationError(
            f"{key}: exactly must be a number or a text, got {text!r}; declare `auto` without it"
        )
    claim += _sized(key, size)
    raise_only = raise_only or key in RAISE_ONLY_AUTO
    computed, explanation, clamped = _resolve(key, text, size, facts)
    return Setting(
        "sysctl", key, path_of(key), computed, claim, raise_only, explanation, clamped, derived=True
    )


def _floor(key: str, text: str) -> str:
    """Target of at_least: for a list, these members among others. A list of one number is spelled as a range,
    to remain a list.
    """
    if sysctl_values.is_list(key) and number_ranges(text):
        return f"{text}-{text}" if integers(text) else text
    if integers(text) is None:
        raise DeclarationError(f"{key}: at_least {text!r} is not an integer, so nothing is greater or less")
    return text


def _text(key: str, raw: Any) -> str:
    if isinstance(raw, bool):
        raise DeclarationError(
            f"{key}: YAML boolean {str(raw).lower()}; the kernel wants a number, so write "
            f"{int(raw)} (an unquoted yes, no, on or off is a boolean too)"
        )
    if isinstance(raw, int):
        return str(raw)
    if not isinstance(raw, str):
        raise DeclarationError(f"{key}: {raw!r} is not {_FORM}")
    if not _VALUE.match(raw):
        bad = sorted({char for char in raw if not _VALUE.match(char)})
        raise DeclarationError(
            f"{key}: value {raw!r} holds {', '.join(map(repr, bad))}, which no setting here needs"
        )
    text = " ".join(tokens(raw))
    sysctl_values.check(key, text)
    return text


def path_of(key: str) -> str:
    """The kernel file of a canonical key; the default huge page size is filled in by the reader."""
    pages = node_pages(key)
    if pages:
        node, size = pages
        return f"/sys/devices/system/node/node{node}/hugepages/hugepages-{size or '@'}kB/nr_hugepages"
    return "/proc/sys/" + slashed(key)


def _refuse_families(settings: Mapping[str, Setting]) -> None:
    for key in settings:
        for other in conflicts(key):
            if other in settings:
                raise DeclarationError(
                    f"{key} and {other} are declared together, but writing one changes the other: "
                    "declare one and leave the other out (null)"
                )
        for twin in twins(settings[key], settings):
            raise DeclarationError(
                f"{key} ({settings[key].claim!r}) and {twin.key} ({twin.claim!r}) are two names of one "
                "variable of the kernel: declare one and leave the other out (null)"
            )


# -- automatic values ----------------------------------------------------------------------


class Computed(NamedTuple):
    """A number, an explanation, and both for a cap of the formula that is below the need."""

    number: int
    words: str
    clamped: str = ""


def _resolve(key: str, text: str, size: Sizing, facts: Facts | None) -> tuple[str | None, str, str]:
    """The value with each `auto` token computed, and the words of Computed."""
    formula = _AUTO.get(key)
    if formula is None:
        raise DeclarationError(f"{key}: no formula for `auto`; there is one for {', '.join(sorted(_AUTO))}")
    if key.startswith(GC_THRESH) and (size.hosts is None or size.rails is None):
        raise DeclarationError(f"{key}: `auto` needs sizing.hosts and sizing.rails")
    if facts is None:
        return None, "", ""
    computed = formula(facts, size)
    want = " ".join(str(computed.number) if word == "auto" else word for word in tokens(text))
    return want, computed.words, computed.clamped


def _sized(key: str, size: Sizing) -> str:
    """Inputs that are not the default, which explain a difference between two `auto` values of one key."""
    inputs = ("hosts", "rails") if key.startswith(GC_THRESH) else _INPUTS.get(key, ("rtt_us",))
    usual = Sizing()
    odd = [f"{name} {getattr(size, name)}" for name in inputs if getattr(size, name) != getattr(usual, name)]
    return f" ({', '.join(odd)})" if odd else ""


_FOR_BYTES = "auto for {} bytes"


def bytes_of(setting: Setting) -> int | None:
    """Bytes that a pool has to hold; None if it is declared as a number of pages."""
    match = re.fullmatch(_FOR_BYTES.format("([0-9]+)"), setting.claim)
    return int(match.group(1)) if match else None


def _hugepages_for(key: str, raw: Any, facts: Facts | None) -> Setting:
    pages = node_pages(key)
    if key != "vm.nr_hugepages" and not pages:
        raise DeclarationError(f"{key}: for_bytes is for vm.nr_hugepages and vm.nr_hugepages@nodeN")
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise DeclarationError(f"{key}: for_bytes {raw!r} is not a number of bytes")
    claim = _FOR_BYTES.format(raw)
    if facts is None:
        return Setting("sysctl", key, path_of(key), None, claim, derived=True)
    page_kb = (pages[1] if pages else None) or facts.hugepage_kbytes()
    if not page_kb:  # A kernel without huge pages, which the reading reports
        return Setting("sysctl", key, path_of(key), None, claim, derived=True)
    want = sizing.hugepages(raw, page_kb * sizing.KIB)
    formula = f"ceil(1.05 × {raw} bytes / {page_kb} kB pages)"
    return Setting("sysctl", key, path_of(key), str(want), claim, formula=formula, derived=True)


def _socket_buffer(facts: Facts, size: Sizing) -> Computed:
    rate = facts.fastest_link_bit_per_s()
    number = sizing.socket_buffer_max(rate, size.rtt_us, facts.memory_bytes())
    need = sizing.socket_buffer_need(rate, size.rtt_us)
    path = f"{f'{rate / 1e9:g} Gb/s' if rate else 'no link reports its speed'}, RTT {size.rtt_us} us"
    clamped = (
        f"{path}: 4 x BDP is {need} bytes, and min(128 MiB, RAM/64) is {number}" if need > number else ""
    )
    return Computed(number, f"{path}: clamp(2^n >= 4 x BDP, 16 MiB, min(128 MiB, RAM/64))", clamped)


def _min_free(facts: Facts, _size: Sizing) -> Computed:
    memory = facts.memory_kbytes()
    return Computed(sizing.min_free_kbytes(memory), f"min(1 GiB, {memory} kB of memory / 200), never lowered")


def _dirty_background(facts: Facts, size: Sizing) -> Computed:
    number = sizing.dirty_background_bytes(facts.memory_bytes(), size.disk_bytes_per_s, size.data_path)
    return Computed(number, _dirty_words("10", "2", size, sizing.NFS_DIRTY_BACKGROUND, sizing.DIRTY_CAP // 5))


def _dirty(facts: Facts, size: Sizing) -> Computed:
    number = sizing.dirty_bytes(facts.memory_bytes(), size.disk_bytes_per_s, size.data_path)
    return Computed(number, _dirty_words("40", "10", size, sizing.NFS_DIRTY, sizing.DIRTY_CAP))


def _dirty_words(percent: str, seconds: str, size: Sizing, nfs: int, cap: int) -> str:
    if size.data_path == "nfs":
        return f"min({percent} % of memory, {nfs} B with NFS), whole MiB"
    return f"min({percent} % of memory, {seconds} s x {size.disk_bytes_per_s} B/s, {cap} B), whole MiB"


def _neighbours(share: int) -> Callable[[Facts, Sizing], Computed]:
    def formula(_facts: Facts, size: Sizing) -> Computed:
        hosts, rails = size.hosts or 1, size.rails or 1
        number = sizing.neighbour_gc_thresh3(hosts, rails) // share
        explanation = f"2^n >= 4 x {hosts} hosts x {rails} rails, 1/{share} of it, never lowered"
        return Computed(max(1, number), explanation)

    return formula


_AUTO: dict[str, Callable[[Facts, Sizing], Computed]] = {
    "net.core.rmem_max": _socket_buffer,
    "net.core.wmem_max": _socket_buffer,
    "net.ipv4.tcp_rmem": _socket_buffer,
    "net.ipv4.tcp_wmem": _socket_buffer,
    "vm.min_free_kbytes": _min_free,
    "vm.dirty_background_bytes": _dirty_background,
    "vm.dirty_bytes": _dirty,
    **{
        f"{key}{number}": _neighbours(share)
        for key in GC_THRESH
        for number, share in ((1, 4), (2, 2), (3, 1))
    },
}

#: Declared inputs of a formula; rtt_us for all others
_INPUTS: dict[str, tuple[str, ...]] = {
    "vm.min_free_kbytes": (),
    "vm.dirty_background_bytes": ("disk_bytes_per_s", "data_path"),
    "vm.dirty_bytes": ("disk_bytes_per_s", "data_path"),
}

#: For these keys `auto` is a minimum. Less than the present value never helps, and new kernels may start
#: higher than the formulas: Linux 6.18 has 32 MiB in tcp_rmem, but 25 Gb/s needs only 16.
RAISE_ONLY_AUTO = frozenset(_AUTO) - {"vm.dirty_background_bytes", "vm.dirty_bytes"}
