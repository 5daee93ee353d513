# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of keys of /proc/sys in a new container: the node's, a copy of it, or the kernel's default.

Read in the sources of Linux 5.10, 6.1, 6.12 and 7.3, and seen on 6.16. tests/system/test_sysctl_reach.py
compares with the running kernel, and tests/lab/test_sysctl_reach.py with a machine whose values it changes.

A container has its own namespaces for the network, IPC, host name and processes, and rarely one of users. A
rule holds for each file that the named source registers. A key without a rule is unknown.
"""

from __future__ import annotations

import functools
from enum import Enum
from typing import Mapping

from ..model import values
from ..model.record import NamedTuple, regex
from . import sysctl_keys
from .sysctl_d import slashed


class Reach(str, Enum):
    """The value of a key in a new container, compared with the node's. The texts are for tables.

    GLOBAL: one value, which a container sees. READ_ONLY: the same, and its file is read-only in a container.
    ABSENT: one value without a file in a container. OUTER: a container begins with its own value, and the
    node's value counts as well, as a bound or when the namespace is made. INHERITED: a copy of the node's
    value at the start of the container. OWN: the kernel's default. INTERFACE: an interface of the node; one
    in a container begins with the values of `default`.
    """

    GLOBAL = "same value"
    READ_ONLY = "same value, read-only"
    ABSENT = "same value, no file"
    OUTER = "own value; the node's counts too"
    INHERITED = "copy of the node's value"
    OWN = "kernel default"
    INTERFACE = "no such interface"

    def __str__(self) -> str:
        return self.value

    @property
    def counts(self) -> bool:
        """True if the node's value has its effect in a container that starts afterwards."""
        return self not in (Reach.OWN, Reach.INTERFACE)


_G, _R, _A, _O, _I, _N = (
    Reach.GLOBAL,
    Reach.READ_ONLY,
    Reach.ABSENT,
    Reach.OUTER,
    Reach.INHERITED,
    Reach.OWN,
)

#: Folder → reach of each of its known keys that _KEYS does not name
_FOLDERS: Mapping[str, Reach] = {
    **dict.fromkeys(("abi", "crypto", "debug", "dev", "fs", "kernel", "sunrpc", "vm"), _G),
    # ipc/mq_sysctl.c, ipc/mqueue.c: mq_init_ns()
    "fs/mqueue": _N,
    # kernel/ucount.c: inc_ucount() asks each namespace above; kernel/user_namespace.c: create_user_ns()
    # begins with INT_MAX
    "user": _O,
    # Tables that each network namespace gets: netns_core_table in net/core/sysctl_net_core.c, net/xfrm/
    # xfrm_sysctl.c, ipv4_net_table in net/ipv4/sysctl_net_ipv4.c, net/ipv4/{ip_fragment,xfrm4_policy}.c,
    # net/ipv6/{sysctl_net_ipv6,reassembly,route,icmp,xfrm6_policy}.c
    **dict.fromkeys(("net/core", "net/ipv4", "net/ipv4/route"), _N),
    **dict.fromkeys(("net/ipv6", "net/ipv6/icmp", "net/ipv6/route"), _N),
    # net/bridge/br_netfilter_hooks.c, net/netfilter/ipvs/ip_vs_ctl.c, net/mpls/af_mpls.c, net/mptcp/ctrl.c
    **dict.fromkeys(("net/bridge", "net/ipv4/vs", "net/mpls", "net/mptcp"), _N),
    # net/netfilter/{nf_conntrack_standalone,nf_log}.c, net/rds/tcp.c, net/sctp/sysctl.c, net/smc/smc_sysctl.c
    **dict.fromkeys(("net/netfilter", "net/netfilter/nf_log", "net/rds/tcp", "net/sctp", "net/smc"), _N),
    # net/unix/sysctl_net_unix.c, drivers/net/vrf.c, net/vmw_vsock/af_vsock.c
    **dict.fromkeys(("net/unix", "net/vrf", "net/vsock"), _N),
    # net/core/neighbour.c: lookup_neigh_parms() finds `default` in the first namespace only;
    # neigh_parms_alloc() copies it for an interface of any namespace
    **dict.fromkeys(("net/ipv4/neigh/default", "net/ipv6/neigh/default"), _A),
    # Registered for init_net alone: drivers/infiniband/core/{iwcm,ucma}.c, net/rds/{sysctl,ib_sysctl}.c,
    # net/tipc/sysctl.c, nf_ct_netfilter_table in net/netfilter/nf_conntrack_standalone.c
    **dict.fromkeys(("net", "net/iw_cm", "net/rdma_ucm", "net/rds", "net/rds/ib", "net/tipc"), _A),
}  # fmt: skip

