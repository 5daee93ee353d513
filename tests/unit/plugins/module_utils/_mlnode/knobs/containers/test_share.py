# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of declarations that does not reach a container by itself."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from mlnode.engine.declared import Declaration
from mlnode.knobs.containers.share import Share, share

PROFILES = pathlib.Path(__file__).parents[7] / "roles/node/profiles"

AUTO = {"sysctls": "auto"}

#: Measured on Linux 6.18: a new network namespace does not take them over
NOT_TAKEN_OVER = {
    "net.core.somaxconn": "65535",
    "net.ipv4.ip_local_port_range": "20000 65535",
    "net.ipv4.ip_local_reserved_ports": "20048-20049,24007-24008,29400,29500,30000-32767,50000,52365",
    "net.ipv4.tcp_fin_timeout": "30",
    "net.ipv4.tcp_keepalive_intvl": "10",
    "net.ipv4.tcp_keepalive_probes": "6",
    "net.ipv4.tcp_keepalive_time": "60",
    "net.ipv4.tcp_max_syn_backlog": "65535",
    "net.ipv4.tcp_max_tw_buckets": "1440000",
    "net.ipv4.tcp_notsent_lowat": "131072",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.ipv4.tcp_tw_reuse": "1",
    "net.ipv4.tcp_window_scaling": "1",
}


def of(**areas: dict[str, Any]) -> Share:
    return share([Declaration("site", areas)])


def test_the_profile_inference() -> None:
    areas = yaml.safe_load((PROFILES / "inference.yml").read_text(encoding="utf-8"))
    shared = of(sysctl=areas["sysctl"], limits=areas["limits"])
    assert shared.sysctls == NOT_TAKEN_OVER
    assert shared.at_least >= {"net.core.somaxconn", "net.ipv4.ip_local_reserved_ports"}
    assert "net.ipv4.tcp_fin_timeout" not in shared.at_least
    assert (shared.ulimits, shared.automatic) == ({"nofile": "1024:1048576"}, {"memlock"})
    assert (shared.shm_size, shared.unknown, shared.open) == (None, (), ())


def test_an_own_declaration_decides() -> None:
    shared = of(
        sysctl={"settings": {"net.core.somaxconn": 1, "net.ipv4.tcp_fin_timeout": 2}},
        limits={"nofile": 4096},
        containers={
            "sysctls": {"net.core.somaxconn": 3},
            "ulimits": {"memlock": "unlimited"},
            "shm_size": "1073741824",
        },
    )
    assert shared == Share(
        {"net.core.somaxconn": "3"},
        {"memlock": "unlimited"},
        1 << 30,
        exact=frozenset(["memlock"]),
    )


def test_several_declarations_of_a_node() -> None:
    shared = share(
        [
            Declaration(
                "a", {"sysctl": {"settings": {"net.core.somaxconn": 1}}, "containers": {"sysctls": "auto"}}
            ),
            Declaration("b", {"sysctl": {"settings": {"net.ipv4.tcp_fin_timeout": 2}}}),
            Declaration(
                "c", {"sysctl": {"settings": {"net.core.somaxconn": True}}, "limits": {"nofile": "x"}}
            ),
        ]
    )
    assert shared.sysctls == {"net.core.somaxconn": "1", "net.ipv4.tcp_fin_timeout": "2"}
    assert shared.ulimits == {}


@pytest.mark.parametrize(
    ("runtime", "nofile"), [("", "1024:4096"), ("crio", "1024:4096"), ("docker", "2048")]
)
def test_a_service_may_have_its_own_limit(runtime: str, nofile: str) -> None:
    limits = {"nofile": {"login": 65536, "services": "1024:4096", "docker": 2048}}
    declaration = Declaration("site", {"limits": limits})
    assert share([declaration], runtime).ulimits == {"nofile": nofile}


def test_exact_limits() -> None:
    shared = of(limits={"nofile": {"services": {"exactly": 2048}}, "core": 0, "stack": 16777216})
    assert shared.ulimits == {"nofile": "2048", "stack": "16777216", "core": "0"}
    assert shared.exact == {"nofile", "core"}


def test_keys_that_stay_on_the_node_are_named() -> None:
    shared = of(
        sysctl={
            "settings": {
                "net.ipv4.tcp_brand_new": 1,
                "net.ipv4.neigh.default.gc_thresh3": 4096,
                "net.ipv4.conf.eth0.rp_filter": 2,
                "kernel.shmmax": 1,
                "kernel.hostname": "x",
                "user.max_user_namespaces": 1,
            }
        }
    )
    assert (shared.sysctls, shared.unknown) == ({"kernel.shmmax": "1"}, ("net.ipv4.tcp_brand_new",))


@pytest.mark.parametrize(("devconf", "family"), [("0", "ipv6"), ("2", "ipv4")])
def test_a_new_namespace_may_copy_the_settings_of_interfaces(devconf: str, family: str) -> None:
    keys = {f"net.{name}.conf.all.forwarding": 1 for name in ("ipv4", "ipv6")}
    declaration = Declaration("a", {"sysctl": {"settings": keys}})
    assert f"net.{family}.conf.all.forwarding" in share([declaration], devconf=devconf).sysctls
    assert share([declaration], devconf="1").sysctls == {}
