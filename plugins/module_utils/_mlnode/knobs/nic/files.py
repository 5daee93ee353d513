# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of one knob on one NIC, and the wanted value of each."""

from __future__ import annotations

from typing import Sequence

from ...drivers.ethtool import words
from ...host.host import Host
from ...model import values
from ...model.errors import HostError
from ...model.setting import KnobFile, Write
from ...model.values import fits
from ..nics.targets import SYSFS, above, beneath
from ..summary import Files, Target
from . import auto
from .parse import Amount, NicSetting, path_of

#: Groups whose numbers drivers round: vmxnet3 to 32 times the buffers of a packet, i40e to steps of 2 us
_ROUNDED = frozenset({"ring", "channels", "coalesce"})

#: Not part of `tso`, as they change packets (networking/segmentation-offloads.rst, mangled IDs)
_APART = frozenset({"tx-tcp-mangleid-segmentation"})

_GENERIC_CHECKSUM = "tx-checksum-ip-generic"


def target_files(host: Host, setting: NicSetting, target: Target) -> Files:
    """All files of a setting on one NIC."""
    files = Files(target)
    try:
        if setting.amount is not None and setting.group == "mtu":
            _mtu(host, setting, setting.amount, files)
        elif setting.amount is not None:
            _amounts(host, setting, setting.amount, files)
        elif setting.group == "feature":
            _features(host, setting, files)
        else:
            _part(host, setting, files, setting.field, setting.text)
        if files.parts:
            files.blocked = host.blocked(files.parts[0].path)
    except HostError as error:  # The list cannot be read
        files.problems.append(str(error))
    return files


def _part(host: Host, setting: NicSetting, files: Files, name: str, want: str, answer: str = "") -> None:
    """answer: the kernel's reason why the value is not in effect although it was requested."""
    interface = files.target.name
    path = path_of(interface, setting.group, name)
    now = files.read(host, path)
    if now is None:
        return
    # Many drivers report all that the port could do (ice, bnxt_en, cxgb4: get_fecparam).
    among = setting.group == "fec"
    if among and fits(now, want, among):
        now = want
    files.parts.append(
        KnobFile(
            number=0,
            path=path,
            runtime=now,
            want=want,
            undo=(Write(path, _undone(setting, now)), *_moved_along(host, interface, setting, want)),
            device=f"/sys/class/net/{interface}",
            joined=path.rpartition("/")[0] if _is_joined(setting) else "",
            answer=answer,
            advice=_advice(host, setting, interface),
            rounds=setting.group in _ROUNDED,
            among=among,
        )
    )


def _moved_along(host: Host, interface: str, setting: NicSetting, want: str) -> list[Write]:
    """Writes that restore the MTU of interfaces above, such as VLANs, the nearest first.

    A smaller MTU also reduces theirs, and a larger one does not restore them (net/8021q/vlan.c:
    vlan_device_event). None may exceed the MTU of the interface below.
    """
    if setting.group != "mtu":
        return []
    paths = [path_of(upper, "mtu", "") for upper in above(host, interface)]
    mtus = [(path, (host.value(path).text or "").strip()) for path in paths]
    return [Write(path, mtu) for path, mtu in mtus if (values.number(mtu) or 0) > int(want)]


def _is_joined(setting: NicSetting) -> bool:
    """True if a field can share a write with others. mlx5 ignores numbers in the call that ends adaptive
    moderation (mellanox/mlx5/core/en_ethtool.c: mlx5e_ethtool_set_coalesce).
    """
    return setting.group not in (*SYSFS, "fec") and not setting.field.startswith("adaptive-")


def _undone(setting: NicSetting, now: str) -> str:
    """The value to restore: `auto` if a driver reports it among other FEC modes."""
    return "auto" if setting.group == "fec" and "auto" in now.split() else now


def _advice(host: Host, setting: NicSetting, interface: str) -> str:
    """Advice on pause frames. Many drivers ignore declared ones while these are negotiated
    (intel/igb/igb_ethtool.c: igb_set_pauseparam).
    """
    if setting.group != "pause" or setting.field == "autoneg":
        return ""
    negotiated = host.value(path_of(interface, "pause", "autoneg")).text == "on"
    return "the link negotiates pause frames: declare autoneg: false with it" if negotiated else ""


# -- MTU -----------------------------------------------------------------------------------


def _mtu(host: Host, setting: NicSetting, amount: Amount, files: Files) -> None:
    """The maximum is queried only if the MTU has to grow; the present one is always possible."""
    text = files.read(host, path_of(files.target.name, "mtu", ""))
    now = values.number(text)
    if now is None:
        return
    want = max(now, amount.number) if amount.word == "at_least" else amount.number
    most = _largest_mtu(host, files.target.name) if want > now else None
    if most is not None and want > most:
        _beyond(setting, files, f"asked for an MTU of {amount}, and the most it has is {most}")
        want = max(now, most)
    _part(host, setting, files, "", str(want))


