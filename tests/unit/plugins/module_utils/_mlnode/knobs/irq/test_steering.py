# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
import os
import pathlib
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.model.errors import DeclarationError
from mlnode.model.setting import Status

from .node import ETH2, FLOWS, HARDWARE, IrqNode, apply, reading, row, rows, with_cpus

# -- RPS and XPS ---------------------------------------------------------------------------


def queue(nic: str, name: str, file: str) -> str:
    return f"/sys/class/net/{nic}/queues/{name}/{file}"


def test_rps_helps_the_nic_with_too_few_queues_and_only_that(node: IrqNode, folder: pathlib.Path) -> None:
    rule = {"name": "all", "rps": "auto"}
    for number in (1, 2, 3):
        os.rename(f"{node.root}/sys/bus/pci/devices/{ETH2}/net/eth2/queues/rx-{number}", f"{folder}/{number}")
    found = reading(node, rule)
    assert found.runtime.text == "eth4, eth2, eth3: off"
    assert found.want == "eth4, eth3: off; eth2: 0-3,8-11"
    assert found.note == "eth4: its NUMA node is not known, so auto leaves RPS off; give a list of CPUs"
    assert {part.path: part.want for part in found.parts if part.want != "0"} == {
        queue("eth2", "rx-0", "rps_cpus"): "f0f"
    }
    apply(node, rule)
    assert node.now(queue("eth2", "rx-0", "rps_cpus")) == "0f0f"
    assert not apply(node, rule).changed


@pytest.mark.parametrize(("value", "mask"), [("4-7", "00f0"), (15, "8000"), ("off", "0000"), (False, "0000")])
def test_rps_takes_a_list_or_is_switched_off(node: IrqNode, value: Any, mask: str) -> None:
    node.put(queue("eth2", "rx-1", "rps_cpus"), "0001\n")
    rule = {"name": "two", "nics": {"names": ["eth2"]}, "rps": value}
    apply(node, rule)
    assert [node.now(queue("eth2", f"rx-{number}", "rps_cpus")) for number in range(4)] == [mask] * 4
    assert not apply(node, rule).changed


@cases.table
def test_steering_to_cpus_that_cannot_take_it_is_an_error(
    folder: pathlib.Path, topic: str, cpus: str, words: str
) -> None:
    node = IrqNode.made(str(folder), with_cpus(isolated=(2, 3), offline=(7,)))
    with pytest.raises(DeclarationError) as caught:
        apply(node, {"name": "two", "nics": {"names": ["eth2"]}, topic: cpus})
    assert words in str(caught.value)


def test_rps_on_a_node_that_is_kept_free_is_refused(folder: pathlib.Path) -> None:
    node = IrqNode.made(str(folder), with_cpus(isolated=(0, 1, 2, 3, 8, 9, 10, 11)))
    node.put(queue("eth2", "rx-0", "rps_cpus"), "0001\n")
    found = row(node, {"name": "two", "nics": {"names": ["eth2"]}, "rps": "auto"})
    assert found.status is Status.REFUSED
    assert "the kernel takes such CPUs out of rps_cpus" in found.reason


def test_xps_gives_every_cpu_a_queue_beside_its_interrupt(node: IrqNode) -> None:
    rule = {"name": "two", "nics": {"names": ["eth2"]}, "xps": "auto"}
    apply(node, rule)
    masks = [node.now(queue("eth2", f"tx-{number}", "xps_cpus")) for number in range(4)]
    assert masks == ["1111", "2222", "4444", "8888"]
    assert row(node, rule).reading.runtime.text == "eth2: 0,4,8,12 1,5,9,13 2,6,10,14 3,7,11,15"


def test_a_nic_with_one_transmit_queue_has_no_xps(node: IrqNode) -> None:
    rule = {"name": "four", "nics": {"names": ["eth4"]}, "xps": "auto"}
    found = row(node, rule)
    assert found.status is Status.UNSUPPORTED
    assert found.reason.startswith("eth4: no transmit queue has an xps_cpus (there is only one")
    assert row(node, {**rule, "nics": {}}).status is Status.DRIFTED


