# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import folded
from mlnode.host import places


def pair(name: str, before: str = "", after: str = "x\n") -> dict[str, str]:
    return {"before_header": name, "after_header": name, "before": before, "after": after}


AGENT = [
    "/usr/local/bin/mlnode",
    "/etc/systemd/system/mlnode-apply.service",
    "/etc/systemd/system/multi-user.target.wants/mlnode-nic.path",
    "/etc/systemd/system/timers.target.d/zz-mlnode.pull-node.conf",
    "/etc/systemd/system-preset/50-mlnode.preset",
    "/etc/udev/rules.d/90-mlnode.rules",
    "/etc/mlnode/declared.d/node.json",
]
#: What a boot brings that the running kernel does not show
SHOWN = [
    "/etc/security/limits.d/zz-mlnode-node.conf",
    "/etc/systemd/system.conf.d/zz-mlnode-node.conf",
    "/etc/systemd/system/slurmd.service.d/zz-limits.conf",
    "/etc/modules-load.d/mlnode-node.conf",
    "/etc/default/grub.d/zz-mlnode-node.cfg",
    "/etc/nccl.conf",
]


def names(*pairs: dict[str, str]) -> list[str]:
    return [one["after_header"] for one in folded.folded(pairs)]


def test_values_are_first_and_the_agent_is_one_line() -> None:
    given = [
        *map(pair, AGENT),
        pair("sysctl runtime", "a\n", "b\n"),
        pair("/etc/sysctl.d/zz-mlnode-node.conf"),
    ]

    found = folded.folded(given)

    assert [one["after_header"] for one in found] == ["sysctl runtime", "files of the agent"]
    assert found[0] == given[-2]
    [line] = found[1]["after"].splitlines()
    assert line.startswith(f"{len(AGENT) + 1} files are installed: the agent, its units, ")


@pytest.mark.parametrize("name", SHOWN)
def test_what_only_a_file_shows_stays(name: str) -> None:
    assert names(pair(AGENT[0]), pair(name), pair("nic runtime")) == [
        "nic runtime",
        name,
        "files of the agent",
    ]


def test_a_drop_in_stays_where_no_value_shows_it() -> None:
    name = "/etc/sysctl.d/zz-mlnode-node.conf"
    assert names(pair(name)) == [name]
    assert names(pair(name), pair("irq runtime")) == ["irq runtime", name]
    assert names(pair(name, "old\n"), pair("sysctl runtime")) == ["sysctl runtime", name]


def test_files_that_change_or_go_are_named() -> None:
    [found] = folded.folded([pair(AGENT[0], "1\n", "2\n"), pair(AGENT[3], "1\n", ""), pair(AGENT[1])])

    assert found["after"].splitlines() == [
        f"{AGENT[0]}: changed; -vv shows how",
        f"{AGENT[3]}: removed; -vv shows how",
        f"{AGENT[1]}: new; -vv shows how",
    ]


def test_nothing_is_folded_to_nothing() -> None:
    assert folded.folded([]) == []
    assert {*AGENT} & {str(path) for path in vars(places).values() if isinstance(path, str)}
