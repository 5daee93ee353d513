# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of one variable of the kernel, and names whose write moves others."""

from __future__ import annotations

import re

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.linux import sysctl_aliases, sysctl_d, sysctl_keys, sysctl_values

FORWARD, OF_ALL, OF_ETH = (
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/forwarding",
    "net/ipv4/conf/eth0/forwarding",
)


def named(name: str) -> list[str]:
    return sorted(source.name for source in sysctl_aliases.sources(name))


@cases.table
def test_names_whose_write_moves_a_file(name: str, others: list[str]) -> None:
    assert named(name) == sorted([name, *others])


@pytest.mark.parametrize("group", [*sysctl_aliases.SAME, *sysctl_aliases.PAIRS])
def test_the_names_of_the_tables_are_keys_of_a_kernel(group: tuple[str, ...]) -> None:
    assert [name for name in group if not sysctl_keys.is_known(name)] == []


@cases.table
def test_the_value_after_all_lines(lines: str, name: str, value: str | None, by: str) -> None:
    text = re.sub(r"(^|; |-)([46]\.)", r"\1net.ipv\2", lines).replace("; ", "\n")
    config = sysctl_d.BootConfig(tuple(sysctl_d.parse(text, "/f")))
    found = config.decided(name, sysctl_values.writes())
    effect = found.effect if found else sysctl_d.Effect("none")
    assert ("?" if effect.unknown else effect.text) == value
    assert not by or (found is not None and found.name == by)


def test_what_moves_others_is_written_first() -> None:
    assert all(
        map(
            sysctl_aliases.moves_others,
            (FORWARD, OF_ALL, "net/ipv6/conf/all/disable_ipv6", "kernel/watchdog"),
        )
    )
    assert not any(
        map(sysctl_aliases.moves_others, (OF_ETH, "net/ipv4/conf/all/rp_filter", "vm/dirty_bytes"))
    )
