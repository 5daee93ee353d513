# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A store names what a run can have written and nothing else, whatever the store holds."""

from __future__ import annotations

import fnmatch
import json
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from mlnode.engine import confirm_store, engine, origin, revert
from mlnode.engine import failed_changes as held
from mlnode.engine import units as agent_files
from mlnode.engine.origin import Origin
from mlnode.host import places
from mlnode.host.places import AGENT_COMMAND
from mlnode.knobs.boot import loaders as boot_loaders
from mlnode.knobs.irq import files as irq_files
from mlnode.knobs.irq import irqbalance as irq_policy
from mlnode.knobs.limits import pam as limits_pam
from mlnode.knobs.modules import kind as modules
from mlnode.knobs.nccl import file as nccl_file
from mlnode.knobs.services import kind as services
from mlnode.knobs.services import known as services_known
from mlnode.knobs.sysctl import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.linux import irqbalance
from mlnode.loader import bls as boot_bls
from mlnode.loader import grub as boot_grub
from mlnode.model.errors import StoreError
from mlnode.model.setting import KnobFile
from mlnode.topology import management

SWAPPINESS = "/proc/sys/vm/swappiness"
NAME = "a-name_1"
DEEP = 200_000

#: As a run makes them
KERNEL: dict[str, Any] = {
    "id": f"kernel:{SWAPPINESS}", "key": "vm.swappiness", "value": "60", "writes": [[SWAPPINESS, "60"]],
}  # fmt: skip
FILE: dict[str, Any] = {
    "id": "file:/etc/nccl.conf", "key": "/etc/nccl.conf", "value": "present", "file": "/etc/nccl.conf",
    "folders": ["/etc"], "saved": {"content": "eA==", "mode": 0o644, "uid": 0, "gid": 0},
}  # fmt: skip
MODULE: dict[str, Any] = {
    "id": "module:tcp_bbr", "key": "module tcp_bbr", "value": "not loaded", "module": "tcp_bbr",
}  # fmt: skip

#: Every file that a kind, the agent or a store has a name for
WRITTEN = [
    AGENT_COMMAND,
    *agent_files.TEXTS,
    *agent_files.LINKS,
    f"/etc/mlnode/declared.d/{NAME}.json",
    management.RECORD,
    irqbalance.IRQBALANCE_POLICY,
    irqbalance.IRQBALANCE_LINK,
    f"{irq_policy.LISTS}/{NAME}",
    "/etc/systemd/system/irqbalance.service.d/zz-mlnode-irq.default.conf",
    f"{sysctl.DROP_IN}{NAME}.conf",
    f"{sysctl.MODULES_FILE}{NAME}.conf",
    f"{modules.DROP_IN}{NAME}.conf",
    f"{limits_pam.FOLDER}/zz-mlnode-{NAME}.conf",
    f"/etc/systemd/system.conf.d/zz-mlnode-{NAME}.conf",
    f"/etc/systemd/system/slurmd.service.d/zz-mlnode-{NAME}.conf",
    *(services.drop_in(unit, NAME) for unit in services_known.UNITS),
    boot_loaders.drop_in(NAME),
    boot_grub.DEFAULTS,
    boot_bls.CMDLINE,
    f"{boot_bls.ENTRIES}/0123456789abcdef-6.1.0-1.x86_64.conf",
    nccl_file.PATH,
]

SET = [
    SWAPPINESS,
    "/proc/sys/net/ipv4/conf/eth0.100/rp_filter",
    "/proc/irq/40/smp_affinity_list",
    irq_files.FLOW_TABLE,
    f"{THP}/khugepaged/defrag",
    "/sys/kernel/debug/sched/migration_cost_ns",
    "/sys/kernel/debug/mlx5/0000:01:00.0/cc_params/np_cnp_dscp",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us",
    "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
    "/sys/class/net/eth0/mtu",
    "/sys/class/net/eth0/queues/rx-0/rps_cpus",
    "/sys/class/net/eth0/ecn/roce_np/enable/3",
    "/ethtool/eth0/ring/rx,tx",
    "/dcb/eth0/ets/prio-tc",
    "/roce/mlx5_0/1/cm-tos",
    "/roce/bnxt_re0/1/cnp-dscp",
    "/dcb/eth2/dcqcn/state",
    "/sys/kernel/debug/bnxt_re/0000:41:00.0/cc_config/enable_cc",
    "/service/tuned.service/state",
    "/gpu/0000:01:00.0/persistence",
]