def _largest_mtu(host: Host, name: str) -> int | None:
    """The least maximum of an interface and of those below it, to which a bond passes its MTU."""
    # Imported here: it takes 5 ms, and most MTUs are right.
    from ...linux import iproute

    try:
        known = iproute.largest_mtus(host)
    except HostError:
        return None  # The kernel itself then refuses an MTU that is too large
    return min(
        (known[interface] for interface in (name, *beneath(host, name)) if interface in known), default=None
    )


def _beyond(setting: NicSetting, files: Files, note: str) -> None:
    if setting.rule.beyond_max == "fail":
        files.invalid = f"{files.label}: {note}"
    else:
        files.clamped = note


# -- amounts -------------------------------------------------------------------------------


def _amounts(host: Host, setting: NicSetting, amount: Amount, files: Files) -> None:
    left: list[str] = []
    for name in [setting.field] if setting.field else _channel_kinds(host, files):
        path = path_of(files.target.name, f"{setting.group}/max", name)
        text = files.read(host, path)
        if text is None:
            return
        maximum = int(text)
        want = auto.resolved(host, setting.rule, files.target, setting.group, name, amount, maximum)
        files.note(want.note)
        files.clamped = want.clamped or files.clamped
        if want.number is None:
            left.append(files.read(host, path_of(files.target.name, setting.group, name)) or "")
            continue
        kept = _kept(host, setting, amount, files, name, want.number)
        if amount.word == "number" and amount.number > maximum:
            note = f"asked for {amount.number} {_nouns(setting, name)}, and the most it has is {maximum}"
            _beyond(setting, files, note)
        if kept is not None:
            files.clamped = ""
            files.note(f"{kept} is more than its formula would make it, and is kept")
        _part(host, setting, files, name, str(want.number if kept is None else kept))
    if left:
        files.kept = f"{', '.join(dict.fromkeys(left))} [left]"


def _kept(host: Host, setting: NicSetting, amount: Amount, files: Files, name: str, want: int) -> int | None:
    """Entries of a ring that exceeds the formula, up to a declared bound; else None. The driver or an
    operator has already allocated that memory.
    """
    if setting.group != "ring" or amount.word not in ("auto", "at_most"):
        return None
    now = values.number(files.read(host, path_of(files.target.name, setting.group, name))) or 0
    kept = min(now, amount.number) if amount.word == "at_most" else now
    return kept if kept > want else None


def _nouns(setting: NicSetting, name: str) -> str:
    return f"{name} {'ring entries' if setting.group == 'ring' else 'channels'}"


def _channel_kinds(host: Host, files: Files) -> Sequence[str]:
    if not host.names(f"/ethtool/{files.target.name}/channels/max"):
        files.read(host, path_of(files.target.name, "channels/max", "combined"))
    return auto.kinds_in_use(host, files.target.name)


# -- features ------------------------------------------------------------------------------


def _features(host: Host, setting: NicSetting, files: Files) -> None:
    """One part for each kernel feature of a name, see words.members()."""
    folder = f"/ethtool/{files.target.name}/feature"
    here = [name for name in host.names(folder) if name not in ("fixed", "requested")]
    if not here:
        files.read(host, f"{folder}/{setting.field}")
        return
    names = [name for name in words.members(setting.field, here) if name not in _APART - {setting.field}]
    if not names:
        near = words.meant(setting.field)
        if near:
            files.invalid = f"no kernel has a feature {setting.field}; did you mean {near}?"
            files.problems.append(files.invalid)
        files.lacking = f"this kernel has no feature {setting.field}"
        return
    state = {name: files.read(host, f"{folder}/{name}") for name in names}
    fixed = {name: files.read(host, f"{folder}/fixed/{name}") == "yes" for name in names}
    if files.problems:
        return
    for name in _demanded(setting, state, fixed):
        asked = not fixed[name] and host.value(f"{folder}/requested/{name}").text == setting.text
        # Repeating the request has no effect: the kernel switches it as soon as it can.
        waits = f"{name} is requested, but {state[name]} while a feature that it needs is off"
        answer = waits if asked and state[name] != setting.text else ""
        _part(host, setting, files, name, setting.text, answer)
    stuck = [part.path.rpartition("/")[2] for part in files.parts if fixed[part.path.rpartition("/")[2]]]
    if any(part.differs for part in files.parts if part.path.rpartition("/")[2] in stuck):
        files.parts.clear()
        other = "off" if setting.text == "on" else "on"
        files.lacking = f"the driver {files.target.driver} keeps {setting.field} {other} [fixed]"
    elif stuck and len(stuck) == len(files.parts):
        files.kept = f"{setting.text} [fixed]"
        files.parts.clear()


def _demanded(setting: NicSetting, state: dict[str, str | None], fixed: dict[str, bool]) -> Sequence[str]:
    """The members that have to change for a family; fixed ones only if there are no others."""
    free = [name for name in state if not fixed[name]]
    if setting.text == "off":
        stuck = [name for name in state if fixed[name] and state[name] == "on"]
        return stuck or free or list(state)
    active = [name for name in state if state[name] == "on"]
    if words.family(setting.field) in words.ONE_IS_ENOUGH:
        if active:
            return active
        if _GENERIC_CHECKSUM in free:
            return [_GENERIC_CHECKSUM]
    if free:
        return free
    return active or list(state)