#: Folder → reach → the names of its keys with another reach than the folder
_KEYS: Mapping[str, Mapping[Reach | None, str]] = {
    "kernel": {
        # ipc/ipc_sysctl.c; ipc/{shm,msg,sem}.c: shm_init_ns(), msg_init_ns(), sem_init_ns()
        _N: (
            "auto_msgmni msg_next_id msgmax msgmnb msgmni sem sem_next_id shm_next_id shm_rmid_forced shmall "
            "shmmax shmmni"
        ),
        # kernel/utsname_sysctl.c; kernel/utsname.c: clone_uts_ns(). A runtime then sets the host name.
        _I: "domainname hostname",
        # kernel/pid.c: alloc_pid() asks each namespace above; kernel/pid_namespace.c: create_pid_namespace()
        # begins with PID_MAX_LIMIT
        _O: "pid_max",
        # kernel/pid_namespace.c: the last number that was given in the namespace
        None: "ns_last_pid",
    },
    # kernel/pid_namespace.c: create_pid_namespace() begins with the node's value, and pid_sysctl.h takes the
    # greater of both later
    "vm": {_I: "memfd_noexec"},
    "net/core": {
        # net_core_table in net/core/sysctl_net_core.c
        _A: (
            "bpf_jit_enable bpf_jit_harden bpf_jit_kallsyms bpf_jit_limit busy_poll busy_read default_qdisc "
            "dev_weight dev_weight_rx_bias dev_weight_tx_bias devconf_inherit_init_net "
            "fb_tunnels_only_for_init_net flow_limit_cpu_bitmap flow_limit_table_len gro_normal_batch "
            "high_order_alloc_disable max_skb_frags mem_pcpu_rsv message_burst message_cost netdev_budget "
            "netdev_budget_usecs netdev_max_backlog netdev_rss_key netdev_tstamp_prequeue "
            "netdev_unregister_timeout_secs qdisc_max_burst rps_sock_flow_entries skb_defer_max warnings"
        ),
        _R: "rmem_default rmem_max wmem_default wmem_max",
    },
    "net/ipv4": {
        # ipv4_table in net/ipv4/sysctl_net_ipv4.c, ip4_frags_ctl_table in net/ipv4/ip_fragment.c
        _A: (
            "cipso_cache_bucket_size cipso_cache_enable cipso_rbm_optfmt cipso_rbm_strictvalid fib_sync_mem "
            "inet_peer_maxttl inet_peer_minttl inet_peer_threshold ipfrag_secret_interval tcp_available_ulp "
            "tcp_low_latency tcp_max_orphans tcp_mem udp_mem"
        ),
        # net/ipv4/tcp_ipv4.c: tcp_sk_init() copies them from init_net
        _I: "tcp_congestion_control tcp_rmem tcp_wmem",
        # proc_allowed_congestion_control(): one list
        _R: "tcp_allowed_congestion_control tcp_available_congestion_control",
        # tcp_set_hashinfo(), udp_set_table(): the value where the namespace is made sizes its table
        _O: "tcp_child_ehash_entries udp_child_hash_entries",
        # The size of the namespace's own table
        None: "tcp_ehash_entries udp_hash_entries",
    },
    # ipv4_route_table in net/ipv4/route.c
    "net/ipv4/route": {
        _A: (
            "error_burst error_cost gc_elasticity gc_interval gc_min_interval gc_min_interval_ms gc_thresh "
            "gc_timeout max_size redirect_load redirect_number redirect_silence"
        ),
    },
    # ipv6_rotable in net/ipv6/sysctl_net_ipv6.c, ip6_frags_ctl_table in net/ipv6/reassembly.c
    "net/ipv6": {
        _A: "calipso_cache_bucket_size calipso_cache_enable ip6frag_secret_interval mld_max_msf mld_qrv",
    },
    # net/netfilter/ipvs/ip_vs_ctl.c: ip_vs_control_net_init_sysctl()
    "net/ipv4/vs": {_I: "conn_max"},
    "net/mptcp": {_R: "available_path_managers available_schedulers"},
    "net/netfilter": {
        # nf_conntrack_standalone_init_sysctl()
        _R: "nf_conntrack_buckets nf_conntrack_expect_max nf_conntrack_max",
        _A: "nf_log_all_netns",
        # net/netfilter/nf_hooks_lwtunnel.c: one static key
        _G: "nf_hooks_lwtunnel",
        None: "nf_conntrack_count",
    },
    # sctp_table in net/sctp/sysctl.c
    "net/sctp": {_A: "sctp_mem sctp_rmem sctp_wmem"},
    # net/smc/smc_sysctl.c: a program of BPF decides whether its name is copied
    "net/smc": {None: "hs_ctrl"},
    # net/vmw_vsock/af_vsock.c: vsock_net_init() takes child_ns_mode from where the namespace is made
    "net/vsock": {_I: "child_ns_mode", None: "ns_mode"},
}  # fmt: skip