NEVER = [
    "/etc/sudoers.d/x", "/etc/passwd", "/etc/shadow", "/etc/nccl.conf/../shadow", "/etc/mlnode/../shadow",
    "/etc/mlnode", "/etc/mlnode/", "/etc/mlnodes/x", "/etc/mlnode/./x", "/etc/default/grub2",
    "/etc/default/grub\n", "/root/.ssh/authorized_keys", "/usr/local/bin/mlnode2", "/usr/local/bin/sh",
    "/etc/systemd/system/x.service", "/etc/systemd/system/../../x.service.d/zz-mlnode-a.conf",
    "/etc/systemd/system/sshd.service.d/override.conf", "/etc/sysctl.d/zz-mlnode-.conf",
    "/etc/sysctl.d/zz-mlnode-a/../../x.conf", "/etc/sysctl.d/zz-mlnode-A.conf", "etc/nccl.conf",
    "//etc/nccl.conf", "/boot/loader/entries/../../../etc/x.conf", "/boot/grub/grub.cfg", "", "/",
    "/etc/default/../sudoers.d/irqbalance", "/proc/sys/vm/swappiness", "/sys/power/state", "/dev/sda",
    "/var/lib/mlnode/origin.json", "/run/mlnode/failed/eth0",
]  # fmt: skip

NEVER_SET = [
    "/proc/sysrq-trigger", "/proc/sys", "/proc/sys/", "/proc/sys/vm/../../sysrq-trigger", "/proc/1/mem",
    "/sys/power/state", "/sys/block/sda/device/delete", "/sys/class/net", "/sys/class/net/eth0",
    "/sys/class/net/../../power/state", "/sys/kernel/security/lockdown", "/dev/mem", "/etc/passwd",
    "/proc/irq/x/smp_affinity_list", "proc/sys/vm/swappiness", "/proc/sys//vm", "/service", "",
    "/sys/devices/system/cpu/./online",
    "/sys/devices/system/cpu/cpu1/online", "/sys/devices/system/cpu/cpu1/hotplug/target",
    "/sys/devices/system/cpu/microcode/reload", "/sys/devices/system/cpu/probe",
    "/sys/class/net/eth0/device/remove", "/sys/class/net/eth0/device/driver/unbind",
    "/sys/class/net/eth0/lower_eth1/device/reset", "/sys/class/net/eth0/master/device/remove",
    "/sys/kernel/debug/bnxt_re/bnxt_re0/info", "/sys/kernel/debug/mlx5/0000:01:00.0/commands/in",
    "/sys/class/tpm/tpm0/ppi/request",
]  # fmt: skip


def store(machine: Machine, *entries: Any) -> None:
    text = json.dumps({"format": 1, "entries": entries})
    machine.put(origin.PATH, text, 0o600)


def refused(machine: Machine) -> None:
    before = machine.tree()
    for ask in (
        lambda: Origin.load(machine),
        lambda: revert.revert(machine),
        lambda: door.apply(machine, engine.Request("x", thp, {"enabled": "madvise"})),
    ):
        with pytest.raises(StoreError, match=f"{origin.PATH} is damaged"):
            ask()
    assert machine.tree() == before


@pytest.mark.parametrize("path", WRITTEN)
def test_what_is_written_is_in_the_table(machine: Machine, path: str) -> None:
    entry = {**FILE, "id": f"file:{path}", "key": path, "file": path, "folders": []}
    store(machine, entry, {**entry, "saved": None}, {**entry, "saved": {"link": "/dev/null"}})
    assert len(Origin.load(machine).entries()) == 1


@pytest.mark.parametrize("path", WRITTEN)
def test_what_is_ours_alone_is_known_by_its_name(path: str) -> None:
    known = any(fnmatch.fnmatchcase(path, one.pattern) for one in places.OWN)
    assert known == places.is_own(path)


@pytest.mark.parametrize("path", SET)
def test_what_is_set_is_in_the_table(machine: Machine, path: str) -> None:
    store(machine, {**KERNEL, "id": f"kernel:{path}", "writes": [[path, "1"]]})
    assert len(Origin.load(machine).entries()) == 1


@pytest.mark.parametrize("path", NEVER)
def test_a_file_that_no_run_writes_is_not_put_back(machine: Machine, path: str) -> None:
    assert not places.may_write(path)
    store(machine, {**FILE, "id": f"file:{path}", "key": path, "file": path, "folders": []})
    refused(machine)


@pytest.mark.parametrize("path", NEVER_SET)
def test_a_value_that_no_run_sets_is_not_put_back(machine: Machine, path: str) -> None:
    store(machine, {**KERNEL, "writes": [[path, "1"]]})
    refused(machine)
    store(machine, {**KERNEL, "id": f"kernel:{path}"})
    refused(machine)


