# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.fabric_files import ETHTOOL
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.rdma_bench import HARDWARE, PORT, look
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import HealthCheck, given, settings
from mlnode.checks import rdma_limits
from mlnode.checks.model import Verdict
from mlnode.checks.rdma import counters as rdma_counters

BASELINE = "/var/lib/mlnode/rdma-baseline.json"
BUS = f"/sys/bus/pci/devices/{HARDWARE}"
RAIL = "/sys/class/net/rail0"

#: Check → target → a file of it, and what makes it fail or warn
RISING = {
    "fatal_counters": (f"{PORT}/counters/link_downed", "2", "fail"),
    "degradation": (f"{PORT}/counters/symbol_error", "500", "fail"),
    "port_errors": (f"{PORT}/counters/port_xmit_discards", "1", "warn"),
    "transport": (f"{PORT}/hw_counters/packet_seq_err", "1", "warn"),
    "flap": (f"{RAIL}/carrier_down_count", "6", "fail"),
}


@pytest.fixture
def port(tmp_path: pathlib.Path) -> Machine:
    machine = bench.node(tmp_path, bench.roce())
    statistics(machine)
    return machine


def statistics(machine: Machine, **changed: str) -> None:
    answers = {**ETHTOOL, "statistic": {**ETHTOOL["statistic"], **changed}}
    machine.put("/ethtool/rail0.json", json.dumps({"format": 1, "answers": answers}))


def seen(machine: Machine, name: str, after: float = 0, **declared: Any) -> tuple[str, str]:
    """A run, so many seconds after the boot."""
    if after:
        machine.put("/proc/uptime", f"{after:.2f} 1.00\n")
    found = look(machine, {"devices": {"mlx5_0": declared}}, writable=True)
    check = found.get((name, "mlx5_0/1")) or found[name, "mlx5_0"]
    assert bool(check.advice) == (str(check.verdict) in ("warn", "fail")) or "declare limits" in check.advice
    return str(check.verdict), check.found


@pytest.mark.parametrize("name", RISING)
def test_the_first_look_is_no_pass_and_the_second_one_is(port: Machine, name: str) -> None:
    path, _text, _verdict = RISING[name]
    verdict, found = seen(port, name, 100)
    assert verdict == "skip"
    assert "baseline taken" in found
    verdict, found = seen(port, name, 160)
    assert verdict == "pass"
    assert f"{path.rpartition('/')[2]} +0 to " in found
    assert "in 60 s" in found


@pytest.mark.parametrize("name", RISING)
def test_what_rises_is_said(port: Machine, name: str) -> None:
    path, text, verdict = RISING[name]
    seen(port, name, 100)
    port.put(path, f"{text}\n")
    now, found = seen(port, name, 160)
    assert now == verdict
    assert f"to {text} in 60 s, where " in found
    assert seen(port, name, 220)[0] == verdict  # until the baseline is taken anew
    assert (
        look(port, {"devices": {"mlx5_0": {}}}, reset=True, writable=True)[name, "mlx5_0/1"].verdict
        is Verdict.SKIP
    )
    assert seen(port, name, 280)[0] == "pass"


@pytest.mark.parametrize("name", RISING)
def test_what_is_gone_after_it_was_there_is_unknown(port: Machine, name: str) -> None:
    path, text, verdict = RISING[name]
    seen(port, name, 100)
    before = port.read(path)
    port.remove(path)
    assert seen(port, name, 160)[0] == "unknown"
    port.put(path, before)
    port.unreadable[path] = errno.EINVAL
    assert seen(port, name, 170)[0] == "unknown"
    port.unreadable.clear()
    port.put(path, "N/A (no PMA)\n")
    assert seen(port, name, 180)[0] == "unknown"
    # What was known of it is still known.
    port.put(path, f"{text}\n")
    assert seen(port, name, 190)[0] == verdict


def test_a_burst_shows_although_the_baseline_is_old(port: Machine) -> None:
    path = f"{PORT}/counters/symbol_error"
    seen(port, "degradation", 100)
    assert seen(port, "degradation", 10 * 86400)[0] == "pass"
    port.put(path, "1003\n")  # 1000 in an hour, and 4 an hour on average
    verdict, found = seen(port, "degradation", 10 * 86400 + 3600)
    assert verdict == "fail"
    assert "symbol_error +1000 to 1003 in 60.0 min, where at most 120 per hour" in found
    assert seen(port, "degradation", 10 * 86400 + 7200)[0] == "pass"