def test_an_rdma_device_without_an_interface_has_interrupts_and_no_queues(folder: pathlib.Path) -> None:
    function = replace(HARDWARE.roots[1].functions[0], nics=())
    function = replace(function, rdma=(replace(function.rdma[0], netdev="", layer="InfiniBand"),))
    roots = (HARDWARE.roots[0], replace(HARDWARE.roots[1], functions=(function,)))
    node = IrqNode.made(str(folder), replace(HARDWARE, roots=roots))
    found = rows(node, {"name": "ib", "nics": {"rdma": ["mlx5_0"]}, "strategy": "spread", "rps": "auto"})
    assert found["irq.ib"].reading.want == "mlx5_0: 0..3"
    assert found["irq.ib.rps"].status is Status.UNSUPPORTED


def test_a_queue_that_cannot_be_read_makes_the_row_unknown(node: IrqNode) -> None:
    node.unreadable[queue("eth2", "rx-1", "rps_cpus")] = errno.EIO
    found = rows(node, {"name": "two", "nics": {"names": ["eth2"]}, "rps": "auto", "xps": "auto"})
    assert found["irq.two.rps"].status is Status.UNKNOWN
    assert found["irq.two.xps"].status is Status.DRIFTED


def test_a_mask_nobody_can_read_is_shown_as_it_is(node: IrqNode) -> None:
    node.put(queue("eth4", "rx-0", "rps_cpus"), "what\n")
    found = row(node, {"name": "four", "nics": {"names": ["eth4"]}, "rps": "off"})
    assert found.reading.runtime.text == "eth4: what"


def test_a_machine_with_many_cpus_has_masks_in_groups(folder: pathlib.Path) -> None:
    node = IrqNode.made(str(folder), with_cpus(cores=20, sockets=2, threads=2))
    rule = {"name": "two", "nics": {"names": ["eth2"]}, "rps": "0,31-32,79", "xps": "64-79"}
    apply(node, rule)
    assert node.now(queue("eth2", "rx-0", "rps_cpus")) == "8000,00000001,80000001"
    assert node.now(queue("eth2", "tx-0", "xps_cpus")).endswith("ffff,00000000,00000000")
    assert not apply(node, rule).changed


# -- RFS -----------------------------------------------------------------------------------

RFS = {"name": "two", "nics": {"names": ["eth2"]}, "rfs_entries": 32768}


def test_rfs_shares_the_flows_out_and_raises_the_table(node: IrqNode) -> None:
    found = row(node, RFS)
    assert (found.reading.runtime.text, found.reading.want) == (
        "table 0; eth2: off",
        "table 32768; eth2: 8192 per queue",
    )
    apply(node, RFS)
    assert node.now(FLOWS) == "32768"
    assert [node.now(queue("eth2", f"rx-{number}", "rps_flow_cnt")) for number in range(4)] == ["8192"] * 4
    assert not apply(node, RFS).changed


def test_a_table_that_is_too_small_is_drift_though_the_queues_are_right(node: IrqNode) -> None:
    apply(node, RFS)
    node.put(FLOWS, "1024\n")
    assert row(node, RFS).reason == "runtime is table 1024; eth2: 8192 per queue"
    apply(node, RFS)
    assert node.now(FLOWS) == "32768"


def test_a_larger_table_is_kept(node: IrqNode) -> None:
    node.put(FLOWS, "65536\n")
    apply(node, RFS)
    apply(node, {**RFS, "rfs_entries": 0})
    assert node.now(FLOWS) == "65536"
    assert node.now(queue("eth2", "rx-3", "rps_flow_cnt")) == "0"
    assert row(node, {**RFS, "rfs_entries": 0}).reading.runtime.text == "eth2: off"


