# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.drivers.dcb import answers
from mlnode.drivers.dcb.device import GROUPS
from mlnode.model.values import same

PFC = (
    '{"pfc_cap":8,"macsec_bypass":false,"delay":0,'
    '"prio_pfc":[false,false,false,true,false,false,false,false]}'
)
ETS = (
    '{"willing":false,"ets_cap":8,"cbs":false,"tc_bw":[50,50,0,0,0,0,0,0],"pg_bw":[0,0,0,0,0,0,0,0],'
    '"tc_tsa":["ets","ets","strict","strict","strict","strict","vendor","cbs"],"prio_tc":[0,0,0,1,0,0,2,0]}'
)
BUFFER = (
    '{"prio_buffer":[0,0,0,1,0,0,0,0],"buffer_size":[65536,131072,0,0,0,0,0,4294967295],"total_size":262144}'
)

PARSERS: dict[str, Callable[[str], Any]] = {
    "pfc": answers.pfc,
    "ets": answers.ets,
    "buffer": answers.buffer,
    "dscp-prio": answers.dscp_prio,
    "order": answers.order,
    "dcbx": answers.dcbx,
}

#: As it stands in the vendor's documentation and in many tickets
MLNX_QOS = """\
DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
\tprio:0 dscp:07,06,05,04,03,02,01,00,
\tprio:3 dscp:31,29,28,27,26,25,24,
\tprio:6 dscp:30,55,54,53,52,51,50,49,
\tprio:6 dscp:48,
default priority:
Receive buffer size (bytes): 80256,80256,896,80256,896,896,896,896,max_buffer_size=1027728
Cable len: 7
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0{pad}
\tbuffer      0   2   5   7   1   2   3   6{pad}
tc: 0 ratelimit: unlimited, tsa: vendor
\t priority:  1
tc: 1 ratelimit: unlimited, tsa: vendor
\t priority:  0
tc: 2 ratelimit: unlimited, tsa: strict
\t priority:  2
tc: 3 ratelimit: 20.5 Gbps, tsa: ets, bw: 60%
\t priority:  3
tc: 4 ratelimit: unlimited, tsa: ets, bw: 40%
\t priority:  4
\t priority:  5
\t priority:  6
\t priority:  7
tc: 5 ratelimit: unlimited, tsa: vendor
tc: 6 ratelimit: unlimited, tsa: vendor
tc: 7 ratelimit: unlimited, tsa: vendor
""".format(pad="   ")


def test_what_dcb_prints() -> None:
    assert answers.pfc(PFC) == {"prio-pfc": "3", "pfc-cap": "8"}
    assert answers.ets(ETS) == {
        "prio-tc": "0/0/0/1/0/0/2/0",
        "tc-tsa": "ets/ets/strict/strict/strict/strict/vendor/cbs",
        "tc-bw": "50/50/0/0/0/0/0/0",
        "ets-cap": "8",
    }
    assert answers.buffer(BUFFER) == {
        "prio-buffer": "0/0/0/1/0/0/0/0",
        "buffer-size": "65536/131072/0/0/0/0/0/4294967295",
        "total-size": "262144",
    }
    assert answers.order('{"order":["dscp","pcp"]}') == "dscp+pcp"
    assert answers.order('{"order":[]}') == "none"
    assert answers.dcbx('{"host":true,"ieee":true}') == {"mode": "host ieee"}
    assert answers.dcbx('{"lld_managed":true,"cee":true}') == {"mode": "lld-managed cee"}
    assert answers.dcbx("{}") == {"mode": "none"}


def test_switches_as_words() -> None:
    """As a dcb that prints no JSON booleans would have them."""
    text = '{"pfc_cap":4,"prio_pfc":["on","off","off","on","off","off","off","off"]}'
    assert answers.pfc(text) == {"prio-pfc": "0,3", "pfc-cap": "4"}


def test_every_dscp_has_an_answer() -> None:
    found = answers.dscp_prio('{"dscp_prio":[[26,3],[26,5],[48,6]],"default_prio":[0]}')
    assert list(found) == list(GROUPS["dscp-prio"].fields)
    assert (found["26"], found["48"], found["0"]) == ("3,5", "6", "none")
    assert set(answers.dscp_prio("{}").values()) == {"none"}


