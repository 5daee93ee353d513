# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of one knob on one NIC, and the wanted value of each."""

from __future__ import annotations

from typing import Sequence

from ...drivers import dcb, ethtool, roce
from ...drivers.dcb.device import DSCPS, NONE
from ...drivers.roce import model, registry
from ...host.host import Host, Mounts
from ...model.errors import HostError
from ...model.setting import KnobFile, Write
from ...model.values import by_key
from ...topology import hardware
from ...topology.model import RdmaDevice
from ..summary import Files, Target
from .parse import QosSetting

#: Parts of the host that `of` reads
MOUNTS: Mounts = {
    dcb.TOP: dcb.driver,
    roce.TOP: roce.driver,
    ethtool.TOP: ethtool.driver,
}

#: Folders whose files one write sets together, with a single change of the hardware
_TOGETHER = ("/pause", "/dscp-prio")

_NETS = "/sys/class/net"
_INFINIBAND = "InfiniBand"
_RDMA = "/sys/class/infiniband"


def target_files(host: Host, setting: QosSetting, target: Target) -> Files:
    """All files of a setting on one NIC."""
    files = Files(target)
    try:
        _READERS[setting.group](host, setting, files)
        files.parts = _undone_together(files.parts)
        files.blocked = next(filter(None, (host.blocked(part.path) for part in files.parts)), "")
    except HostError as error:  # The list cannot be read
        files.problems.append(str(error))
    return files


def _undone_together(parts: Sequence[KnobFile]) -> list[KnobFile]:
    """Parts that one write sets, to be restored in one write: separate writes could each be a reset."""
    folders = by_key((part.joined, part) for part in parts)
    return [_undone(part, folders[part.joined]) if part.joined else part for part in parts]


def _undone(part: KnobFile, joined: Sequence[KnobFile]) -> KnobFile:
    names = ",".join(knob_file.path.rpartition("/")[2] for knob_file in joined)
    return part._replace(
        undo=(Write(f"{part.joined}/{names}", " ".join(knob_file.runtime for knob_file in joined)),)
    )


def _part(
    host: Host, files: Files, path: str, want: str, device: str = "", mover: Write | None = None
) -> KnobFile | None:
    now = files.read(host, path)
    return None if now is None else _known(files, path, now, want, device, mover)


def _known(
    files: Files, path: str, now: str, want: str, device: str = "", mover: Write | None = None
) -> KnobFile:
    folder, _slash, name = path.rpartition("/")
    part = KnobFile(
        number=0,
        path=path,
        runtime=now,
        want=want,
        undo=(Write(path, now),),
        device=device or f"{_NETS}/{files.target.name}",
        joined=folder if folder.endswith(_TOGETHER) and "," not in name else "",
        moved="PFC is changed before" if mover else "",
        mover=mover,
    )
    files.parts.append(part)
    return part


# -- data center bridging ------------------------------------------------------------------


def _global_pause(host: Host, setting: QosSetting, files: Files) -> None:
    """Both directions, without negotiation.

    Drivers such as igb and ixgbe ignore declared values while they negotiate (intel/igb/igb_ethtool.c:
    igb_set_pauseparam), and a negotiated result changes with the peer. Drivers such as ice apply them, but
    cannot stop negotiation (intel/ice/ice_ethtool.c: ice_set_pauseparam): for these, its state is accepted.
    """
    folder = registry.named(files.target.driver).pause(files.target.name)
    parts = [_part(host, files, f"{folder}/{name}", setting.text) for name in ("rx", "tx")]
    if not all(parts) or host.value(f"{folder}/autoneg").text != "on":
        return
    if setting.text == "off" or any(part.differs for part in parts if part):
        _part(host, files, f"{folder}/autoneg", "off")
        files.parts = [part._replace(negotiated=True) for part in files.parts]
        files.parts[-1] = files.parts[-1]._replace(means=True)


def _trust(host: Host, setting: QosSetting, files: Files) -> None:
    folder = f"/dcb/{files.target.name}"
    part = _part(host, files, f"{folder}/trust/state", setting.text)
    if part is not None and part.differs and setting.text == "pcp":
        # Without trust in DSCPs, the map may be absent.
        path = f"{folder}/dscp-prio/{','.join(str(dscp) for dscp in DSCPS)}"
        entries = files.read(host, path)
        if entries is not None:
            files.parts[-1] = part._replace(undo=(*part.undo, Write(path, entries)))


def _dscp(host: Host, setting: QosSetting, files: Files) -> None:
    folder = f"/dcb/{files.target.name}/dscp-prio"
    now = files.read(host, f"{folder}/{','.join(str(dscp) for dscp in setting.value)}")
    if now is not None:
        for (dscp, priority), text in zip(setting.value.items(), now.split()):
            _known(files, f"{folder}/{dscp}", text, str(priority))


