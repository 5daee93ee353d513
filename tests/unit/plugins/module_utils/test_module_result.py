# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import patch_module_args
from mlnode.checks import module_result
from mlnode.checks.model import Check, Verdict
from mlnode.host.host import Host
from mlnode.model.errors import MlnodeError

HOSTILE = "\x1b[2J\x9b\u202ea\tb"
SHOWN = "\\x1b[2J\\x9b\\u202ea\tb"

Ended = Callable[..., tuple[int, dict[str, Any], list[str]]]


@pytest.fixture
def ended(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ended:
    """Exit status, the one document that was printed, and warnings."""
    warnings: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, words: warnings.append(words))

    def ran(checks: Any, fail_on: str) -> tuple[int, dict[str, Any], list[str]]:
        def answer(_host: Host, given: dict[str, Any], _dry: bool) -> dict[str, Any]:
            return module_result.result("a check", checks(), given["fail_on"])

        look: Any = SimpleNamespace(OPTIONS=module_result.fail_on("fail"), MOUNTS={}, answer=answer)
        with patch_module_args({"fail_on": fail_on}), pytest.raises(SystemExit) as left:
            check_module.run("a check", look)
        [line] = capsys.readouterr().out.strip().splitlines()
        return int(str(left.value.code)), json.loads(line), warnings

    return ran


def found(verdict: Verdict) -> list[Check]:
    return [Check("link", "mlx5_0/1", verdict, "up", HOSTILE, "/sys")]


@pytest.mark.parametrize(("fail_on", "status"), [("fail", 1), ("never", 0)])
def test_the_terminal_of_a_controller_obeys_no_node(ended: Ended, fail_on: str, status: int) -> None:
    code, result, warnings = ended(lambda: found(Verdict.FAIL), fail_on)

    assert code == status
    assert (SHOWN in result.get("msg", "")) == bool(status)
    assert result["summary"]["fail"] == 1
    assert warnings == []


def test_what_does_not_fail_is_a_warning(ended: Ended) -> None:
    code, result, [warning] = ended(lambda: found(Verdict.WARN), "fail")

    assert (code, len(result["checks"])) == (0, 1)
    assert SHOWN.replace("\t", "\\t") in warning


@pytest.mark.parametrize(("fail_on", "status"), [("fail", 0), ("unknown", 0), ("warn", 1), ("never", 0)])
def test_what_is_pending_is_shown_and_fails_as_a_warning_does(
    ended: Ended, fail_on: str, status: int
) -> None:
    code, result, warnings = ended(lambda: found(Verdict.PENDING), fail_on)

    assert (code, result["summary"], len(result["failures"])) == (status, {"pending": 1}, 1)
    assert len(warnings) == (fail_on in ("fail", "unknown"))


def test_what_is_unknown_comes_before_what_is_pending(ended: Ended) -> None:
    mixed = (Verdict.WARN, Verdict.PENDING, Verdict.UNKNOWN, Verdict.FAIL)
    checks = [found(verdict)[0] for verdict in mixed]
    _code, result, _warnings = ended(lambda: checks, "warn")

    assert [line.split()[2].rstrip(":") for line in result["failures"]] == [
        "fail",
        "unknown",
        "pending",
        "warn",
    ]


def test_what_cannot_be_looked_at_fails(ended: Ended) -> None:
    def look() -> list[Check]:
        raise MlnodeError(f"{HOSTILE}\nand more")

    code, result, _warnings = ended(look, "never")

    assert (code, result["msg"]) == (1, f"a check: {SHOWN}\nand more")