WRONG: dict[str, Any] = {
    "an id of another file": {**FILE, "id": "file:/etc/default/grub"},
    "an id of another kind": {**FILE, "id": "kernel:/etc/nccl.conf"},
    "a value as a module": {**KERNEL, "id": f"module:{SWAPPINESS}"},
    "a module of another name": {**MODULE, "module": "loop"},
    "a module that is an option": {**MODULE, "id": "module:-rf x", "module": "-rf x"},
    "a module that is a switch": {**MODULE, "id": "module:-a", "module": "-a"},
    "a module that is a path": {**MODULE, "id": "module:/tmp/x.ko", "module": "/tmp/x.ko"},
    "a module without a name": {**MODULE, "id": "module:", "module": ""},
    "a folder elsewhere": {**FILE, "folders": ["/home"]},
    "a folder that is the file": {**FILE, "folders": ["/etc/nccl.conf"]},
    "the topmost folder": {**FILE, "folders": [""]},
    "a NUL in a value": {**KERNEL, "writes": [[SWAPPINESS, "6\0"]]},
    "a NUL in a path": {**KERNEL, "writes": [["/proc/sys/x\0", "6"]]},
    "a NUL in an id": {**KERNEL, "id": "kernel:/proc/sys/\0"},
    "a NUL in a link": {**FILE, "saved": {"link": "/x\0"}},
    "a link to nothing": {**FILE, "saved": {"link": ""}},
    "a long link": {**FILE, "saved": {"link": "x" * 5000}},
    "half a character in a value": {**KERNEL, "writes": [[SWAPPINESS, "\ud800"]]},
    "half a character in a key": {**KERNEL, "key": "\ud800"},
    "a device elsewhere": {**KERNEL, "device": "/etc/shadow", "boot": "x"},
    "a device above": {**KERNEL, "device": "/sys/../etc/shadow", "boot": "x"},
    **{
        f"{field} {text}": {**FILE, "saved": {**FILE["saved"], field: number}}
        for field in ("mode", "uid", "gid")
        for text, number in (
            ("infinite", float("inf")), ("no number", float("nan")), ("negative", -1), ("true", True),
            ("a fraction", 1.5), ("a text", "420"), ("nothing", None), ("huge", 10**4000), ("a list", [1]),
        )
    },
    "bits that no file has": {**FILE, "saved": {**FILE["saved"], "mode": 0o10000}},
    "the owner that means none": {**FILE, "saved": {**FILE["saved"], "uid": 0xFFFFFFFF}},
}  # fmt: skip


@pytest.mark.parametrize("entry", WRONG.values(), ids=WRONG)
def test_an_entry_that_no_run_makes_is_refused(machine: Machine, entry: Any) -> None:
    store(machine, KERNEL, entry)
    refused(machine)


@pytest.mark.parametrize("text", ["[" * DEEP, '{"format": 1, "entries": ' + "[" * DEEP, "1" * 5000])
def test_what_python_itself_cannot_take_is_refused(machine: Machine, text: str) -> None:
    machine.put(origin.PATH, text, 0o600)
    refused(machine)


def test_the_same_holds_for_what_waits_to_be_confirmed(machine: Machine) -> None:
    pending: dict[str, Any] = {
        "format": 1, "id": "abcdef01", "name": "x", "deadline": "2026-01-01 00:00:00 UTC", "seconds": 60,
        "words": "w", "boot": "", "due": 1.0, "connection": "", "entries": [KERNEL, FILE],
        "fresh": [], "gone": [], "calls": [],
    }  # fmt: skip
    machine.put(confirm_store.PENDING, json.dumps(pending))
    assert confirm_store.load_pending(machine)
    wrong = [{**pending, "entries": [entry]} for entry in WRONG.values()]
    wrong += [{**pending, name: "\ud800"} for name in ("name", "words", "boot", "connection", "deadline")]
    wrong += [{**pending, "seconds": float("inf")}, {**pending, "due": 10**4000}, {**pending, "id": None}]
    texts = [json.dumps(document) for document in wrong] + ["[" * DEEP]
    for text in texts:
        machine.put(confirm_store.PENDING, text)
        with pytest.raises(StoreError, match=f"{confirm_store.PENDING} is damaged"):
            confirm_store.load_pending(machine)


@pytest.mark.parametrize("text", ["[" * DEEP, "[]", '{"a": 1}', '{"a": [1]}', "\udcff", "null", "1" * 5000])
def test_a_note_that_is_damaged_holds_nothing(machine: Machine, text: str) -> None:
    machine.put(f"{held.FOLDER}/eth0", text.encode("utf-8", "surrogateescape"))
    part = KnobFile(0, "a", "1", "2", (), device="/sys/class/net/eth0")
    assert held.held_back(machine, part) == ""


def test_what_could_not_be_put_back_is_not_begun(machine: Machine) -> None:
    before = machine.tree()
    bad = origin.file_entry(machine, "/etc/sudoers.d/x")
    with pytest.raises(StoreError, match=r"what /etc/sudoers\.d/x was cannot be kept"):
        Origin.load(machine).remember([bad])
    assert machine.tree() == before
