# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.knobs.boot import parse as boot_parse
from mlnode.knobs.boot import schema as boot_schema
from mlnode.model.errors import DeclarationError


def declared(spec: dict[str, Any]) -> list[tuple[str, Any, str]]:
    return [(setting.key, setting.want, setting.claim) for setting in door.parse("boot", spec)]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"parameter": {}}, "boot.parameter: unknown; known are parameters, absent, isolate, allow"),
        ({"parameters": ["quiet"]}, "boot.parameters: must be a dictionary, got ['quiet']"),
        ({"absent": "quiet"}, "boot.absent: must be a list, got 'quiet'"),
        ({"absent": {"quiet": 1}}, "boot.absent: must be a list, got {'quiet': 1}"),
        ({"allow": "mitigations"}, "boot.allow: must be a list, got 'mitigations'"),
        (
            {"allow": ["everything"]},
            "boot.allow[0]: must be one of housekeeping, mitigations, got 'everything'",
        ),
        # Names
        ({"parameters": {True: "a"}}, "boot: the name True in parameters is not a text"),
        ({"parameters": {"": "a"}}, "boot: '' is not a parameter's name"),
        ({"parameters": {"a b": "c"}}, "is not a parameter's name"),
        ({"parameters": {"a=b": "c"}}, "is not a parameter's name"),
        ({"parameters": {"--": ""}}, "is not a parameter's name"),
        (
            {"parameters": {"quiet\n": ""}},
            "boot.parameters: 'quiet\\n' holds a character that does not print",
        ),
        ({"parameters": {"$(id)": ""}}, "is not a parameter's name"),
        ({"parameters": {"a/b": ""}}, "is not a parameter's name"),
        ({"parameters": {"é": ""}}, "is not a parameter's name"),
        ({"parameters": {"a" * 5000: ""}}, "is not a parameter's name"),
        ({"absent": [True]}, "boot.absent[0]: must be a text, got True, which is a YAML boolean"),
        # Values
        ({"parameters": {"a": True}}, "boot.a: YAML boolean true; quote the word the kernel wants"),
        ({"parameters": {"a": False}}, "boot.a: YAML boolean false"),
        ({"parameters": {"a": ["x", True]}}, "boot.a: YAML boolean true"),
        ({"parameters": {"a": 1.5}}, "boot.a: 1.5 is invalid"),
        ({"parameters": {"a": 10**5000}}, "boot: parameters.a: a number of more than 64 bits"),
        ({"parameters": {"a": {"b": 1}}}, "boot.a: {'b': 1} is invalid"),
        ({"parameters": {"a": [None]}}, "boot.a: an empty list says nothing"),
        ({"parameters": {"a": []}}, "boot.a: an empty list says nothing; name it under absent"),
        *[({"parameters": {"a": f"x{sign}y"}}, "is invalid") for sign in " \t\"'$`\\&|<>(){}[]*?#é٣"],
        *[({"parameters": {"a": f"x{sign}y"}}, "does not print") for sign in "\n\r\x1b"],
        ({"parameters": {"a": "x\0y"}}, "holds the character NUL"),
        ({"parameters": {"a": "x\n"}}, "does not print"),
        # What is not ours
        *[
            ({"parameters": {name: "x"}}, f"boot.{name} cannot be declared: belongs to what finds and starts")
            for name in (
                "root",
                "rootflags",
                "rootfstype",
                "ro",
                "rw",
                "init",
                "rdinit",
                "initrd",
                "BOOT_IMAGE",
            )
        ],
        ({"absent": ["ro"]}, "boot.ro cannot be declared"),
        ({"parameters": {"BOOT-IMAGE": "x"}}, "boot.BOOT-IMAGE cannot be declared"),
        (
            {"parameters": {"hugepagesz": "1G"}},
            "declare default_hugepagesz here, and with sysctl_ml vm.nr_hugepages: {for_bytes: N}",
        ),
        ({"parameters": {"hugepages": 16}}, "the order between hugepagesz= and hugepages= counts"),
        ({"parameters": {"absent": ""}}, "is how a missing parameter is shown"),
        ({"parameters": {"console": "ttyS0"}}, "boot.console: give all of them as a list, in their order"),
        # Twice
        ({"parameters": {"nohz_full": "2", "nohz-full": "3"}}, "boot.nohz_full is declared twice"),
        ({"parameters": {"quiet": ""}, "absent": ["quiet"]}, "boot.quiet is declared twice"),
        ({"isolate": {"cpus": "2"}, "absent": ["isolcpus"]}, "boot.isolcpus is declared twice"),
        (
            {"parameters": {"iommu": "auto", "iommu.passthrough": 1}},
            "boot.iommu: auto is boot.iommu.passthrough on some machines, which is declared, too",
        ),
        ({"parameters": {"iommu": "auto"}, "absent": ["iommu.passthrough"]}, "keep one of the two"),
        ({"absent": ["quiet", "quiet"]}, "boot.quiet is declared twice"),
        # CPUs
        ({"parameters": {"isolcpus": ""}}, "boot.isolcpus: ''"),
        ({"parameters": {"isolcpus": "domain"}}, "no CPU is named"),
        ({"parameters": {"isolcpus": "domain,managed_irqs,2"}}, "is not a list of CPUs"),
        ({"parameters": {"isolcpus": "2-N"}}, "write CPUs as 2-31,34-63"),
        ({"parameters": {"nohz_full": "all"}}, "write CPUs as 2-31,34-63"),
        ({"parameters": {"nohz_full": "domain,2"}}, "is not a list of CPUs"),
        ({"parameters": {"nohz-full": "9-2"}}, "runs backwards"),
        ({"parameters": {"irqaffinity": "0-8192"}}, "CPU 8192 cannot exist"),
        ({"parameters": {"irqaffinity": ["0", ""]}}, "boot.irqaffinity: ''"),
        # Isolation
        ({"isolate": "2-3"}, "boot.isolate: must be a dictionary, got '2-3'"),
        ({"isolate": {"cpu": "2"}}, "boot.isolate.cpu: unknown; known are cpus, managed_irq, domain"),
        ({"isolate": {"domain": True}}, "boot.isolate.cpus: is required"),
        ({"isolate": {"cpus": ""}}, "boot.isolate.cpus: an empty list names no CPU"),
        ({"isolate": {"cpus": True}}, "boot.isolate.cpus: must be a text, got True"),
        ({"isolate": {"cpus": ["2", "3"]}}, "boot.isolate.cpus: must be a text, got ['2', '3']"),
        ({"isolate": {"cpus": -1}}, "boot.isolate.cpus: '-1' is not a list"),
        ({"isolate": {"cpus": 10**5000}}, "boot: isolate.cpus: a number of more than 64 bits"),
        ({"isolate": {"cpus": "2-3\n"}}, "does not print"),
        ({"isolate": {"cpus": "٣"}}, "is not a list of CPUs"),
        ({"isolate": {"cpus": "2-99999999"}}, "cannot exist"),
        ({"isolate": {"cpus": "2", "domain": "2-3"}}, "boot.isolate.domain: must be true or false"),
        ({"isolate": {"cpus": "2", "domain": 2}}, "boot.isolate.domain: must be true or false, got 2"),
        (
            {"isolate": {"cpus": "2", **dict.fromkeys(boot_schema.ISOLATED_FROM, False)}},
            "boot.isolate: all of managed_irq, domain, nohz_full, rcu_nocbs, irqaffinity are off",
        ),
        # Length: the kernel's limit, and not one character less
        ({"parameters": {"a": "x" * 2045}}, "2048 characters of parameters; the kernel reads 2047"),
    ],
)
def test_a_bad_declaration_is_refused_with_what_is_wrong(spec: dict[Any, Any], words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        door.parse("boot", spec)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300


def test_parameters_in_all_their_forms() -> None:
    spec = {
        "parameters": {
            "transparent_hugepage": "madvise",
            "intel_idle.max_cstate": 1,
            "nosmt": "",
            "console": ["tty0", "ttyS0,115200n8"],
            "nohz-full": "2-3",
            "crashkernel": "1G-4G:192M,4G-64G:256M",
            "acpi_osi": "!Windows",
            "rcu_nocbs": "",
            "panic": -1,
            "numa_balancing": None,
        },
        "absent": ["quiet", "mce-x"],
        "allow": ["housekeeping"],
    }
    assert declared(spec) == [
        ("boot.transparent_hugepage", "transparent_hugepage=madvise", "transparent_hugepage=madvise"),
        ("boot.intel_idle.max_cstate", "intel_idle.max_cstate=1", "intel_idle.max_cstate=1"),
        ("boot.nosmt", "nosmt", "nosmt"),
        ("boot.console", "console=tty0 console=ttyS0,115200n8", "console=tty0 console=ttyS0,115200n8"),
        ("boot.nohz_full", "nohz-full=2-3", "nohz-full=2-3"),
        ("boot.crashkernel", "crashkernel=1G-4G:192M,4G-64G:256M", "crashkernel=1G-4G:192M,4G-64G:256M"),
        ("boot.acpi_osi", "acpi_osi=!Windows", "acpi_osi=!Windows"),
        ("boot.rcu_nocbs", "rcu_nocbs", "rcu_nocbs"),
        ("boot.panic", "panic=-1", "panic=-1"),
        ("boot.quiet", "absent", "absent"),
        ("boot.mce_x", "absent", "absent"),
    ]


def test_a_name_stays_as_it_was_spelled() -> None:
    spec = {"parameters": {"nohz-full": "2", "nosmt": ""}, "absent": ["a-b"], "isolate": None}
    assert [boot_parse.name_of(setting) for setting in door.parse("boot", spec)] == [
        "nohz-full",
        "nosmt",
        "a_b",
    ]


def test_isolation_is_one_list_in_four_parameters() -> None:
    assert declared({"isolate": {"cpus": "34-63,2-31"}}) == [
        ("boot.isolcpus", *["isolcpus=managed_irq,domain,2-31,34-63"] * 2),
        ("boot.nohz_full", *["nohz_full=2-31,34-63"] * 2),
        ("boot.rcu_nocbs", *["rcu_nocbs=2-31,34-63"] * 2),
        ("boot.irqaffinity", None, "all CPUs but 2-31,34-63"),
    ]


def test_the_list_is_exact() -> None:
    """2,10 is not 2-10."""
    assert declared({"isolate": {"cpus": "2,10"}})[0][1] == "isolcpus=managed_irq,domain,2,10"


@pytest.mark.parametrize(
    ("off", "wants"),
    [
        (["managed_irq"], ["isolcpus=domain,3", "nohz_full=3", "rcu_nocbs=3", None]),
        (["domain"], ["isolcpus=managed_irq,3", "nohz_full=3", "rcu_nocbs=3", None]),
        (["domain", "managed_irq"], ["nohz_full=3", "rcu_nocbs=3", None]),
        (["nohz_full", "rcu_nocbs"], ["isolcpus=managed_irq,domain,3", None]),
        (["irqaffinity"], ["isolcpus=managed_irq,domain,3", "nohz_full=3", "rcu_nocbs=3"]),
    ],
)
def test_each_part_of_isolation_can_be_left_out(off: list[str], wants: list[Any]) -> None:
    spec = {"isolate": {"cpus": 3, "irqaffinity": None, **dict.fromkeys(off, False)}}
    assert [want for _key, want, _claim in declared(spec)] == wants


def test_the_longest_declaration_that_the_kernel_reads_is_taken() -> None:
    assert len(declared({"parameters": {"a": "x" * 2044}})[0][1]) == 2046


_strange = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@quick
@given(
    st.dictionaries(st.sampled_from(["parameters", "absent", "isolate", "allow", "x"]), _strange, max_size=3)
)
def test_whatever_is_declared_gives_plain_words_or_is_refused(spec: dict[str, Any]) -> None:
    try:
        settings = door.parse("boot", spec)
    except DeclarationError:
        return
    for setting in settings:
        assert not set(setting.want or "") & set("\"'$`\\\n")
