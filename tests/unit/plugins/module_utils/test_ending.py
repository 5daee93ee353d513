# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import ending
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import patch_module_args


@pytest.mark.parametrize(
    "end, arguments, status",
    [(ending.fail, {"message": "no"}, 1), (ending.leave, {"changed": False}, 0)],
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
        ending.warn(module, HOSTILE)
        with pytest.raises(SystemExit):
            ending.fail(module, f"{HOSTILE}\nand more", checks=[])
    result = json.loads(capsys.readouterr().out)
    assert result["msg"] == "\\x1b[2J\\x9b\\u202ea\tb\nand more"
    assert result["checks"] == []
    assert warnings == ["\\x1b[2J\\x9b\\u202ea\\tb"]
