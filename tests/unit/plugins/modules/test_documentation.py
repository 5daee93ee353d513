# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `ansible-test sanity` cannot know: that the documented results are those the code returns."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.doc_fragments.declaration import ModuleDocFragment
from ansible_collections.mlnode.tuning.plugins.modules import declare, node_drift, node_revert, sysctl_ml
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import DECLARING, MODULES, Make
from mlnode.agent import call, registry
from mlnode.checks import module_result
from mlnode.model import argument_spec
from mlnode.model.setting import Layer, Severity, Status

#: What every module answers, and ansible-core documents
COMMON = {"changed", "diff", "warnings"}

VERDICTS = re.compile(r"V\((\w+)\)")


def document(module: ModuleType, name: str) -> Any:
    return yaml.safe_load(getattr(module, name))


@pytest.fixture
def answers(running: Make, machine: Machine) -> dict[ModuleType, dict[str, Any]]:
    """The answer of each module on one node, where the settings are as far from right as can be."""
    found = {}
    for module, arguments in MODULES.items():
        if module is node_revert:  # after which there is nothing to compare
            found[node_drift] = call.CALLS["drift"](
                machine, {"fail_at": "never", "ignore": [], "declarations": {}}
            )
        found[module] = running(module).ok(**arguments).result
    return found


def test_what_a_module_answers_is_what_it_documents(answers: dict[ModuleType, dict[str, Any]]) -> None:
    """In one test, as every module is called for it."""
    assert {*answers} == {*MODULES, node_drift}
    types = {"str": str, "bool": bool, "float": float, "list": list, "dict": dict}
    for module, answer in answers.items():
        # What is returned only then is the answer of its action plugin.
        own = {
            name: about
            for name, about in document(module, "RETURN").items()
            if about["returned"].startswith("success")
        }
        assert {*answer} - COMMON == {*own}, module.__name__
        for name, about in own.items():
            assert isinstance(answer[name], types[about["type"]]), (module.__name__, name)
            if name == "checks":
                sample = about.get("contains") or about["sample"][0]
                assert {*sample} <= {field for check in answer[name] for field in check}, module.__name__
                assert {check["verdict"] for check in answer[name]} <= {*VERDICTS.findall(str(about))}

    fields = [*answers[sysctl_ml]["settings"][0]]
    assert [*document(sysctl_ml, "RETURN")["settings"]["contains"]] == fields
    for module in DECLARING:
        if module is not sysctl_ml:
            assert {*document(module, "RETURN")["settings"]["sample"][0]} <= {*fields}
    assert {*fields, "declared_by"} == {*answers[node_drift]["settings"][0]}

    documented = document(node_revert, "RETURN")["reverted"]["contains"]
    assert {frozenset(item) for item in answers[node_revert]["reverted"]} == {frozenset(documented)}


@pytest.mark.parametrize("module", [*DECLARING, node_drift])
def test_samples_use_words_that_exist(module: ModuleType) -> None:
    settings = document(module, "RETURN")["settings"]
    fields = settings.get("contains", {})
    sample = settings.get("sample", [{name: fields[name]["sample"] for name in fields}])[0]

    assert sample["status"] in [*Status]
    assert sample.get("severity", Severity.HIGH) in [*Severity]


def test_every_status_a_setting_can_end_in_is_documented() -> None:
    [text] = document(sysctl_ml, "RETURN")["settings"]["contains"]["status"]["description"]

    # The kinds so far never end in the one that is left out: it belongs to interrupts.
    assert {status for status in Status if f"V({status})" in text} == {*Status} - {Status.MANAGED}


def test_shared_options_are_documented_as_they_are() -> None:
    documented = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]

    assert [*documented] == [*argument_spec.DECLARATION]
    for name, argument in argument_spec.DECLARATION.items():
        about = {key: value for key, value in documented[name].items() if key != "description"}
        assert about == argument
    assert documented["layers"]["choices"] == [str(layer.value) for layer in Layer]


@pytest.mark.parametrize("area", ["sysctl", "nic", "rail", "qos", "irq", "nccl", "boot"])
def test_every_guard_that_can_be_allowed_is_explained(area: str) -> None:
    allow = registry.options(area)["allow"]

    assert allow.choices
    for guard in allow.choices:
        assert f"V({guard})" in allow.text


@pytest.mark.parametrize("module", [*MODULES, declare, node_drift])
def test_examples_are_calls_of_the_module_with_options_it_has(module: ModuleType) -> None:
    about = document(module, "DOCUMENTATION")
    options = {*about.get("options", {})}
    for fragment in about.get("extends_documentation_fragment", ()):
        if fragment.startswith("mlnode.tuning.fail_on."):
            options |= {*module_result.fail_on("never")}
        if fragment.startswith("mlnode.tuning.area."):
            area = fragment.rpartition(".")[2]
            options |= {
                *argument_spec.DECLARATION,
                *(registry.MODULES if area == "all" else registry.options(area)),
            }
    tasks = document(module, "EXAMPLES")
    calls = [
        task[f"mlnode.tuning.{about['module']}"] or {}
        for task in tasks
        if f"mlnode.tuning.{about['module']}" in task
    ]

    assert calls
    assert all(task["name"] for task in tasks)
    for given in calls:
        assert {*given} <= options


@pytest.mark.parametrize("module", DECLARING)
def test_examples_work(running: Make, module: ModuleType) -> None:
    name = document(module, "DOCUMENTATION")["module"]

    own = [task for task in document(module, "EXAMPLES") if f"mlnode.tuning.{name}" in task]
    assert own
    for task in own:
        running(module).ok(check=True, on_unsupported="ignore", **task[f"mlnode.tuning.{name}"])
