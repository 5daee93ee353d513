# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `ansible-test sanity` cannot know: that the documented results are those the code returns."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.doc_fragments.declaration import ModuleDocFragment
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs.sysctl_parse import GUARDS
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.setting import Layer
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.status import Severity, Status
from ansible_collections.mlnode.tuning.plugins.modules import (
    irq_affinity,
    multi_rail,
    nic_ethtool,
    node_drift,
    node_revert,
    roce_qos,
    sysctl_ml,
    thp,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import DECLARING, MODULES, Make

#: What every module answers, and ansible-core documents
COMMON = {"changed", "diff", "invocation", "warnings"}


def document(module: ModuleType, name: str) -> Any:
    return yaml.safe_load(getattr(module, name))


@pytest.fixture
def answers(running: Make) -> dict[ModuleType, dict[str, Any]]:
    """The answer of each module on one node, where the settings are as far from right as can be."""
    return {module: running(module).ok(**arguments).result for module, arguments in MODULES.items()}


@pytest.mark.parametrize("module", MODULES)
def test_what_a_module_answers_is_what_it_documents(
    answers: dict[ModuleType, dict[str, Any]], module: ModuleType
) -> None:
    documented = document(module, "RETURN")

    # What is returned only then is the answer of its action plugin.
    own = {name: about for name, about in documented.items() if about["returned"].startswith("success")}
    assert {*answers[module]} - COMMON == {*own}
    types = {"str": str, "bool": bool, "float": float, "list": list, "dict": dict}
    for name, about in own.items():
        assert isinstance(answers[module][name], types[about["type"]]), name


def test_the_documented_fields_of_a_setting_are_those_it_has(
    answers: dict[ModuleType, dict[str, Any]],
) -> None:
    fields = [*answers[sysctl_ml]["settings"][0]]

    assert [*document(sysctl_ml, "RETURN")["settings"]["contains"]] == fields
    for module in DECLARING:
        if module is not sysctl_ml:
            assert [*document(module, "RETURN")["settings"]["sample"][0]] == fields
    sample = document(node_drift, "RETURN")["settings"]["sample"][0]
    assert {*sample} == {*fields, "declared_by"} == {*answers[node_drift]["settings"][0]}


def test_the_documented_fields_of_a_revert_are_those_it_has(
    answers: dict[ModuleType, dict[str, Any]],
) -> None:
    documented = document(node_revert, "RETURN")["reverted"]["contains"]

    assert {frozenset(item) for item in answers[node_revert]["reverted"]} == {frozenset(documented)}


@pytest.mark.parametrize("module", [*DECLARING, node_drift])
def test_samples_use_words_that_exist(module: ModuleType) -> None:
    settings = document(module, "RETURN")["settings"]
    fields = settings.get("contains", {})
    sample = settings.get("sample", [{name: fields[name]["sample"] for name in fields}])[0]

    assert sample["status"] in [*Status]
    assert sample["severity"] in [*Severity]


@pytest.mark.parametrize("module", [irq_affinity, multi_rail, roce_qos])
def test_nics_are_chosen_by_the_same_words_everywhere(module: ModuleType) -> None:
    """Ansible's fragments end at the first level of options, so that each module repeats the text."""

    def choices(one: ModuleType) -> dict[str, Any]:
        options: dict[str, Any] = document(one, "DOCUMENTATION")["options"]
        nics = options["rules"]["suboptions"]["nics"]["suboptions"]
        # What a bond stands for is not the same for all kinds.
        return {name: about for name, about in nics.items() if name != "names"}

    assert choices(module) == choices(nic_ethtool)


def test_every_status_a_setting_can_end_in_is_documented() -> None:
    [text] = document(sysctl_ml, "RETURN")["settings"]["contains"]["status"]["description"]

    # The kinds so far never end in the one that is left out: it belongs to interrupts.
    assert {status for status in Status if f"V({status})" in text} == {*Status} - {Status.MANAGED}


def test_shared_options_are_documented_as_they_are() -> None:
    documented = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]

    assert [*documented] == [*tuning_module.ARGUMENTS]
    for name, argument in tuning_module.ARGUMENTS.items():
        about = {key: value for key, value in documented[name].items() if key != "description"}
        assert about == argument
    assert documented["layers"]["choices"] == [str(layer.value) for layer in Layer]


def test_every_guard_can_be_allowed_and_is_explained() -> None:
    allow = document(sysctl_ml, "DOCUMENTATION")["options"]["allow"]

    assert sorted(allow["choices"]) == sorted(GUARDS)
    for guard in GUARDS:
        assert f"V({guard})" in " ".join(allow["description"])


def test_every_khugepaged_file_is_an_option_with_its_meaning() -> None:
    options = document(thp, "DOCUMENTATION")["options"]["khugepaged"]["suboptions"]

    assert tuple(options) == thp.thp.KHUGEPAGED


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_calls_of_the_module_with_options_it_has(module: ModuleType) -> None:
    about = document(module, "DOCUMENTATION")
    options = {*about["options"]}
    if "mlnode.tuning.declaration" in about["extends_documentation_fragment"]:
        options |= {*tuning_module.ARGUMENTS}
    tasks = document(module, "EXAMPLES")
    calls = [
        task[f"mlnode.tuning.{about['module']}"] or {}
        for task in tasks
        if f"mlnode.tuning.{about['module']}" in task
    ]

    assert calls
    assert all(task["name"] for task in tasks)
    for call in calls:
        assert {*call} <= options


@pytest.mark.parametrize("module", DECLARING)
def test_examples_work(running: Make, module: ModuleType) -> None:
    name = document(module, "DOCUMENTATION")["module"]

    own = [task for task in document(module, "EXAMPLES") if f"mlnode.tuning.{name}" in task]
    assert own
    for task in own:
        running(module).ok(check=True, on_unsupported="ignore", **task[f"mlnode.tuning.{name}"])
