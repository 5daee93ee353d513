# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import services_tuned
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs.services_rivals import _agrees
from ansible_collections.mlnode.tuning.tests.unit import service_machine
from ansible_collections.mlnode.tuning.tests.unit.service_machine import ServiceMachine
from hypothesis import given
from hypothesis import strategies as st

PROFILE = "/usr/lib/tuned/throughput-performance/tuned.conf"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> ServiceMachine:
    return service_machine.made(str(tmp_path / "node"))


def lines(node: ServiceMachine) -> dict[str, tuple[str, str]]:
    found = services_tuned.read(node)
    assert found.problem == ""
    return {line.key: (line.value, line.where) for line in found.lines}


def test_a_profile_with_its_places(node: ServiceMachine) -> None:
    node.tuned()
    assert lines(node) == {
        "cpu.governor": ("performance", f"{PROFILE}:8"),
        "cpu.energy_perf_bias": ("performance", f"{PROFILE}:9"),
        "thp.enabled": ("always", f"{PROFILE}:12"),
        "vm.dirty_ratio": ("40", f"{PROFILE}:16"),
        "vm.swappiness": ("10", f"{PROFILE}:17"),
        "vm.max_map_count": (">1048576", f"{PROFILE}:18"),
    }


def test_what_includes_another_comes_after_it(node: ServiceMachine) -> None:
    node.tuned("network-latency")
    found = lines(node)
    assert found["thp.enabled"] == ("never", "/usr/lib/tuned/network-latency/tuned.conf:6")
    assert found["cpu.governor"] == ("performance", f"{PROFILE}:8")
    assert "kernel.numa_balancing" in found


def test_several_profiles_the_last_wins(node: ServiceMachine) -> None:
    node.tuned("throughput-performance own", own="[sysctl]\nvm.swappiness=1\n")
    assert lines(node)["vm.swappiness"] == ("1", "/etc/tuned/own/tuned.conf:2")


def test_a_name_in_etc_hides_the_one_of_the_package_and_may_include_it(node: ServiceMachine) -> None:
    node.tuned(throughput_performance="[vm]\ntransparent_hugepages=madvise\n")
    assert [*lines(node)] == ["thp.enabled"]
    node.put(
        "/etc/tuned/throughput-performance/tuned.conf",
        "[main]\ninclude=throughput-performance\n[vm]\ntransparent_hugepages=madvise\n",
    )
    found = lines(node)
    assert found["thp.enabled"] == ("madvise", "/etc/tuned/throughput-performance/tuned.conf:4")
    assert found["vm.dirty_ratio"][0] == "40"


def test_the_folders_of_newer_versions(node: ServiceMachine) -> None:
    node.tuned("new")
    node.put("/usr/lib/tuned/profiles/new/tuned.conf", "[cpu]\nno_turbo=1\n")
    assert lines(node) == {"cpu.boost": ("off", "/usr/lib/tuned/profiles/new/tuned.conf:2")}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("[sysctl]\nreplace=1\nvm.swappiness=5\n", {"vm.swappiness"}),
        ("[sysctl]\ndrop=vm.dirty_ratio, vm.max_map_count\n", {"vm.swappiness"}),
        ("[sysctl]\nenabled=false\n", set()),
        ("[own]\ntype=sysctl\nvm/stat_interval=10\n", None),
    ],
)
def test_replace_drop_and_type(node: ServiceMachine, text: str, keys: set[str] | None) -> None:
    node.tuned("own", own=f"[main]\ninclude=throughput-performance\n{text}")
    found = {key for key in lines(node) if key.startswith("vm.")}
    usual = {"vm.swappiness", "vm.dirty_ratio", "vm.max_map_count"}
    assert found == ({*usual, "vm.stat_interval"} if keys is None else keys)


@pytest.mark.parametrize(
    ("cpu", "keys"), [("CPU part\t: 0x516", {"kernel.numa_balancing"}), ("flags\t: fpu", set())]
)
def test_a_section_for_other_processors(node: ServiceMachine, cpu: str, keys: set[str]) -> None:
    node.tuned(
        "own",
        own="[variables]\nthunderx=CPU part\\s+:\\s+(0x0?516)\\b\n[sysctl.thunderx]\ntype=sysctl\n"
        "uname_regex=aarch64\ncpuinfo_regex=${thunderx}\nkernel.numa_balancing=0\n",
    )
    node.put("/proc/cpuinfo", f"processor\t: 0\nCPU implementer\t: 0x43\n{cpu}\n")
    assert {*lines(node)} == keys


def test_variables(node: ServiceMachine) -> None:
    node.tuned("own", own="[variables]\na=5\n[sysctl]\nvm.swappiness=${a}\nvm.x=${f:calc}${b}\n")
    assert [value for value, _where in lines(node).values()] == ["5", "${f:calc}${b}"]


def test_a_section_whose_condition_is_no_expression_does_not_count(node: ServiceMachine) -> None:
    node.tuned("own", own="[sysctl]\ncpuinfo_regex=(\nvm.swappiness=5\n")
    assert lines(node) == {}


def test_shares_and_files(node: ServiceMachine) -> None:
    node.tuned(
        "own",
        own="[vm]\ndirty_bytes=10%\ndirty_background_bytes=1048576\ntransparent_hugepage.defrag=never\n"
        "[sysfs]\n/sys/kernel/mm/transparent_hugepage/khugepaged/defrag=0\n/sys/other=1\n"
        '[sysctl]\nnet.ipv4.tcp_rmem="4096 87380 16777216"\n',
    )
    assert {key: value for key, (value, _where) in lines(node).items()} == {
        "vm.dirty_ratio": "10",
        "vm.dirty_background_bytes": "1048576",
        "thp.defrag": "never",
        "thp.khugepaged.defrag": "0",
        "net.ipv4.tcp_rmem": "4096 87380 16777216",
    }


def test_profiles_that_include_each_other_end(node: ServiceMachine) -> None:
    node.tuned("a", a="[main]\ninclude=b\n", b="[main]\ninclude=a\n")
    assert "cannot find the profile a" in services_tuned.read(node).problem


def test_a_profile_that_nobody_may_read(node: ServiceMachine) -> None:
    node.tuned()
    node.unreadable[PROFILE] = errno.EACCES
    assert "EACCES" in services_tuned.read(node).problem


@given(text=st.text(max_size=200))
def test_any_text_is_a_profile_of_some_kind(text: str) -> None:
    for section in services_tuned._parse(f"[main]\n{text}", "/x").values():
        for value, path, number in section.options.values():
            assert path == "/x"
            assert 1 <= number <= text.count("\n") + 2
            assert isinstance(value, str)


@pytest.mark.parametrize(
    ("value", "raw", "good"),
    [
        ("1", 1, True),
        ("10", 1, False),
        ("on", True, True),
        ("4096 87380 16", "4096\t87380\t16", True),
        (">1048576", {"at_least": 65530}, True),
        (">1048576", 65530, False),
        (">1048576", 2097152, True),
        ("<10", 20, False),
        ("2097152", {"at_least": 1048576}, True),
        ("1024", {"at_least": 1048576}, False),
        ("word", {"at_least": 1}, False),
        ("${own}", 1, False),
        ("40", "auto", False),
        ("1", "9" * 5000, False),
        (">1", "9" * 5000, False),
    ],
)
def test_what_agrees(value: str, raw: object, good: bool) -> None:
    assert _agrees(value, raw) is good
