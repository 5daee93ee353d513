# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What SELinux lets a service run, answered as selinuxfs does; the kernel itself answers in the lab."""

from __future__ import annotations

import errno
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from mlnode.host import selinux
from mlnode.host.host import Host
from mlnode.linux import selinux_access
from mlnode.model.errors import HostError

INIT, IRQBALANCE = "u:r:init_t:s0", "u:r:irqbalance_t:s0"
BINARY, SHELL, SCRIPT, LIST = "/usr/sbin/irqbalance", "/bin/sh", "/etc/mlnode/policy", "/etc/mlnode/list"
LABELS = {
    BINARY: "u:o:irqbalance_exec_t:s0",
    SHELL: "u:o:shell_exec_t:s0",
    SCRIPT: "u:o:bin_t:s0",
    LIST: "u:o:etc_t:s0",
}
#: What irqbalance needs: source, target, class and permissions
STEPS = [
    (INIT, LABELS[BINARY], "file", "execute"),
    (INIT, IRQBALANCE, "process", "transition"),
    (IRQBALANCE, LABELS[BINARY], "file", "entrypoint"),
    (IRQBALANCE, LABELS[SHELL], "file", "execute"),
    (IRQBALANCE, LABELS[SHELL], "file", "execute_no_trans"),
    (IRQBALANCE, LABELS[SCRIPT], "file", "execute"),
    (IRQBALANCE, LABELS[SCRIPT], "file", "execute_no_trans"),
    (IRQBALANCE, LABELS[LIST], "file", "read"),
]
BITS = {"execute": 14, "execute_no_trans": 18, "entrypoint": 19, "transition": 2, "read": 2}


@pytest.fixture(autouse=True)
def _on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selinux, "is_on", lambda: True)


class Node(Host):
    """A live node with selinuxfs, that answers from a list of what is allowed."""

    live = True  # type: ignore[assignment]  # of every host here

    def __init__(
        self, root: pathlib.Path, allowed: list[tuple[str, str, str, str]], enforce: str = "1"
    ) -> None:
        super().__init__(str(root))
        self.allowed = allowed
        self.flags = 0
        self.files = {"/sys/fs/selinux/enforce": enforce, "/proc/1/attr/current": f"{INIT}\0"}
        for kind in ("file", "process"):
            self.files[f"/sys/fs/selinux/class/{kind}/index"] = kind
            for name, bit in BITS.items():
                self.files[f"/sys/fs/selinux/class/{kind}/perms/{name}"] = str(bit)

    def read_bytes(self, path: str) -> bytes:
        if path not in self.files:
            raise HostError("read", path, errno.ENOENT)
        return self.files[path].encode()

    def ask(self, file: str, source: str, target: str, kind: str) -> str:
        if file == "create":
            return IRQBALANCE if target == LABELS[BINARY] else source
        vector = sum(1 << BITS[name] - 1 for *step, name in self.allowed if step == [source, target, kind])
        return f"{vector:x} ffffffff 0 ffffffff 7 {self.flags:x}"


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Node]:
    def make(allowed: list[tuple[str, str, str, str]], **more: Any) -> Node:
        made = Node(tmp_path, allowed, **more)
        monkeypatch.setattr(selinux_access, "_ask", lambda _host, *words: made.ask(*words))
        monkeypatch.setattr(selinux, "label_of", LABELS.__getitem__)
        return made

    return make


def asked(host: Host) -> str:
    return selinux_access.refusal(host, (BINARY, SHELL, SCRIPT), LIST)


def test_all_is_allowed(node: Callable[..., Node]) -> None:
    assert asked(node(STEPS)) == ""


@pytest.mark.parametrize("lacking", STEPS)
def test_each_missing_permission_is_named(
    node: Callable[..., Node], lacking: tuple[str, str, str, str]
) -> None:
    host = node([step for step in STEPS if step != lacking])
    path = {LABELS[path]: path for path in LABELS}.get(lacking[1], BINARY)
    kind = LABELS[path].split(":")[2]
    verb = "read" if lacking[3] == "read" else "run"
    domain = "init_t" if path == BINARY else "irqbalance_t"
    assert asked(host) == f"SELinux does not let {domain} {verb} {path}, a file of type {kind}"


def test_a_permissive_domain_is_let(node: Callable[..., Node]) -> None:
    host = node([])
    host.flags = 1
    assert asked(host) == ""


@pytest.mark.parametrize("enforce", ["0", "0\n"])
def test_a_permissive_node_is_let(node: Callable[..., Node], enforce: str) -> None:
    assert asked(node([], enforce=enforce)) == ""


def test_a_node_without_selinux_and_a_captured_tree_have_nothing_to_refuse(
    node: Callable[..., Node], tmp_path: pathlib.Path
) -> None:
    host = node([])
    del host.files["/sys/fs/selinux/enforce"]
    assert asked(host) == ""
    assert asked(Host(str(tmp_path))) == ""


@pytest.mark.parametrize(
    "answer", ["", "garbage", "ff", "1 2 3 4 5", "zz ff 0 ff 7 0", "ff ff 0 ff 7 \udcff"]
)
def test_an_answer_that_is_not_understood_is_unknown(
    node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    host = node(STEPS)
    monkeypatch.setattr(host, "ask", lambda file, *_words: IRQBALANCE if file == "create" else answer)
    with pytest.raises(HostError, match="understand /sys/fs/selinux/access"):
        asked(host)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("path", ["enforce", "class/process/index", "class/file/perms/execute"])
def test_a_file_that_cannot_be_read_is_unknown(
    node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch, path: str, number: int
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(selinux, "is_on", lambda: True)
    host = Node(pathlib.Path("/"), STEPS)
    monkeypatch.setattr(selinux, "label_of", LABELS.__getitem__)

    def read_bytes(asked_for: str) -> bytes:
        if asked_for == f"/sys/fs/selinux/{path}":
            raise HostError("read", asked_for, number)
        return Node.read_bytes(host, asked_for)

    monkeypatch.setattr(host, "read_bytes", read_bytes)
    if path != "class/process/index":
        monkeypatch.setattr(selinux_access, "_ask", lambda _host, *words: host.ask(*words))
    with pytest.raises(HostError, match=errno.errorcode[number]):
        asked(host)


def test_a_file_of_selinuxfs_that_cannot_be_opened_is_unknown() -> None:
    """This node has none."""
    host = Node(pathlib.Path("/"), [])
    with pytest.raises(HostError, match="ask /sys/fs/selinux/access: E"):
        selinux_access._ask(host, "access", INIT, LABELS[SHELL], "file")


def test_in_a_container_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path, [])
    monkeypatch.setattr(selinux, "is_on", lambda: False)
    assert selinux_access.refusal(node, [BINARY]) == ""
