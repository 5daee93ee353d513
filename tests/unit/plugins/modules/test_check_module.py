# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.doc_fragments.fail_on import ModuleDocFragment
from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.modules import (
    ib_subnet,
    node_audit,
    path_mtu,
    rdma_check,
)
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Finished, Make
from mlnode.checks import module_result
from mlnode.checks.model import Check, Verdict
from mlnode.model.errors import DeclarationError

#: From what fails always to what never does, as the modules give them in any order
EACH = (Verdict.PASS, Verdict.WARN, Verdict.SKIP, Verdict.UNKNOWN, Verdict.FAIL)


def check(verdict: Verdict, target: str = "node") -> Check:
    return Check("rate", target, verdict, "", f"is {verdict}", "")


def ended(running: Make, checks: Sequence[Check], fail_on: str, **more: Any) -> Finished:
    module = some_check(lambda given: module_result.result("some_check", checks, given["fail_on"], **more))
    return running(module)(fail_on=fail_on)


def some_check(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> ModuleType:
    module = ModuleType("some_check")
    look: Any = SimpleNamespace(
        OPTIONS=module_result.fail_on("never"), MOUNTS={}, answer=lambda _host, given, _dry: answer(given)
    )
    vars(module)["main"] = lambda: check_module.run("some_check", look)
    return module


@cases.table
def test_what_each_choice_fails_for(
    running: Make, fail_on: str, failing: list[str], warned: list[str]
) -> None:
    done = ended(running, [check(verdict) for verdict in EACH], fail_on, subnet={"switches": 4})
    assert done.rc == int(bool(failing))
    assert not done.changed
    assert done.result["summary"] == {str(verdict): 1 for verdict in sorted(EACH)}
    assert [one["verdict"] for one in done.result["checks"]] == [*EACH]
    lines = [f"node: rate {word}: is {word}" for word in ("fail", "unknown", "warn")]
    assert done.result["failures"] == lines
    assert done.result["subnet"] == {"switches": 4}
    title = f"some_check: {len(failing)} of 5 checks are not as expected:"
    assert not failing or done.result["msg"].splitlines() == [title, *lines[: len(failing)]]

    well = ended(running, [check(verdict) for verdict in EACH if verdict not in failing], fail_on)
    assert well.rc == 0
    assert well.warnings == [f"node: rate {word}: is {word}" for word in warned]


@pytest.mark.parametrize("fail_on", ["fail", "unknown", "warn", "never"])
def test_pass_and_skip_never_fail(running: Make, fail_on: str) -> None:
    done = ended(running, [check(Verdict.PASS), check(Verdict.SKIP)], fail_on)
    assert (done.rc, done.result["failures"], done.warnings) == (0, [], [])


@pytest.mark.parametrize(("number", "more"), [(8, []), (9, ["and 1 more"]), (20, ["and 12 more"])])
def test_of_many_eight_are_named(running: Make, number: int, more: list[str]) -> None:
    checks = [check(Verdict.WARN, f"port{place}") for place in range(number)]
    _title, *lines = ended(running, checks, "warn").result["msg"].splitlines()
    assert lines == [*map(str, checks[:8]), *more]
    done = ended(running, checks, "fail")
    assert done.warnings == lines
    assert len(done.result["failures"]) == number


def test_what_is_wrong_with_the_options_is_said(running: Make) -> None:
    def refuse(_given: dict[str, Any]) -> dict[str, Any]:
        raise DeclarationError("port: no such port")

    module = some_check(refuse)
    assert running(module).msg(fail_on="never") == "some_check: port: no such port"
    words = "value of fail_on must be one of: fail, unknown, warn, never, got: always"
    assert running(module).msg(fail_on="always") == words


@pytest.mark.parametrize(
    "module", [ib_subnet, node_audit, path_mtu, rdma_check], ids=lambda one: one.__name__
)
def test_a_module_takes_the_option_that_it_documents(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    specs: list[Any] = []

    def made(*_arguments: Any, argument_spec: Any, **_options: Any) -> Any:
        specs.append(argument_spec)
        raise StopIteration

    monkeypatch.setattr(check_module, "AnsibleModule", made)
    with pytest.raises(StopIteration):
        module.main()
    [fragment] = re.findall(r"mlnode\.tuning\.fail_on\.(\w+)\n", module.DOCUMENTATION)
    documented = yaml.safe_load(getattr(ModuleDocFragment, fragment.upper()))["options"]["fail_on"]
    assert len(documented.pop("description")) > 1
    assert specs[0]["fail_on"] == documented
    returned = yaml.safe_load(module.RETURN)
    assert {"checks", "failures", "summary"} <= {*returned}
