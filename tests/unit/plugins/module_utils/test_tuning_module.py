# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.transaction import (
    FileWrite,
    KernelWrite,
    LinkWrite,
    LoadModule,
    Step,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import patch_module_args

SWAPPINESS = "/proc/sys/vm/swappiness"
ARCHIVE = b"#!/usr/bin/env python3\nPK\0\1"


def pair(name: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": name, "after_header": name, "before": before, "after": after}


def write(value: str = "1", before: str = "60") -> KernelWrite:
    return KernelWrite("vm.swappiness", SWAPPINESS, value, before, ())


@pytest.mark.parametrize(
    "steps, expected",
    [
        ([], []),
        ([write()], [pair("runtime", "vm.swappiness = 60\n", "vm.swappiness = 1\n")]),
        ([write("", "a")], [pair("runtime", "vm.swappiness = a\n", 'vm.swappiness = ""\n')]),
        ([write("a", "")], [pair("runtime", 'vm.swappiness = ""\n', "vm.swappiness = a\n")]),
        ([LoadModule("k", "tcp_bbr")], [pair("runtime", "", "module tcp_bbr loaded\n")]),
        ([FileWrite("/etc/a", "/etc/a", b"new\n")], [pair("/etc/a", "", "new\n")]),
        ([FileWrite("/etc/a", "/etc/a", b"new\n", b"old\n")], [pair("/etc/a", "old\n", "new\n")]),
        ([FileWrite("/etc/a", "/etc/a", None, b"old\n")], [pair("/etc/a", "old\n", "")]),
        ([FileWrite("/etc/a", "/etc/a", b"\xff", b"")], [pair("/etc/a", "", "\ufffd")]),
        ([LinkWrite("/etc/l", "/etc/l", "/etc/t")], [pair("/etc/l", "", "link to /etc/t\n")]),
        (
            [LinkWrite("/etc/l", "/etc/l", "/etc/t", "/etc/old")],
            [pair("/etc/l", "link to /etc/old\n", "link to /etc/t\n")],
        ),
        (
            [FileWrite("/bin/x", "/bin/x", ARCHIVE)],
            [pair("/bin/x", "", f"{len(ARCHIVE)} bytes, sha256 {hashlib.sha256(ARCHIVE).hexdigest()}\n")],
        ),
        (
            [FileWrite("/etc/a", "/etc/a", b"new\n"), write(), LoadModule("k", "tcp_bbr")],
            [
                pair("runtime", "vm.swappiness = 60\n", "vm.swappiness = 1\nmodule tcp_bbr loaded\n"),
                pair("/etc/a", "", "new\n"),
            ],
        ),
    ],
)
def test_diff_has_one_pair_for_the_kernel_and_one_per_file(
    steps: list[Step], expected: list[dict[str, str]]
) -> None:
    assert tuning_module.diff(steps) == expected


@pytest.mark.parametrize(
    "end, arguments, status",
    [(tuning_module.fail, {"message": "no"}, 1), (tuning_module.leave, {"changed": False}, 0)],
)
def test_a_module_ends_with_one_document(
    capsys: pytest.CaptureFixture[str], end: Any, arguments: dict[str, Any], status: int
) -> None:
    with patch_module_args({}), pytest.raises(SystemExit) as ended:
        end(AnsibleModule(argument_spec={}), **arguments)

    assert ended.value.code == status
    assert len(capsys.readouterr().out.strip().splitlines()) == 1


HOSTILE = "\x1b[2J\x9b\u202ea\tb"


def test_the_terminal_of_a_controller_obeys_no_node(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, words: warnings.append(words))
    with patch_module_args({}):
        module = AnsibleModule(argument_spec={})
        tuning_module.warn(module, HOSTILE)
        with pytest.raises(SystemExit):
            tuning_module.fail(module, f"{HOSTILE}\nand more", checks=[])
    result = json.loads(capsys.readouterr().out)
    assert result["msg"] == "\\x1b[2J\\x9b\\u202ea\tb\nand more"
    assert result["checks"] == []
    assert warnings == ["\\x1b[2J\\x9b\\u202ea\\tb"]


def test_nor_do_the_contents_of_a_diff() -> None:
    [found] = tuning_module.diff([FileWrite("/etc/a", "/etc/a", None, f"{HOSTILE}\nx\n".encode())])
    assert found["before"] == "\\x1b[2J\\x9b\\u202ea\tb\nx\n"
