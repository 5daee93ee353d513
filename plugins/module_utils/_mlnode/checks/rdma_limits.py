# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checked counters, their limits, and the verdict above a limit. Pure data.

The place of a counter identifies its driver: counters that a device lacks are not judged.
"""

from __future__ import annotations

from ..model.record import dataclass
from .model import Verdict

#: Name of a limit → seconds of its window; `rise` counts since the baseline, regardless of its age
WINDOWS = {"rise": 0, "per_second": 1, "per_minute": 60, "per_hour": 3600, "per_day": 86400}


@dataclass(frozen=True)
class Limit:
    """The largest increase of a counter in a window: one of WINDOWS."""

    window: str
    most: int

    def __str__(self) -> str:
        window = self.window.replace("per_", "per ") if self.window != "rise" else "since the baseline"
        return f"at most {self.most} {window}"

    def allows(self, rise: int, seconds: float) -> bool:
        """A span shorter than the window may use its whole limit: one error a second is not 3600 an hour."""
        length = WINDOWS[self.window]
        return rise <= (self.most * max(1.0, seconds / length) if length else self.most)


@dataclass(frozen=True)
class Counter:
    """One counter. check: its check. place: the folder or source of its file.

    limits: empty if an increase is only reported. over: verdict above a limit. bits: width of a counter that
    stops at its maximum; 0 for 64 bits, which never fill.
    """

    name: str
    check: str
    place: str
    limits: tuple[Limit, ...] = ()
    over: Verdict = Verdict.WARN
    bits: int = 0


_NONE = (Limit("rise", 0),)


def _port(check: str, name: str, bits: int, limits: tuple[Limit, ...], over: Verdict) -> Counter:
    return Counter(name, check, "counters", limits, over, bits)


#: Files of a port below counters/ belong to the PortCounters attribute, and stop at their maximum. Widths:
#: drivers/infiniband/core/sysfs.c, PORT_PMA_ATTR.
_PORT = (
    # Each ends connections, or means that the hardware lost data on a link that is up.
    _port("fatal_counters", "link_downed", 8, _NONE, Verdict.FAIL),
    _port("fatal_counters", "excessive_buffer_overrun_errors", 4, _NONE, Verdict.FAIL),
    _port("fatal_counters", "local_link_integrity_errors", 4, _NONE, Verdict.FAIL),
    # A link with PAM4 signals always has some. The usual limits for cables are 10 per second and 120 per
    # hour: 144 per hour are a bit error rate of 10^-12 at 40 Gb/s, the most that InfiniBand allowed then. A
    # link that recovers more than five times a minute retrains constantly.
    _port(
        "degradation",
        "symbol_error",
        16,
        (Limit("per_second", 10), Limit("per_hour", 120)),
        Verdict.FAIL,
    ),
    _port("degradation", "link_error_recovery", 8, (Limit("per_minute", 5),), Verdict.FAIL),
    # Packets were lost; connections continued.
    _port("port_errors", "port_rcv_errors", 16, _NONE, Verdict.WARN),
    _port("port_errors", "port_xmit_discards", 16, _NONE, Verdict.WARN),
    _port("port_errors", "port_rcv_constraint_errors", 8, _NONE, Verdict.WARN),
    _port("port_errors", "VL15_dropped", 16, _NONE, Verdict.WARN),
)

#: Names of each driver: drivers/roce/
_TRANSPORT = (
    # All retries failed, so the connection ended.
    Counter("rnr_nak_retry_err", "fatal_counters", "hw_counters", _NONE, Verdict.FAIL),
    Counter("max_retry_exceeded", "fatal_counters", "hw_counters", _NONE, Verdict.FAIL),
    Counter("req_tx_retry_excd_err", "fatal_counters", "hw_counters", _NONE, Verdict.FAIL),
    # A packet or its acknowledgement was lost. A lossless fabric loses none.
    Counter("packet_seq_err", "transport", "hw_counters", _NONE),
    Counter("local_ack_timeout_err", "transport", "hw_counters", _NONE),
    Counter("out_of_buffer", "transport", "hw_counters", _NONE),
    Counter("seq_err_naks_rcvd", "transport", "hw_counters", _NONE),
    Counter("to_retransmits", "transport", "hw_counters", _NONE),
    Counter("rx_out_of_buffer", "transport", "hw_counters", _NONE),
    Counter("req_rx_pkt_seq_err", "transport", "hw_counters", _NONE),
    Counter("tx_rdma_ack_timeout", "transport", "hw_counters", _NONE),
    Counter("resp_rx_outof_buf", "transport", "hw_counters", _NONE),
    # With adaptive routing packets overtake each other, and working congestion control sends and obeys CNPs.
    # Each fabric must declare its own limits.
    Counter("out_of_sequence", "transport", "hw_counters"),
    Counter("roce_slow_restart", "transport", "hw_counters"),
    Counter("np_cnp_sent", "transport", "hw_counters"),
    Counter("rp_cnp_handled", "transport", "hw_counters"),
    Counter("resp_rx_outouf_seq", "transport", "hw_counters"),  # spelled so
    Counter("tx_rdma_cnp_pkts", "transport", "hw_counters"),
    Counter("rx_rdma_cnp_pkts", "transport", "hw_counters"),
    Counter("rx_rdma_ecn_pkts", "transport", "hw_counters"),
    # drivers/infiniband/hw/irdma/verbs.c: irdma_hw_stat_names
    Counter("tcpRetransSegs", "transport", "hw_counters", _NONE),
    Counter("tcpInOptErrors", "transport", "hw_counters", _NONE),
    Counter("tcpInProtoErrors", "transport", "hw_counters", _NONE),
    Counter("ip4InDiscards", "transport", "hw_counters", _NONE),
    Counter("ip6InDiscards", "transport", "hw_counters", _NONE),
    Counter("ip4InTruncatedPkts", "transport", "hw_counters", _NONE),
    Counter("ip6InTruncatedPkts", "transport", "hw_counters", _NONE),
    Counter("cnpSent", "transport", "hw_counters"),
    Counter("cnpHandled", "transport", "hw_counters"),
    Counter("cnpIgnored", "transport", "hw_counters"),
    Counter("RxECNMrkd", "transport", "hw_counters"),
    # EFA (drivers/infiniband/hw/efa/efa_verbs.c)
    Counter("rx_drops", "efa", "hw_counters", _NONE),
    Counter("retrans_timeout_events", "efa", "hw_counters", _NONE),
    Counter("impaired_remote_conn_events", "efa", "hw_counters", _NONE),
    Counter("unresponsive_remote_events", "efa", "hw_counters", _NONE),
)

#: Statistics of mlx5 (Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst) and of
#: ice, the driver below irdma (drivers/net/ethernet/intel/ice/ice_ethtool.c: ice_gstrings_pf_stats), in
#: ethtool -S
_STATISTICS = (
    Counter("rx_discards_phy", "nic_discards", "statistic", _NONE),
    *(Counter(f"rx_prio{priority}_discards", "nic_discards", "statistic", _NONE) for priority in range(8)),
    # The NIC stopped pausing its peer, so packets of a lossless priority may be lost.
    Counter("tx_pause_storm_error_events", "nic_discards", "statistic", _NONE, Verdict.FAIL),
    Counter("tx_pause_storm_warning_events", "nic_discards", "statistic", _NONE),
    # PFC works with pauses: each fabric must declare its own limits.
    *(Counter(f"rx_prio{priority}_pause", "nic_discards", "statistic") for priority in range(8)),
    # The port had no free buffer for incoming packets.
    Counter("rx_dropped.nic", "nic_discards", "statistic", _NONE),
    *(Counter(f"rx_priority_{priority}_xoff.nic", "nic_discards", "statistic") for priority in range(8)),
)

_OTHERS = (
    # Fewer than five a day: a switch reboot or a moved cable is not a flapping link.
    Counter("carrier_down_count", "flap", "netdev", (Limit("per_day", 4),), Verdict.FAIL),
    # Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats; correctable errors were corrected.
    Counter("aer_dev_fatal", "aer", "pci", _NONE, Verdict.FAIL),
    Counter("aer_dev_nonfatal", "aer", "pci", _NONE, Verdict.FAIL),
    Counter("aer_dev_correctable", "aer", "pci", _NONE),
)

COUNTERS = (*_PORT, *_TRANSPORT, *_STATISTICS, *_OTHERS)
BY_NAME = {counter.name: counter for counter in COUNTERS}

#: Kind of bit error rate → its limit. effective: after forward error correction; a healthy link has no errors
#: there. raw: before it. RS(544,514) corrects a thousand times as much (IEEE 802.3, 120D.3.2), so a link
#: above the limit works, but its cable or transceiver is worse than specified.
BER = {"effective": 1e-9, "raw": 1e-7}

#: Advice if a check's counters rise too much
ADVICE = {
    "fatal_counters": "look at the cable and the switch port (dmesg, the switch's log), then baseline: reset",
    "degradation": "clean or replace the cable or transceiver, or try another switch port",
    "port_errors": "look at cable, congestion and the switch port's counters",
    "transport": "packets are lost: look at PFC, ECN and buffers of NIC and switches, and at the peers",
    "nic_discards": "look at PFC and buffers, and at who is paused by whom",
    "flap": "the link goes down again and again: look at cable, transceiver and switch port",
    "aer": "reseat the card, look at riser and slot (dmesg names the errors)",
    "efa": "look at the peers of the job and at the security group; stop and start the instance if it stays",
}
