# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/guide/compared.md: its columns of this collection are what the profiles declare."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.roles import NODES, PROFILES, ROOT, declaration

PAGE = (ROOT / "docs/guide/compared.md").read_text(encoding="utf-8")

#: Setting, tuned, NVIDIA, and what the two profiles of a node have
ROW = re.compile(
    r"^\| `([a-z]+\.[\w.-]+)` \|([^|]+)\|([^|]+)\| (\S[^|]*) \| (\S[^|]*) \|[^|]+\|$", re.MULTILINE
)

#: Setting, tuned, NVIDIA, this collection's profiles, why
OTHER_ROW = re.compile(r"^\| ([^|]+) \|[^|]+\|[^|]+\| ([^|]+) \|[^|]*\|$", re.MULTILINE)

ROWS = {match[1]: {"training": match[4], "inference": match[5]} for match in ROW.finditer(PAGE)}


def shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"`at least {value['at_least']}`" if isinstance(value, dict) else f"`{value}`"


def test_there_are_rows() -> None:
    assert len(ROWS) > 25
    assert len(ROWS) == len(re.findall(r"^\| `(?:vm|kernel|fs|net)\.", PAGE, re.MULTILINE))


@pytest.mark.parametrize("name", NODES)
def test_the_page_has_the_values_of_the_profile(name: str) -> None:
    settings = declaration(name)["sysctl"]["settings"]

    assert {key: row[name] for key, row in ROWS.items()} == {key: shown(settings.get(key)) for key in ROWS}


# -- what is no sysctl ---------------------------------------------------------------------


def in_words(*pattern: str) -> str:
    """In which profiles settings with such keys are: one word of the table."""
    found = {
        name
        for name in PROFILES
        for area, spec in declaration(name).items()
        for item in door.parse(area, spec)
        if re.fullmatch("|".join(pattern), item.key)
    }
    return "left" if not found else "on" if found == {*NODES} else ", ".join(sorted(found))


def both(area: str) -> dict[str, Any]:
    """What the two profiles of a node say alike of an area."""
    training, inference = (declaration(name)[area] for name in ("training", "inference"))
    return {key: value for key, value in training.items() if inference.get(key) == value}


def everything_else() -> dict[str, str]:
    """As the table has to have it."""
    training, inference, fabric = (declaration(name) for name in ("training", "inference", "fabric"))
    thp, limits = both("thp"), both("limits")
    [dataset] = training["storage"]["rules"].values()
    assert "storage" not in inference
    assert "max_latency_us" not in training["cpu"]
    [job], [serving] = (declared["nic"]["rules"].values() for declared in (training, inference))
    assert job["channels"] == job["rings"] == serving["channels"] == "auto"
    [ring] = {one["at_most"] for one in serving["rings"].values()}
    ib, *others = sorted(fabric["modules"]["modules"], key=lambda name: name != "ib_umad")
    assert ib == "ib_umad"
    assert in_words(r"nic\.rails\.mtu") == in_words(r"nccl\..*") == "fabric"
    assert in_words(r"qos\..*") == "left", "priorities come with a named scheme only"
    return {
        "transparent huge pages": f"{thp['enabled']}, with `defrag` {thp['defrag']}",
        "governor": both("cpu")["governor"],
        "EPB": both("cpu")["energy_perf_bias"],
        "boost, EPP, platform profile": in_words(
            r"cpu\.(boost|energy_performance.*|min_perf_pct|platform_profile)"
        ),
        "idle states": f"inference: {inference['cpu']['max_latency_us']} µs; training left",
        "read-ahead": f"training: at least {dataset['read_ahead_kb']['at_least']} KiB",
        "NIC queues, rings, moderation, interrupts": f"by topology; rings of inference at most {ring}",
        "scheduler granularity": in_words(r"kernel\.sched_(?!autogroup).*"),
        "limits": f"{', '.join(limits)} for logins, services and runtimes",
        "huge page pools": in_words(r"vm\.nr_hugepages.*", r"boot\.(default_)?hugepage.*"),
        "IOMMU": f"fabric: `iommu: {fabric['boot']['parameters']['iommu']}`",
        "ACS": "reported bridge by bridge, on the paths between a GPU and its NIC",
        "`init_on_alloc=0`": in_words(r"boot\.init_on_alloc"),
        "`skew_tick=1`, `tsc=reliable`, RCU": in_words(r"boot\.(skew_tick|tsc|rcu.*)"),
        "`ib_umad`": f"fabric, with {' and '.join(f'`{name}`' for name in sorted(others))}",
        "GPU persistence": in_words(r"gpu\.persistence"),
        "RoCE: MTU, priorities, PFC, GIDs, NCCL": (
            "MTU, [priorities by a named scheme](../knobs/qos.md#schemes-with-a-name), "
            "[NCCL](../knobs/nccl.md), all of it checked"
        ),
    }


def test_the_page_has_what_the_profiles_set_beside_sysctls() -> None:
    _before, _heading, rest = PAGE.partition("## Everything else\n")
    table = rest.partition("\n## ")[0]
    rows = {match[1]: match[2] for match in OTHER_ROW.finditer(table)}
    assert len(rows) == len(re.findall(r"^\| ", table, re.MULTILINE))
    del rows["setting"]
    assert in_words(r"boot\.pci") == "left", "ACS is reported"
    assert rows == everything_else()
