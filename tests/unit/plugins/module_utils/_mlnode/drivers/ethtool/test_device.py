# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NICs of a captured tree."""

from __future__ import annotations

import errno
import json
import pathlib
from collections.abc import Callable

import pytest
from ansible_collections.mlnode.tuning.tests.unit.captures import of_ethtool as capture
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import BARE, Nic, NicMachine
from mlnode.agent.mounts import ALL
from mlnode.host.host import Host
from mlnode.model.errors import HostError
from mlnode.model.setting import Value

ETH0 = "/ethtool/eth0"


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory, nic: Nic) -> NicMachine:
    return NicMachine.with_nics(str(tmp_path_factory.mktemp("real")), eth0=nic)


def walk(host: Host, path: str = ETH0) -> dict[str, Value]:
    """Every file below a folder."""
    inner = host.names(path)
    if not inner:
        return {path: host.value(path)}
    return {name: value for part in inner for name, value in walk(host, f"{path}/{part}").items()}


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> Callable[[object], Host]:
    """A captured tree with this content as what was captured of eth0."""

    def make(content: object) -> Host:
        (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
        (tmp_path / "ethtool").mkdir()
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / "ethtool/eth0.json").write_bytes(raw)
        return Host(str(tmp_path), ALL)

    return make


@pytest.mark.parametrize("kind", ["whole", "bare"])
def test_a_captured_nic_tells_what_the_real_one_told(
    machine: NicMachine, nic: Nic, tree: Callable[[object], Host], kind: str
) -> None:
    if kind == "bare":
        for name, nothing in BARE.items():
            setattr(nic, name, nothing)
    host = tree(capture(machine.nic("eth0")))
    assert walk(host) == walk(machine)
    assert len(walk(host)) > 50
    for path in walk(host):
        assert host.blocked(path) == machine.blocked(path)
    assert host.value(f"{ETH0}/ring/rx") == machine.value(f"{ETH0}/ring/rx")


@pytest.mark.parametrize("number", [errno.EPERM, errno.EIO])
def test_what_could_not_be_read_is_captured_as_such(
    machine: NicMachine, nic: Nic, tree: Callable[[object], Host], number: int
) -> None:
    nic.fails[0x10] = number
    nic.answers[0x3C] = b"nonsense"
    seen = capture(machine.nic("eth0"))
    assert (seen["answers"]["ring"], seen["answers"]["pause"]["rx"]) == (errno.errorcode[number], "on")
    assert seen["answers"]["channels"] == "EPROTO"
    host = tree(seen)
    assert errno.errorcode[number] in str(host.value(f"{ETH0}/ring/rx").unreadable)


def test_a_group_that_was_not_captured_is_unreadable(tree: Callable[[object], Host]) -> None:
    host = tree({"format": 1, "answers": {"pause": "EOPNOTSUPP"}})
    assert "ENODATA" in str(host.value(f"{ETH0}/ring/rx").unreadable)
    assert host.value(f"{ETH0}/pause/rx").absent == "the driver has no pause frames"


def test_a_nic_that_was_not_captured_is_unreadable(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    host = Host(str(tmp_path), ALL)
    assert host.value(f"{ETH0}/ring/rx").unreadable == (
        "cannot read /ethtool/eth0.json: the settings of this NIC were not captured"
    )
    assert host.exists(ETH0)
    assert host.names("/ethtool") == ["eth0"]
    assert "ring" in host.names(ETH0)  # which may be there, for all that is known
    (tmp_path / "ethtool").write_text("no folder")
    assert host.value(f"{ETH0}/ring/rx").absent is None
    (tmp_path / "ethtool").unlink()
    (tmp_path / "ethtool/eth0.json").mkdir(parents=True)
    assert "EISDIR" in str(host.value(f"{ETH0}/ring/rx").unreadable)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff", b"[" * 100000, b"null", b"[]", b'"text"', b"{}",
        {"format": 1}, {"format": 2, "answers": {}}, {"format": 1, "answers": []},
        {"format": 1, "answers": {"ring": ["rx"]}}, {"format": 1, "answers": {"ring": {"rx": 4096}}},
        {"format": 1, "answers": {"ring": None}}, {"format": 1, "answers": {"ring": "nonsense"}},
        {"format": 1, "answers": {"ring": "ENONSENSE"}}, {"format": 1, "answers": {"ring": "__name__"}},
    ],
)  # fmt: skip
def test_a_damaged_capture_is_unreadable(tree: Callable[[object], Host], content: object) -> None:
    value = tree(content).value(f"{ETH0}/ring/rx")
    assert str(value.unreadable).startswith("cannot read /ethtool/eth0.json: damaged (")
    assert "capture the NIC again" in str(value.unreadable)


def test_no_link_of_a_captured_tree_leads_out_of_it(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "node"
    (root / "sys/class/net/eth0").mkdir(parents=True)
    (root / "ethtool").mkdir()
    (tmp_path / "secret").write_text(json.dumps({"format": 1, "answers": {"ring": {"rx": "1"}}}))
    (root / "ethtool/eth0.json").symlink_to("../../secret")
    assert Host(str(root), ALL).value(f"{ETH0}/ring/rx").unreadable


def test_a_captured_nic_is_not_changed(machine: NicMachine, tree: Callable[[object], Host]) -> None:
    host = tree(capture(machine.nic("eth0")))
    with pytest.raises(HostError, match="EROFS"):
        host.write_kernel(f"{ETH0}/ring/rx", "4096")