class Change(NamedTuple):
    """A reach that a release has changed: `before` up to the release `last`, and the one of _KEYS or
    _FOLDERS from `first`. Releases between the two were not read."""

    before: Reach
    last: tuple[int, int]
    first: tuple[int, int]


_CHANGES: Mapping[str, Change] = {
    # gvisor issue 10704 has compared 6.6 with 6.11
    **{
        f"net/core/{name}": Change(_A, (6, 6), (6, 11))
        for name in ("rmem_default", "rmem_max", "wmem_default", "wmem_max")
    },
    # net_core_table, later netns_core_table
    "net/core/optmem_max": Change(_A, (6, 1), (6, 12)),
    "net/core/tstamp_allow_data": Change(_A, (6, 12), (6, 16)),
    # ipv4_table, later ipv4_net_table; stable releases have it as well
    "net/ipv4/icmp_msgs_burst": Change(_A, (5, 10), (6, 12)),
    "net/ipv4/icmp_msgs_per_sec": Change(_A, (5, 10), (6, 12)),
    # ipv4_route_table, later ipv4_route_netns_table
    "net/ipv4/route/min_adv_mss": Change(_A, (5, 10), (6, 1)),
    "net/ipv4/route/min_pmtu": Change(_A, (5, 10), (6, 1)),
    "net/ipv4/route/mtu_expires": Change(_A, (5, 10), (6, 1)),
    # kernel/pid.c: a variable of the machine
    "kernel/pid_max": Change(_G, (6, 12), (6, 16)),
}

#: Folders with one reach for every key, known or not
_WHOLE = ("fs/mqueue", "user")
_TIMEOUT = regex(r"net/netfilter/nf_conntrack_\w*timeout\w*")
_OF_INTERFACE = regex(r"net/(ipv[46])/(conf|neigh)/([^/]+)/([^/]+)")
_OF_MPLS = regex(r"net/mpls/conf/[^/]+/[^/]+")

