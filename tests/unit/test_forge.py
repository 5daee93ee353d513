# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflows and issue forms of the forge, which only a push and a reader of its pages would try. What
release.yml does with a tag is tried in test_release.py."""

from __future__ import annotations

import pathlib
import re
import subprocess
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, load

FORGE = ROOT / ".github"
WORKFLOWS = sorted(path.name for path in FORGE.glob("workflows/*"))
FORMS = sorted(path.name for path in FORGE.glob("ISSUE_TEMPLATE/*") if path.name != "config.yml")

#: Of an element by its type, the first of which it must have:
#: https://docs.github.com/communities/using-templates-to-encourage-useful-issues-and-pull-requests
ATTRIBUTES = {
    "markdown": ("value",),
    "input": ("label", "description", "placeholder", "value"),
    "textarea": ("label", "description", "placeholder", "value", "render"),
    "dropdown": ("options", "label", "description", "multiple", "default"),
    "checkboxes": ("options", "label", "description"),
}


def jobs(workflow: str) -> dict[str, Any]:
    found: dict[str, Any] = load(f".github/workflows/{workflow}")["jobs"]
    return found


def steps(workflow: str) -> list[dict[str, Any]]:
    return [step for job in jobs(workflow).values() for step in job["steps"]]


def runs(workflow: str) -> list[str]:
    """The commands of all steps, with those of a matrix."""
    matrices = [job.get("strategy", {}).get("matrix", {}) for job in jobs(workflow).values()]
    rows = [row for matrix in matrices for row in matrix.get("include", [])]
    return [step["run"] for step in [*steps(workflow), *rows] if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_what_a_workflow_makes_is_a_target(workflow: str) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    made = [name for run in runs(workflow) for name in re.findall(r"\bmake +(\S+)", run)]

    assert made
    assert {*made} <= {*targets}


def test_the_matrix_has_the_oldest_and_the_newest_supported_versions() -> None:
    page = (ROOT / "docs/guide/support.md").read_text(encoding="utf-8")
    supported = re.findall(r"^\| (2\.\d+) \|", page, re.MULTILINE)
    rows = jobs("test.yml")["versions"]["strategy"]["matrix"]["include"]
    (node,) = re.findall(r"vermin --target=([\d.]+)- ", (ROOT / "Makefile").read_text(encoding="utf-8"))

    versions = {row["run"]: (row["ansible-core"], row["python"]) for row in rows}
    assert versions["make unit-oldest"][0] == supported[-1]
    assert versions["make pytest"][0] == supported[0]
    assert versions["make unit-node"] == ("none", node)


def test_each_distribution_gets_the_packages_of_its_family(tmp_path: pathlib.Path) -> None:
    (job,) = jobs("distributions.yml").values()
    (script,) = [step["run"] for step in job["steps"] if "podman build" in step.get("run", "")]
    (tmp_path / "sudo").write_text("#!/bin/sh\n")
    (tmp_path / "sudo").chmod(0o755)
    for family in {row["family"] for row in job["strategy"]["matrix"]["include"]}:
        (tmp_path / family).mkdir()
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path / family)}
        environment |= {"FAMILY": family, "BASE": "an-image"}
        subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=environment, check=True)

        base, run = (tmp_path / family / "node/Containerfile").read_text().splitlines()
        assert base == "FROM an-image"
        assert {"systemd", "systemd-sysv"} & {*run.split()}, run
        assert {"python3", "sudo", "kmod"} <= {*run.split()}, run


def test_the_site_is_published_from_where_it_is_built() -> None:
    [path] = [step["with"]["path"] for step in steps("docs.yml") if "upload-pages" in step.get("uses", "")]

    assert f"SITE := {path.removesuffix('/html')}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FORMS)
def test_an_issue_form_has_the_shape_that_the_forge_takes(name: str) -> None:
    form = load(f".github/ISSUE_TEMPLATE/{name}")

    assert {*form} == {"name", "description", "labels", "body"}
    for element in form["body"]:
        kind, given = element["type"], element["attributes"]
        assert {*element} <= {"type", "id", "attributes", "validations"}, element
        assert {ATTRIBUTES[kind][0]} <= {*given} <= {*ATTRIBUTES[kind]}, element
        assert {*element.get("validations", {})} <= {"required"}, element
    asked = [element["id"] for element in form["body"] if element["type"] != "markdown"]
    assert sorted({*asked}) == sorted(asked)
    assert asked


def test_a_vulnerability_is_reported_in_private() -> None:
    config = load(".github/ISSUE_TEMPLATE/config.yml")
    [link] = config["contact_links"]

    assert {*config} == {"blank_issues_enabled", "contact_links"}
    assert {*link} == {"name", "url", "about"}
    assert link["url"] == f"{load('galaxy.yml')['repository']}/security/advisories/new"
