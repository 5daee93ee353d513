# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a controller computes has to be what the modules write: they are handed the same options, and the
digests of both are compared."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.filter import AnsibleJinja2Filter
from ansible.plugins.loader import filter_loader
from ansible.template import Templar
from ansible_collections.mlnode.tuning.plugins.filter.given import given as given_filter
from ansible_collections.mlnode.tuning.plugins.module_utils import tuning_module
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import declared
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.digests import digests
from ansible_collections.mlnode.tuning.plugins.plugin_utils import inventory_says
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import patch_module_args

MODULES = "ansible_collections.mlnode.tuning.plugins.modules"

#: What ansible-core 2.18 puts in the place of what is omitted; 2.19 has an object of its own for it
OMIT = "__omit_place_holder__0123456789"


def variables(**given: Any) -> dict[str, Any]:
    try:
        from ansible._internal._templating._utils import Omit
    except ImportError:
        return {"omit": OMIT, **given}
    return {"omit": Omit, **given}


def says(roles: list[str], **given: Any) -> dict[str, dict[str, str | None]]:
    templar = Templar(loader=DataLoader(), variables={})
    return inventory_says.expected(roles, templar, variables(**given))


ROLES = ["fabric", "inference_node", "training_node"]


@pytest.fixture(autouse=True)
def _filter_of_this_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ansible finds it where the collection is installed; in a test nothing is."""
    find = filter_loader.get

    def get(name: str, *more: Any, **options: Any) -> Any:
        if name == "mlnode.tuning.given":
            return AnsibleJinja2Filter(given_filter)
        return find(name, *more, **options)

    monkeypatch.setattr(filter_loader, "get", get)


def test_every_role_that_declares_is_known() -> None:
    assert [*inventory_says.declaring()] == ROLES


def test_a_role_that_is_not_named_should_have_declared_nothing() -> None:
    found = says(["training_node"])

    assert {name: bool(kinds) for name, kinds in found.items()} == {
        "fabric": False,
        "inference_node": False,
        "training_node": True,
    }


@pytest.mark.parametrize("role", ["inference_node", "training_node"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"sysctl": {"vm.swappiness": 10, "vm.max_map_count": None}},
        {"thp": {"enabled": None, "khugepaged": {"defrag": 1}}},
        {"nic": {"rules": {"more": {"name": "more", "rings": 1024}}}},
        {"irq": {"rules": {"nics": None}, "irqbalance": "leave"}},
        {"cpu": {"boost": False}},
        {"boot": {"isolate": {"cpus": "2-3"}}},
        {"sizing": {"rtt_us": 500, "disk_bytes_per_s": 2000000000}},
        {"allow": ["hugepages"]},
    ],
    ids=lambda given: "_".join(given) or "defaults",
)
def test_what_is_computed_is_what_the_modules_write(
    monkeypatch: pytest.MonkeyPatch, role: str, given: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {}
    honest = inventory_says._checked

    def noted(module: str, options: dict[str, Any], where: str) -> dict[str, Any]:
        asked[module] = options
        return honest(module, options, where)

    monkeypatch.setattr(inventory_says, "_checked", noted)
    computed = says([role], **{f"{role}_{name}": value for name, value in given.items()})[role]

    specs: dict[str, Any] = {}
    monkeypatch.setattr(
        tuning_module, "declare", lambda _module, kind, spec, **_more: specs.update({kind.KIND: spec})
    )
    for module, options in asked.items():
        with patch_module_args(plain(options)):
            importlib.import_module(f"{MODULES}.{module}").main()
    written = declared.parse(
        declared.render(declared.Declaration(role, specs)).decode(), declared.path_of(role)
    )
    assert digests(written.kinds) == computed
    assert len(computed) >= 5


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"sysctl": {"vm.swappiness": "{{ 5 * 2 }}"}, "allow": ["hugepages"]},
        {"limits": {"services": "['ssh', 'cron']", "nofile": 4096}},
        {"limits": {"services": ["ssh"], "core": None}},
        {"nic": {"rules": {"more": {"name": "{{ '{{ z }}' }}", "rings": 1024}}}},
        {"thp": {"enabled": None, "khugepaged": {"defrag": 1}}},
        {"cpu": {"boost": False, "cpus": "0-3"}},
    ],
    ids=str,
)
def test_the_short_way_ends_where_the_long_one_does(
    monkeypatch: pytest.MonkeyPatch, role: str, given: dict[str, Any]
) -> None:
    given = {f"{role}_{name}": value for name, value in given.items()}
    short = says([role], fabric_type="roce", **given)

    monkeypatch.setattr(inventory_says, "_known", lambda *_arguments: {})

    assert says([role], fabric_type="roce", **given) == short


def test_a_change_of_the_inventory_changes_its_kind_only() -> None:
    before = says(["training_node"])["training_node"]
    after = says(["training_node"], training_node_sysctl={"vm.swappiness": 7})["training_node"]

    assert {kind for kind in before if before[kind] != after[kind]} == {"sysctl"}
    assert {*before} == {*after}


def test_what_hangs_on_the_node_is_not_guessed() -> None:
    guessed = says(["fabric"], fabric_type="auto")["fabric"]
    roce = says(["fabric"], fabric_type="roce")["fabric"]

    assert {kind for kind, digest in guessed.items() if digest is None} == {"nic", "qos"}
    # ansible-core 2.18 looks at all of a dictionary, and so at what is asked of the node: it compares less.
    assert {kind for kind, digest in roce.items() if digest is None} in (set(), {"nic", "qos"})
    assert {kind: digest for kind, digest in guessed.items() if digest} == {
        kind: digest for kind, digest in roce.items() if guessed[kind]
    }


def test_what_is_not_kept_on_the_node_is_not_expected_there() -> None:
    assert "training_node" not in says(["training_node"], training_node_layers=["runtime"])


def test_an_image_is_expected_to_keep_what_a_node_does() -> None:
    assert says(["training_node"], training_node_layers=["boot"]) == says(["training_node"])


@pytest.mark.parametrize(
    ("roles", "given", "words"),
    [
        (["trainingnode"], {}, "roles: trainingnode: of this collection, there are fabric, inference_node"),
        (
            ["training_node"],
            {"training_node_allow": ["no_such"]},
            "the inventory is not what sysctl_ml takes",
        ),
        (["training_node"], {"training_node_cpu": {"min_perf_pct": "x"}}, "what cpu_governor takes"),
    ],
)
def test_a_wrong_inventory_is_named(roles: list[str], given: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleError) as error:
        says(roles, **given)

    assert words in str(error.value)