#: net/ipv4/devinet.c: devinet_init_net(), net/ipv6/addrconf.c: addrconf_init_net(): values of
#: net.core.devconf_inherit_init_net with which a family copies conf/all and conf/default
_COPIED = {"ipv4": ("0", "1", "3"), "ipv6": ("1", "3")}
_DEVCONF = ("0", "1", "2", "3")
#: addrconf_init_net() takes these from parameters of the module, or leaves them empty
_NEVER_COPIED = (
    *("default/autoconf", "default/disable_ipv6"),
    *("all/stable_secret", "default/stable_secret"),
)

_NAMESPACES = {"user": "user", "fs/mqueue": "ipc"}
_NAMESPACES_OF_KEYS = {
    "kernel/domainname": "uts",
    "kernel/hostname": "uts",
    "kernel/pid_max": "pid",
    "vm/memfd_noexec": "pid",
}


#: In place of a release, for a kernel that is still to come, such as an image's
NEWEST = "newest"


def reach(key: str, release: str = NEWEST, devconf: str = "0") -> Reach | None:
    """The reach of a key in either spelling; None if it is not known.

    release: of the kernel, as uname -r; empty if it is not known. devconf: text of
    net.core.devconf_inherit_init_net, whose default is 0.
    """
    path = slashed(key.partition("@")[0])
    if path == "net/ipv4/ip_forward":
        path = "net/ipv4/conf/all/forwarding"
    match = _OF_INTERFACE.fullmatch(path)
    if match:
        return _of_interface(match[1], match[2], match[3], match[4], devconf)
    if _OF_MPLS.fullmatch(path):
        return Reach.INTERFACE
    folder, _slash, name = path.rpartition("/")
    if _TIMEOUT.fullmatch(path) or folder in _WHOLE:
        return _FOLDERS[folder]
    if not sysctl_keys.is_known(path):
        return None
    change = _CHANGES.get(path)
    version = values.kernel_version(release)
    if change and version is None and release != NEWEST:
        return None
    if change and version and version < change.first:
        now = _of_folder(folder, name)
        # In releases that were not read, the effect is known if it is the same before and afterwards.
        return change.before if version <= change.last or (now and now.counts) else None
    return _of_folder(folder, name)


def _of_folder(folder: str, name: str) -> Reach | None:
    names = _names(folder)
    if name in names:
        return names[name]
    while folder not in _FOLDERS:
        folder = folder.rpartition("/")[0]
    return _FOLDERS[folder]


@functools.lru_cache(maxsize=None)
def _names(folder: str) -> Mapping[str, Reach | None]:
    """Name of each key of _KEYS in a folder → its reach."""
    return {name: kind for kind, text in _KEYS.get(folder, {}).items() for name in text.split()}


def _of_interface(family: str, folder: str, interface: str, name: str, devconf: str) -> Reach | None:
    if folder == "neigh":
        return _FOLDERS["net/ipv4/neigh/default"] if interface == "default" else Reach.INTERFACE
    if name == "mc_forwarding":  # A state, which routing daemons change
        return None
    if interface not in ("all", "default"):
        return Reach.INTERFACE
    if devconf not in _DEVCONF:
        return None
    copied = devconf in _COPIED[family] and not (family == "ipv6" and f"{interface}/{name}" in _NEVER_COPIED)
    return Reach.INHERITED if copied else Reach.OWN


def namespace(key: str, release: str = NEWEST) -> str | None:
    """The kind of namespace in which a container has its own value of a key: net, ipc, uts, pid or user; None
    if the machine has one value, and for unknown keys."""
    kind = reach(key, release)
    if kind in (None, Reach.GLOBAL, Reach.READ_ONLY, Reach.ABSENT):
        return None
    path = slashed(key)
    folder = path.rpartition("/")[0]
    if path in _NAMESPACES_OF_KEYS:
        return _NAMESPACES_OF_KEYS[path]
    if folder in _NAMESPACES:
        return _NAMESPACES[folder]
    return "ipc" if folder == "kernel" else "net"
