# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every node and every declaration: a look writes nothing, a second run changes nothing,
and a revert brings back every byte."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from mlnode.agent.registry import KINDS
from mlnode.engine import engine, origin_paths, revert
from mlnode.model.setting import Layer

quickly = settings(
    max_examples=12 * EFFORT,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def words(*names: str) -> st.SearchStrategy[str]:
    """A file of choices, one of them active."""
    return st.sampled_from(names).map(
        lambda chosen: " ".join(f"[{name}]" if name == chosen else name for name in names)
    )


NUMBER = st.integers(0, 4096).map(str)

#: path → what the kernel may show before the first run
KERNEL = st.fixed_dictionaries(
    {
        "/proc/sys/vm/swappiness": st.integers(0, 200).map(str),
        "/proc/sys/vm/min_free_kbytes": st.integers(1024, 200000).map(str),
        "/proc/sys/vm/max_map_count": NUMBER,
        "/proc/sys/net/core/rmem_max": st.integers(4096, 1 << 28).map(str),
        "/proc/sys/net/ipv4/tcp_rmem": st.tuples(NUMBER, NUMBER, NUMBER).map("\t".join),
        f"{THP}/enabled": words("always", "madvise", "never"),
        f"{THP}/defrag": words("always", "defer", "defer+madvise", "madvise", "never"),
        f"{THP}/khugepaged/defrag": st.sampled_from("01"),
        "/proc/cmdline": st.sampled_from(
            ["ro", "ro transparent_hugepage=never", "-- transparent_hugepage=never"]
        ),
    }
)  # fmt: skip

VALUE = st.integers(0, 200000)

SYSCTL = st.fixed_dictionaries(
    {
        "settings": st.fixed_dictionaries(
            {},
            optional={
                "vm.swappiness": st.none() | st.integers(0, 200),
                "vm.min_free_kbytes": st.integers(1024, 200000) | st.just("auto")
                | st.integers(1024, 200000).map(lambda number: {"at_least": number}),
                "vm.max_map_count": VALUE | VALUE.map(lambda number: {"at_least": number}),
                "vm.dirty_bytes": st.integers(1 << 20, 1 << 30),
                "vm.dirty_background_ratio": st.integers(1, 50),
                "net.core.rmem_max": st.just("auto") | VALUE,
                "net.ipv4.tcp_rmem": st.just("4096 131072 auto") | st.just("4096  87380\t16777216"),
                "net.ipv4.ip_local_reserved_ports": st.sampled_from(
                    ["8080,9090", "1-5,7", {"at_least": "30-40"}]
                ),
                "net.ipv4.tcp_congestion_control": st.sampled_from(["bbr", "reno", "cubic"]),
                "net.ipv4.conf.eth0/100.rp_filter": st.sampled_from([0, 1, 2]),
                "vm.no_such_knob": st.just(1),
            },
        )
    }
)  # fmt: skip

TRANSPARENT = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.sampled_from(["always", "madvise", "never"]),
        "defrag": st.sampled_from(["always", "defer", "defer+madvise", "madvise", "never"]),
        "khugepaged": st.fixed_dictionaries({}, optional={"defrag": st.sampled_from([0, 1, "1"])}),
        "sizes": st.fixed_dictionaries(
            {}, optional={"64kB": st.just({"enabled": "always"}), "4kB": st.just({"enabled": "never"})}
        ),
    },
)

LINE = st.sampled_from(
    ["vm.swappiness = 7", "vm/max_map_count=1", "net.ipv4.conf.*.rp_filter = 1", "-vm.swappiness",
     "# nothing", "vm.dirty_ratio=9", "net.core.rmem_max = 1", "broken"]
)  # fmt: skip

#: Files that others own, before, after and in the place of ours
OTHERS = st.dictionaries(
    st.sampled_from(
        ["/etc/sysctl.d/10-x.conf", "/etc/sysctl.d/zzz-x.conf", "/usr/lib/sysctl.d/zz-mlnode-default.conf",
         "/etc/sysctl.d/zz-mlnode-default.conf", "/etc/modules-load.d/mlnode-default.conf"]
    ),
    st.tuples(st.lists(LINE, max_size=3).map("\n".join), st.sampled_from([0o644, 0o600, 0o4755])),
    max_size=3,
)  # fmt: skip

LAYERS = st.sampled_from([(Layer.RUNTIME, Layer.BOOT), (Layer.RUNTIME,), (Layer.BOOT,)])


def stamps(machine: Machine) -> dict[str, tuple[int, int, int]]:
    """Which file it is and when it was last written: the content alone would not show a rewrite."""
    found = {}
    for folder, folders, files in os.walk(machine.root):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            state = os.lstat(path)
            found[path] = (state.st_ino, state.st_mtime_ns, state.st_ctime_ns)
    return found


def node(root: pathlib.Path, kernel: dict[str, str], others: dict[str, Any], agent: bool) -> Machine:
    machine = Machine.debian(str(root), kernel)
    for path, (text, mode) in others.items():
        machine.put(path, text, mode)
    if agent:
        machine.enable_agent()
    return machine


def requests(specs: dict[str, Any], layers: tuple[Layer, ...]) -> list[engine.Request]:
    return [door.request("default", name, specs[name], layers) for name in KINDS if name in specs]


SPECS = st.fixed_dictionaries({"sysctl": SYSCTL, "thp": TRANSPARENT})


@quickly
@given(kernel=KERNEL, others=OTHERS, agent=st.booleans(), specs=SPECS, layers=LAYERS)
def test_look_apply_again_and_back(
    kernel: dict[str, str],
    others: dict[str, Any],
    agent: bool,
    specs: dict[str, Any],
    layers: tuple[Layer, ...],
) -> None:
    for root in in_memory():
        machine = node(root, kernel, others, agent)
        before = machine.tree()
        everything = requests(specs, layers)

        for request in everything:
            untouched = stamps(machine)
            seen = engine.preview(machine, [request])
            assert stamps(machine) == untouched, "a look wrote something"
            outcome = door.apply(machine, request)
            assert outcome.changed is seen.changed
            event(f"{request.kind.KIND}: {len(seen.outcomes[0].plan.steps)} steps")

        tuned = machine.tree()
        for request in everything:
            assert not engine.preview(machine, [request]).changed
            assert not door.apply(machine, request).changed
        assert machine.tree() == tuned

        revert.revert(machine)
        assert machine.tree() == before
        # A node with our files and without an origin has lost it.
        if not origin_paths.present(machine):
            assert revert.revert(machine) == []


@quickly
@given(kernel=KERNEL, others=OTHERS, specs=st.lists(st.tuples(SPECS, LAYERS), min_size=2, max_size=4))
def test_any_number_of_runs_goes_back_to_the_first_state(
    kernel: dict[str, str], others: dict[str, Any], specs: list[tuple[dict[str, Any], tuple[Layer, ...]]]
) -> None:
    for root in in_memory():
        machine = node(root, kernel, others, agent=False)
        before = machine.tree()
        for spec, layers in specs:
            for request in requests(spec, layers):
                door.apply(machine, request)
        revert.revert(machine)
        assert machine.tree() == before
