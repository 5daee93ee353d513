# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.model.errors import DeclarationError


def refused(spec: Any) -> str:
    with pytest.raises(DeclarationError) as caught:
        door.parse("nccl", spec)
    return str(caught.value)


def parsed(allow: Any = None, **variables: Any) -> dict[str, tuple[str | None, str]]:
    spec = {"variables": variables, **({"allow": allow} if allow else {})}
    return {setting.key: (setting.want, setting.claim) for setting in door.parse("nccl", spec)}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"settings": {}}, "nccl.settings: unknown; known are variables, allow"),
        ({"allow": ["everything"]}, "nccl.allow[0]: must be one of unknown, got 'everything'"),
        ({"variables": ["NCCL_DEBUG=INFO"]}, "nccl.variables: must be a dictionary, got ['NCCL_DEBUG=INFO']"),
        ({"variables": {1: 2}}, "'1': NCCL knows no such variable"),
    ],
)
def test_a_declaration_of_another_shape(spec: Any, words: str) -> None:
    assert refused(spec) == words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "NCCL_IB_HCAS",
            "NCCL knows no such variable; did you mean NCCL_IB_HCA; to do it all the same: allow: [unknown]",
        ),
        ("nccl_debug", "'nccl_debug': NCCL knows no such variable; did you mean NCCL_DEBUG"),
        ("PATH", "'PATH': NCCL knows no such variable"),
        ("NCCL_DEBUG\nPATH", "nccl.variables: 'NCCL_DEBUG\\nPATH' holds a character that does not print"),
        (
            "NCCL_DEBUG=INFO\nNCCL_NET",
            "nccl.variables: 'NCCL_DEBUG=INFO\\nNCCL_NET' holds a character that does not print",
        ),
        ("X" * 5000, "XXX...: NCCL knows no such variable"),
        ("NCCL_COMM_ID", "NCCL_COMM_ID does not belong into /etc/nccl.conf: it is one job's meeting point"),
        ("NCCL_PSK", "does not belong into /etc/nccl.conf: it is a secret"),
        ("NCCL_IB_GDR_LEVEL", "it has been called NCCL_NET_GDR_LEVEL since 2.4"),
        ("NCCL_SHARP_ENABLE", "NCCL_COLLNET_ENABLE switches SHARP on"),
    ],
)
def test_a_name_that_is_none(name: str, words: str) -> None:
    assert words in refused({"variables": {name: "1"}})


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("NCCL_IB_DISABLE", True, "NCCL_IB_DISABLE: YAML boolean true; NCCL takes 0 or 1"),
        ("NCCL_BUFFSIZE", "4M", "'4M' is not what NCCL takes: a whole number of 0 or more, without a unit"),
        ("NCCL_BUFFSIZE", 4.5, "'4.5' is not what NCCL takes"),
        ("NCCL_BUFFSIZE", [4], "[4] is not what NCCL takes"),
        ("NCCL_BUFFSIZE", ["4", "5"], "'4,5' is not what NCCL takes"),
        ("NCCL_IB_HCA", {"mlx5_0": 1}, "{'mlx5_0': 1} is not what NCCL takes: at most 32 RDMA devices"),
        ("NCCL_IB_HCA", [1], "[1] is not what NCCL takes"),
        ("NCCL_IB_HCA", "", "'' is not what NCCL takes"),
        (
            "NCCL_DEBUG",
            "INFO\nNCCL_NET=Socket",
            "nccl.variables.NCCL_DEBUG: 'INFO\\nNCCL_NET=Socket' holds a character that does not print",
        ),
        ("NCCL_DEBUG", "INFO ", "without blanks at its ends"),
        ("NCCL_DEBUG", "INFO\0", "nccl: variables.NCCL_DEBUG: the text 'INFO\\x00' holds the character NUL"),
        ("NCCL_DEBUG_FILE", "/var/log/\u00e9", "must be one line of ASCII"),
        ("NCCL_DEBUG_FILE", "/" + "x" * 1023, "1024 characters, of which NCCL reads 1023"),
        ("NCCL_DEBUG", "x" * 9_000_000, "9000000 characters"),
        (
            "NCCL_DEBUG",
            "auto",
            "auto is for NCCL_IB_HCA, NCCL_SOCKET_IFNAME, NCCL_IB_ADDR_FAMILY, NCCL_IB_GID",
        ),
        ("NCCL_ALGO", "auto", "this one takes a line of text"),
        ("NCCL_IB_TC", "automatic", "a whole number from 0 to 255, or auto"),
    ],
)
def test_a_value_of_the_wrong_type(name: str, raw: Any, words: str) -> None:
    message = refused({"variables": {name: raw}})
    assert words in message
    assert name in message
    assert len(message) < 1000