def test_symbol_errors_of_a_usual_link_pass(port: Machine) -> None:
    seen(port, "degradation", 100)
    port.put(f"{PORT}/counters/symbol_error", "123\n")
    assert seen(port, "degradation", 3700)[0] == "pass"
    port.put(f"{PORT}/counters/symbol_error", "134\n")
    assert seen(port, "degradation", 3701)[0] == "fail"  # 11 in a second


def test_a_counter_at_its_end_tells_nothing(port: Machine) -> None:
    path = f"{PORT}/counters/link_downed"
    port.put(path, "255\n")
    seen(port, "fatal_counters", 100)
    verdict, found = seen(port, "fatal_counters", 160)
    assert verdict == "unknown"
    assert "stands at its end, 255" in found


def test_a_counter_that_was_cleared_is_no_pass(port: Machine) -> None:
    seen(port, "degradation", 100)
    port.put(f"{PORT}/counters/symbol_error", "0\n")
    verdict, found = seen(port, "degradation", 160)
    assert verdict == "skip"
    assert "symbol_error 0: went back from 3 to 0" in found
    assert seen(port, "degradation", 220)[0] == "pass"


def test_limits_can_be_declared(port: Machine) -> None:
    declared = {"counters": {"np_cnp_sent": {"per_second": 10}, "packet_seq_err": False, "symbol_error": 100}}
    seen(port, "transport", 100, **declared)
    port.put(f"{PORT}/hw_counters/packet_seq_err", "9\n")
    port.put(f"{PORT}/hw_counters/np_cnp_sent", "1388\n")
    port.put(f"{PORT}/counters/symbol_error", "103\n")
    assert seen(port, "transport", 110, **declared)[0] == "pass"
    assert seen(port, "degradation", 110, **declared)[0] == "pass"
    port.put(f"{PORT}/hw_counters/np_cnp_sent", "1499\n")
    verdict, found = seen(port, "transport", 120, **declared)
    assert verdict == "warn"
    assert "np_cnp_sent +211 to 1499" in found or "np_cnp_sent +111 to 1499" in found


def test_a_declared_limit_of_a_counter_that_is_not_there_is_unknown(port: Machine) -> None:
    verdict, found = seen(port, "transport", 100, counters={"seq_err_naks_rcvd": 0})
    assert verdict == "unknown"
    assert "seq_err_naks_rcvd does not exist" in found


def test_counters_without_limits_are_told(port: Machine) -> None:
    for name in ("packet_seq_err", "local_ack_timeout_err", "out_of_buffer"):
        port.remove(f"{PORT}/hw_counters/{name}")
    verdict, found = seen(port, "transport", 100)
    assert verdict == "skip"
    assert "np_cnp_sent 1288: baseline taken" in found
    assert seen(port, "transport", 160)[0] == "skip"


# -- other places ------------------------------------------------------------------------------


def test_aer(port: Machine) -> None:
    seen(port, "aer", 100)
    assert seen(port, "aer", 160)[0] == "pass"
    port.put(f"{BUS}/aer_dev_correctable", "RxErr 7\nBadTLP 0\nTOTAL_ERR_COR 7\n")
    assert seen(port, "aer", 170)[0] == "warn"
    port.put(f"{BUS}/aer_dev_fatal", "Undefined 0\nTLP 1\nTOTAL_ERR_FATAL 1\n")
    verdict, found = seen(port, "aer", 180)
    assert verdict == "fail"
    assert "aer_dev_fatal +1 to 1" in found
    port.put(f"{BUS}/aer_dev_fatal", "Undefined 0\n")
    port.put(f"{BUS}/aer_dev_correctable", "RxErr 0\nTOTAL_ERR_COR 0\n")
    assert seen(port, "aer", 190) == ("unknown", f"{BUS}/aer_dev_fatal has no total")


def test_statistics_of_ethtool(port: Machine) -> None:
    seen(port, "nic_discards", 100)
    assert seen(port, "nic_discards", 160)[0] == "pass"
    statistics(port, rx_prio3_pause="100000")
    assert seen(port, "nic_discards", 170)[0] == "pass"
    statistics(port, rx_prio3_discards="4")
    assert seen(port, "nic_discards", 180)[0] == "warn"
    statistics(port, tx_pause_storm_error_events="1")
    assert seen(port, "nic_discards", 190)[0] == "fail"
    port.put("/ethtool/rail0.json", json.dumps({"format": 1, "answers": {"statistic": "EIO"}}))
    assert seen(port, "nic_discards", 200)[0] == "unknown"


def test_a_nic_without_such_statistics(port: Machine) -> None:
    port.put("/ethtool/rail0.json", json.dumps({"format": 1, "answers": {"statistic": {"rx_bytes": "1"}}}))
    verdict, found = seen(port, "nic_discards", 100)
    assert (verdict, found) == ("skip", "rail0 has no such statistics (ethtool -S)")
    port.put("/ethtool/rail0.json", json.dumps({"format": 1, "answers": {"statistic": "EOPNOTSUPP"}}))
    assert seen(port, "nic_discards", 100)[0] == "skip"


