# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The templates for Google Cloud and Azure, which bake and clean up as Amazon's does."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT
from ansible_collections.mlnode.tuning.tests.unit.test_packer import (
    FOLDER,
    HCL,
    copied,
    loaded,
    program,
    provisioners,
    validated,
    variables,
)

#: Folder → its builder, and variables that have no default
CLOUDS = {
    "google": ("googlecompute", {"project_id": "project-1"}),
    "azure": ("azure-arm", {"resource_group": "images"}),
}
#: Of all templates
SHARED = ("roles", "variables_file")
GUIDE = (ROOT / "docs/guide/image.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def packer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return program(tmp_path_factory.mktemp("packer"))


@pytest.fixture(params=[*CLOUDS])
def cloud(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def template(cloud: str) -> dict[str, Any]:
    return loaded(FOLDER / cloud / HCL.name)


def source(cloud: str) -> dict[str, Any]:
    (block,) = template(cloud)["source"]
    found: dict[str, Any] = block[CLOUDS[cloud][0]]["ml-node"]
    return found


def words(cloud: str, **chosen: Any) -> list[str]:
    every = {**CLOUDS[cloud][1], **chosen}
    listed = {name: value if isinstance(value, str) else json.dumps(value) for name, value in every.items()}
    return [word for name, value in listed.items() for word in ("-var", f"{name}={value}")]


@cases.table
def test_packer_takes_it(packer: str, tmp_path: pathlib.Path, cloud: str, chosen: dict[str, Any]) -> None:
    assert validated(packer, copied(tmp_path) / cloud, *words(cloud, **chosen)) == (0, "")


def test_packer_names_what_is_missing(packer: str, tmp_path: pathlib.Path, cloud: str) -> None:
    status, said = validated(packer, copied(tmp_path) / cloud)
    assert status != 0
    assert next(iter(CLOUDS[cloud][1])) in said


def test_it_bakes_and_cleans_up_as_the_first_one_does(cloud: str) -> None:
    builder, _required = CLOUDS[cloud]
    (block,) = template(cloud)["build"]
    assert block["sources"] == [f"source.{builder}.ml-node"]
    first = provisioners(loaded(HCL))
    assert provisioners(template(cloud))[: len(first)] == first
    for name in SHARED:
        ours, theirs = variables(template(cloud))[name], variables(loaded(HCL))[name]
        assert (ours["type"], ours["default"]) == (theirs["type"], theirs["default"])


def test_the_user_of_the_build_does_not_stay(cloud: str) -> None:
    assert source(cloud)["ssh_clear_authorized_keys"] is True
    last = provisioners(template(cloud))[-1][1]
    assert ("waagent -force -deprovision+user" in str(last)) == (cloud == "azure")


def test_no_variable_is_a_secret(cloud: str) -> None:
    names = {*variables(template(cloud)), *source(cloud)}
    assert not [name for name in names if re.search("secret|password|token|account_file|credential", name)]


def test_the_machine_has_no_rights() -> None:
    """Of the default service account, any program of the build could get a token."""
    assert source("google")["disable_default_service_account"] == '${var.service_account == ""}'
    assert variables(template("google"))["service_account"]["default"] == ""
    assert "user_assigned_managed_identities" not in source("azure")


def test_every_variable_is_described_and_in_the_guide(cloud: str) -> None:
    title = {"google": "## A Google Compute Engine image", "azure": "## An Azure image"}[cloud]
    section = GUIDE.partition(title)[2].partition("\n## ")[0]
    assert f"packer init packer/{cloud}" in section
    for name, body in variables(template(cloud)).items():
        assert body["description"].endswith("."), name
        assert ("default" in body) == (name not in CLOUDS[cloud][1]), name
        assert re.search(rf"^\|[^|]*`{name}`", section, re.MULTILINE) or name in SHARED, name


def test_every_variable_is_used(cloud: str) -> None:
    text = (FOLDER / cloud / HCL.name).read_text(encoding="utf-8")
    for name in variables(template(cloud)):
        assert re.search(rf"\bvar\.{name}\b", text), name