@pytest.mark.parametrize("raw", ["huge", "huge in a list"])
def test_more_digits_than_python_writes(raw: str) -> None:
    number = 10**5000
    words = refused({"variables": {"NCCL_IB_TC": number if raw == "huge" else [number]}})
    assert words.startswith("nccl: variables.NCCL_IB_TC")
    assert words.endswith(": a number of more than 64 bits")


def test_values_are_written_in_one_spelling() -> None:
    assert parsed(
        NCCL_DEBUG="info",
        NCCL_IB_TC="0x6a",
        NCCL_IB_HCA=["=mlx5_0:1", "mlx5_1:1"],
        NCCL_GIN_PLUGIN=["foo", "none"],
        NCCL_NET=None,
        NCCL_DEBUG_TIMESTAMP_FORMAT="",
        NCCL_SOCKET_IFNAME="auto",
    ) == {
        "nccl.NCCL_DEBUG": ("INFO", "INFO"),
        "nccl.NCCL_IB_TC": ("106", "106"),
        "nccl.NCCL_IB_HCA": ("=mlx5_0:1,mlx5_1:1", "=mlx5_0:1,mlx5_1:1"),
        "nccl.NCCL_GIN_PLUGIN": ("foo,none", "foo,none"),
        "nccl.NCCL_DEBUG_TIMESTAMP_FORMAT": ("", ""),
        "nccl.NCCL_SOCKET_IFNAME": (None, "auto"),
    }


def test_unknown_names_can_be_allowed_but_not_all_of_them() -> None:
    assert parsed(["unknown"], NCCL_IBEXT_DISABLE=1, OFI_NCCL_NIC_DUP_CONNS="4", SHARP_COLL_X="a b") == {
        "nccl.NCCL_IBEXT_DISABLE": ("1", "1"),
        "nccl.OFI_NCCL_NIC_DUP_CONNS": ("4", "4"),
        "nccl.SHARP_COLL_X": ("a b", "a b"),
    }
    for name in ("LD_PRELOAD", "NCCL_lower", "NCCL_A=B", "NCCL_COMM_ID", ""):
        refused({"variables": {name: "1"}, "allow": ["unknown"]})
    assert "does not print" in refused({"variables": {"NCCL_NEW": "a\nb"}, "allow": ["unknown"]})
    # What is known is still checked.
    assert "0 or 1" in refused({"variables": {"NCCL_IB_DISABLE": 2}, "allow": ["unknown"]})


@pytest.mark.parametrize(("threads", "each", "fine"), [(16, 4, True), (16, 5, False), (2, 33, False)])
def test_the_sockets_of_a_connection(threads: int, each: int, fine: bool) -> None:
    spec = {"variables": {"NCCL_SOCKET_NTHREADS": threads, "NCCL_NSOCKS_PERTHREAD": each}}
    if fine:
        assert len(door.parse("nccl", spec)) == 2
    else:
        assert f"is {threads * each} sockets of a connection, and NCCL takes 64" in refused(spec)


RAW = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@quick
@given(
    st.sampled_from(["NCCL_IB_HCA", "NCCL_DEBUG", "NCCL_BUFFSIZE", "NCCL_NEW", "NCCL_ALGO"]) | st.text(), RAW
)
def test_no_declaration_is_too_odd(name: str, raw: Any) -> None:
    try:
        found = door.parse("nccl", {"variables": {name: raw}, "allow": ["unknown"]})
    except DeclarationError:
        return
    assert all(setting.want is None or "\n" not in setting.want for setting in found)