def test_efa_counts_in_its_own_words(tmp_path: pathlib.Path) -> None:
    files = {"hw_counters/rx_drops": 0, "hw_counters/retrans_timeout_events": 0}
    machine = bench.node(tmp_path, bench.roce(layer="Unspecified", node_type="7: unspecified", port=files))
    seen(machine, "efa", 100)
    assert seen(machine, "efa", 160)[0] == "pass"
    machine.put(f"{PORT}/hw_counters/rx_drops", "3\n")
    assert seen(machine, "efa", 170)[0] == "warn"
    assert seen(machine, "degradation", 180)[0] == "skip"


def test_irdma_counts_in_words_of_its_own(tmp_path: pathlib.Path) -> None:
    names = ("tcpRetransSegs", "ip4InDiscards", "cnpSent", "cnpHandled", "RxECNMrkd")
    machine = bench.node(tmp_path, bench.roce(port={f"hw_counters/{name}": 5 for name in names}))
    ice = {"rx_dropped.nic": "7", "rx_priority_3_xoff.nic": "9", "rx_bytes.nic": "11"}
    machine.put("/ethtool/rail0.json", json.dumps({"format": 1, "answers": {"statistic": ice}}))
    seen(machine, "transport", 100)
    machine.put(f"{PORT}/hw_counters/cnpSent", "500\n")
    machine.put(f"{PORT}/hw_counters/RxECNMrkd", "500\n")
    assert seen(machine, "transport", 160)[0] == "pass"
    assert seen(machine, "nic_discards", 160)[0] == "pass"
    machine.put(f"{PORT}/hw_counters/tcpRetransSegs", "6\n")
    ice.update({"rx_dropped.nic": "8", "rx_priority_3_xoff.nic": "999"})
    machine.put("/ethtool/rail0.json", json.dumps({"format": 1, "answers": {"statistic": ice}}))
    verdict, found = seen(machine, "transport", 170)
    assert verdict == "warn"
    assert "tcpRetransSegs +1 to 6" in found
    verdict, found = seen(machine, "nic_discards", 180)
    assert verdict == "warn"
    assert "rx_dropped.nic +1 to 8" in found


# -- what is kept ------------------------------------------------------------------------------


def test_without_a_boot_id_every_counter_is_unknown(port: Machine) -> None:
    port.remove("/proc/sys/kernel/random/boot_id")
    verdict, found = seen(port, "degradation", 100)
    assert verdict == "unknown"
    assert "boot_id" in found
    assert not port.exists(BASELINE)


def test_a_damaged_baseline_makes_them_unknown(port: Machine) -> None:
    port.put(BASELINE, "{")
    verdict, found = seen(port, "degradation", 100)
    assert verdict == "unknown"
    assert "baseline: reset" in found


def test_a_baseline_that_cannot_be_kept_is_said(port: Machine) -> None:
    port.put("/var/lib/mlnode", "a file where a folder belongs\n")
    found = look(port, {"devices": {"mlx5_0": {}}}, reset=True, writable=True)["baseline", "node"]
    assert found.verdict is Verdict.UNKNOWN
    assert BASELINE in found.found


def test_all_checks_but_these_leave_the_baseline_alone(port: Machine) -> None:
    look(port, {"devices": {"mlx5_0": {}}}, writable=True, leave_out=rdma_counters.NAMES)
    assert not port.exists(BASELINE)


@settings(quick, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(values)
def test_odd_texts_pass_nothing(port: Machine, text: str) -> None:
    seen(port, "degradation", 100)
    path = f"{PORT}/counters/symbol_error"
    before = port.read(path)
    port.put(path, text)
    found = look(port, {"devices": {"mlx5_0": {}}})["degradation", "mlx5_0/1"]
    port.put(path, before)
    if not text.strip().isdecimal() or not text.isascii():
        assert found.verdict is Verdict.UNKNOWN


def test_the_widths_are_those_at_which_the_kernel_stops() -> None:
    widths = {counter.name: counter.bits for counter in rdma_limits.COUNTERS if counter.place == "counters"}
    assert widths == {
        "link_downed": 8,
        "excessive_buffer_overrun_errors": 4,
        "local_link_integrity_errors": 4,
        "symbol_error": 16,
        "link_error_recovery": 8,
        "port_rcv_errors": 16,
        "port_xmit_discards": 16,
        "port_rcv_constraint_errors": 8,
        "VL15_dropped": 16,
    }
