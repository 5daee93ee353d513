# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from mlnode.model.errors import DeclarationError


def refused(spec: Any) -> str:
    with pytest.raises(DeclarationError) as caught:
        door.parse("nccl", spec)
    return str(caught.value)


def parsed(allow: Any = None, **variables: Any) -> dict[str, tuple[str | None, str]]:
    spec = {"variables": variables, **({"allow": allow} if allow else {})}
    return {setting.key: (setting.want, setting.claim) for setting in door.parse("nccl", spec)}


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