def test_a_queue_with_more_flows_keeps_them_and_that_is_told(node: IrqNode) -> None:
    node.put(queue("eth2", "rx-3", "rps_flow_cnt"), "32768\n")
    (after,) = apply(node, RFS).rows
    counts = [node.now(queue("eth2", f"rx-{number}", "rps_flow_cnt")) for number in range(4)]
    assert (after.status, counts) == (Status.CHANGED, ["8192"] * 3 + ["32768"])
    again = row(node, RFS)
    assert (again.status, "queues 3 have more flows than 8192" in again.reason) == (Status.OK, True)


def test_the_flows_of_unlike_queues_are_all_told(node: IrqNode) -> None:
    node.put(queue("eth2", "rx-3", "rps_flow_cnt"), "256\n")
    assert row(node, RFS).reading.runtime.text == "table 0; eth2: 0, 256 in its queues"


def test_fewer_flows_than_queues_are_an_error(node: IrqNode) -> None:
    with pytest.raises(
        DeclarationError, match=r"irq\.two\.rfs: 2 entries are fewer than the 4 queues of eth2"
    ):
        apply(node, {**RFS, "rfs_entries": 2})


@pytest.mark.parametrize(("text", "status"), [(None, Status.UNSUPPORTED), ("many\n", Status.UNKNOWN)])
def test_a_kernel_without_the_table_has_no_rfs(node: IrqNode, text: str | None, status: Status) -> None:
    if text is None:
        node.remove(FLOWS)
    else:
        node.put(FLOWS, text)
    assert row(node, RFS).status is status


@pytest.mark.parametrize("declared", [131072, {"at_least": 131072}, {"exactly": 131072}])
def test_a_larger_table_that_is_declared_elsewhere_is_wanted_here_too(node: IrqNode, declared: Any) -> None:
    """Each area would else write its own number in the same run."""
    document = {
        "name": "net",
        "kinds": {"sysctl": {"settings": {"net.core.rps_sock_flow_entries": declared}}},
    }
    node.put("/etc/mlnode/declared.d/net.json", json.dumps({"format": 1, **document}))

    apply(node, RFS)

    assert node.now(FLOWS) == "131072"


@cases.table
def test_a_table_that_is_declared_smaller_elsewhere_is_not_fought_over(
    node: IrqNode, declared: Any, refused: bool
) -> None:
    document = {
        "format": 1,
        "name": "net",
        "kinds": {"sysctl": {"settings": {"net.core.rps_sock_flow_entries": declared}}},
    }
    node.put("/etc/mlnode/declared.d/net.json", json.dumps(document))
    found = row(node, RFS)
    assert (found.status is Status.REFUSED) is refused
    if refused:
        assert found.reason == (
            "net.core.rps_sock_flow_entries is declared as 1024 by net (/etc/mlnode/declared.d/net.json), "
            "and rfs_entries 32768 needs at least as many: declare that there, or leave it out"
        )


def test_a_table_that_may_not_be_written_is_unsupported(node: IrqNode) -> None:
    node.read_only[FLOWS] = "another namespace"
    found = row(node, RFS)
    assert (found.status, found.reason) == (Status.UNSUPPORTED, "another namespace")


def test_two_rules_may_want_tables_of_different_size(node: IrqNode) -> None:
    three = {"name": "three", "nics": {"names": ["eth3"]}, "rfs_entries": 65536}
    apply(node, three, RFS)
    assert node.now(FLOWS) == "65536"
    assert not apply(node, three, RFS).changed


def test_a_nic_without_receive_queues_has_no_rfs(node: IrqNode) -> None:
    for number in range(4):
        node.remove(queue("eth2", f"rx-{number}", "rps_flow_cnt"))
    assert row(node, RFS).reason.startswith("eth2: no receive queue has an rps_flow_cnt")
    os.rename(f"{node.root}/sys/bus/pci/devices/{ETH2}/net/eth2/queues", f"{node.root}/queues")
    assert row(node, RFS).status is Status.UNSUPPORTED
    assert row(node, {"name": "two", "nics": {"names": ["eth2"]}, "xps": "auto"}).status is Status.UNSUPPORTED