def test_the_blank_of_iproute2_6_15_is_no_priority() -> None:
    found = answers.dscp_prio('{"dscp_prio":[[0,0," "],[26,3," "],[48,6," "]]}')
    assert {dscp: text for dscp, text in found.items() if text != "none"} == {"0": "0", "26": "3", "48": "6"}


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        ("pfc", ""),
        ("pfc", "[]"),
        ("pfc", "null"),
        ("pfc", "{}"),
        ("pfc", '{"pfc_cap":8,"prio_pfc":[true]}'),
        ("pfc", '{"pfc_cap":8,"prio_pfc":[0,0,0,1,0,0,0,0]}'),
        ("pfc", '{"pfc_cap":true,"prio_pfc":[true,true,true,true,true,true,true,true]}'),
        ("pfc", '{"pfc_cap":256,"prio_pfc":[true,true,true,true,true,true,true,true]}'),
        ("ets", ETS.replace("vendor", "???")),
        ("ets", ETS.replace("[50,50", "[101,0")),
        ("ets", ETS.replace('"prio_tc":[0', '"prio_tc":[8')),
        ("ets", ETS.replace('"prio_tc":[0', '"prio_tc":[0.0')),
        ("buffer", BUFFER.replace("4294967295", "4294967296")),
        ("buffer", BUFFER.replace("65536", "-1")),
        ("buffer", BUFFER.replace("65536", '"64Kb"')),
        ("buffer", BUFFER.replace(',"total_size":262144', "")),
        ("dscp-prio", '{"dscp_prio":{}}'),
        ("dscp-prio", '{"dscp_prio":[26,3]}'),
        ("dscp-prio", '{"dscp_prio":[["AF31",3]]}'),
        ("dscp-prio", '{"dscp_prio":[[64,3]]}'),
        ("dscp-prio", '{"dscp_prio":[[26,8]]}'),
        ("dscp-prio", '{"dscp_prio":[[26,3,1]]}'),
        ("dscp-prio", '{"dscp_prio":[[26,3," ",3]]}'),
        ("dscp-prio", '{"dscp_prio":[[26]]}'),
        ("order", "{}"),
        ("order", '{"order":["dscp","dei"]}'),
        ("order", '{"order":[5]}'),
        ("dcbx", "[" * 100_000),
        ("dcbx", '{"host":' + "9" * 5000),
    ],
)
def test_what_makes_no_sense_is_told_shortly(parser: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".") as told:
        PARSERS[parser](text)
    assert len(str(told.value)) < 200


@quick
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=8)
            | st.dictionaries(
                st.sampled_from(["prio_pfc", "pfc_cap", "dscp_prio", "order", "tc_bw", "host"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_document_is_read_or_refused(document: object) -> None:
    for parse in PARSERS.values():
        try:
            found = parse(json.dumps(document))
        except ValueError:
            continue
        assert isinstance(found, str) or all(isinstance(value, str) for value in found.values())


@quick
@given(
    st.lists(st.integers(0, 7), min_size=8, max_size=8), st.lists(st.integers(0, 7), min_size=8, max_size=8)
)
def test_eight_values_are_the_same_only_if_each_is(one: list[int], other: list[int]) -> None:
    """With commas between them they would be sets of numbers."""
    assert same(answers.row(one), answers.row(other)) == (one == other)


@quick
@given(st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
def test_priorities_are_the_same_only_if_they_are_the_same_ones(one: set[int], other: set[int]) -> None:
    assert same(answers.numbers(one), answers.numbers(other)) == (one == other)


# -- mlnx_qos ------------------------------------------------------------------------------


def test_what_mlnx_qos_prints() -> None:
    assert answers.mlnx_qos(MLNX_QOS, "pfc") == {"prio-pfc": "3", "pfc-cap": "0"}
    assert answers.mlnx_qos(MLNX_QOS, "ets") == {
        "prio-tc": "1/0/2/3/4/4/4/4",
        "tc-tsa": "vendor/vendor/strict/ets/ets/vendor/vendor/vendor",
        "tc-bw": "0/0/0/60/40/0/0/0",
        "ets-cap": "0",
    }
    assert answers.mlnx_qos(MLNX_QOS, "buffer") == {
        "prio-buffer": "0/2/5/7/1/2/3/6",
        "buffer-size": "80256/80256/896/80256/896/896/896/896",
        "total-size": "1027728",
    }
    assert answers.mlnx_qos(MLNX_QOS, "trust") == {"state": "dscp"}
    assert answers.mlnx_qos(MLNX_QOS, "dcbx") == {"mode": "host"}
    found = answers.mlnx_qos(MLNX_QOS, "dscp-prio")
    assert found is not None
    assert (found["26"], found["30"], found["48"], found["8"]) == ("3", "6", "6", "none")


@cases.table
def test_mlnx_qos_says_that_there_is_none(old: str, new: str, group: str) -> None:
    assert answers.mlnx_qos(MLNX_QOS.replace(old, new), group) is None


def test_firmware_may_have_dcbx() -> None:
    text = MLNX_QOS.replace("OS controlled", "Firmware controlled")
    assert answers.mlnx_qos(text, "dcbx") == {"mode": "firmware"}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("text", ["", "Segmentation fault\n", "tc: 0 ratelimit: unlimited, tsa: vendor\n"])
def test_an_output_without_its_lines_is_refused(group: str, text: str) -> None:
    with pytest.raises(ValueError, match="does not show"):
        answers.mlnx_qos(text, group)


@cases.table
def test_an_output_of_another_kind_is_refused(old: str, new: str, group: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        answers.mlnx_qos(MLNX_QOS.replace(old, new), group)


@quick
@given(
    st.text(alphabet="tc: 0123456789,\n\tprioenabledbuffer%dscp", max_size=200),
    st.sampled_from(sorted(GROUPS)),
)
def test_any_output_is_read_or_refused(text: str, group: str) -> None:
    try:
        found = answers.mlnx_qos(f"{MLNX_QOS}{text}", group)
    except ValueError:
        return
    assert found is None or all(isinstance(value, str) for value in found.values())