def _pfc(host: Host, setting: QosSetting, files: Files) -> None:
    folder = f"/dcb/{files.target.name}/pfc"
    if _part(host, files, f"{folder}/prio-pfc", setting.text) is None:
        return
    most = _most(host, f"{folder}/pfc-cap", files)
    if most and len(setting.value) > most:
        files.invalid = (
            f"{files.label}: PFC for {len(setting.value)} priorities, and the NIC has it for {most}"
        )


def _ets(host: Host, setting: QosSetting, files: Files) -> None:
    folder = f"/dcb/{files.target.name}/ets"
    if _part(host, files, f"{folder}/prio-tc,tc-tsa,tc-bw", setting.text) is None:
        return
    most = _most(host, f"{folder}/ets-cap", files)
    classes = max(setting.value[0]) + 1
    if most and classes > most:
        files.invalid = f"{files.label}: {classes} traffic classes, and the NIC has {most}"


def _buffer(host: Host, setting: QosSetting, files: Files) -> None:
    folder = f"/dcb/{files.target.name}/buffer"
    path, mover = f"{folder}/prio-buffer,buffer-size", _mover(host, setting, files)
    if _part(host, files, path, setting.text, mover=mover):
        most = _most(host, f"{folder}/total-size", files)
        wanted = sum(setting.value[1])
        if most and wanted > most:
            files.invalid = f"{files.label}: buffers of {wanted} bytes together, and the NIC has {most}"


def _mover(host: Host, setting: QosSetting, files: Files) -> Write | None:
    """Write that moves buffers: a driver resizes them when PFC is set (mellanox/mlx5/core/en_dcbnl.c:
    mlx5e_dcbnl_ieee_setpfc).
    """
    if "pfc" not in setting.rule.given:
        return None
    path = f"/dcb/{files.target.name}/pfc/prio-pfc"
    wanted = ",".join(str(number) for number in setting.rule.given["pfc"]) or NONE
    now = host.value(path).text
    return None if now is None or now == wanted else Write(path, wanted)


def _most(host: Host, path: str, files: Files) -> int:
    """Maximum of the driver; 0 if it reports none."""
    return int(files.read(host, path) or 0)


# -- congestion, and RDMA devices ----------------------------------------------------------


def _by_driver(host: Host, setting: QosSetting, files: Files) -> None:
    """Congestion control: each RDMA driver has its own files."""
    nic = roce_nic(host, files.target)
    answer = registry.named(files.target.driver).knobs(host, nic, setting.group, setting.value)
    files.lacking = answer.lacks
    if answer.managed:
        files.kept = f"{answer.value} [managed]"
        files.managed = 1
        files.note(answer.managed)
    for knob in answer.knobs:
        now = files.take(model.value(host, knob))
        if now is not None:
            _known(files, knob.path, now, knob.want, f"{_RDMA}/{knob.device}" if knob.device else "")
    if files.parts and files.lacking:  # They belong together
        files.problems.append(files.lacking)


def roce_nic(host: Host, target: Target) -> model.Nic:
    """A NIC in the form of its RDMA driver, with its RoCE ports."""
    ports = tuple(
        (device.name, port.number)
        for device in rdma(host, target)
        for port in device.ports
        if port.link_layer != _INFINIBAND
    )
    return model.Nic(target.name, target.address, ports)


def _marking(host: Host, setting: QosSetting, files: Files) -> None:
    """Headers of RDMA packets, for each port."""
    file = {"rdma_cm_tos": "cm-tos", "traffic_class": "traffic-class"}[setting.group]
    devices = rdma(host, files.target)
    if not devices:
        files.lacking = model.NO_DEVICE
    for device in devices:
        for port in device.ports:
            if port.link_layer == _INFINIBAND:
                files.lacking = f"{device.name} is InfiniBand, which has service levels instead"
                continue
            path = f"/roce/{device.name}/{port.number}/{file}"
            _part(host, files, path, setting.text, device=f"{_RDMA}/{device.name}")


def rdma(host: Host, target: Target) -> list[RdmaDevice]:
    """RDMA devices of a NIC. A bond's RDMA device belongs to its first member's function."""
    return [
        device
        for device in hardware.topology(host).rdma
        if target.name in device.netdevs or (target.address and device.address == target.address)
    ]


_READERS = {
    "global_pause": _global_pause,
    "trust": _trust,
    "dscp": _dscp,
    "ets": _ets,
    "pfc": _pfc,
    "buffer": _buffer,
    "ecn": _by_driver,
    "cnp_dscp": _by_driver,
    "cnp_priority": _by_driver,
    "rdma_cm_tos": _marking,
    "traffic_class": _marking,
}
