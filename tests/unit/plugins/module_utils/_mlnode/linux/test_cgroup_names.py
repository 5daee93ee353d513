# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.job_machine import CONTAINER, UID
from hypothesis import given
from hypothesis import strategies as st
from mlnode.linux import cgroup_names
from mlnode.linux.cgroup_names import Job


def filled(text: str) -> str:
    words = {"UNDER": UID.replace("-", "_"), "UID": UID, "OTHER": "ab" * 32, "ID": CONTAINER}
    for word, meant in words.items():
        text = text.replace(word, meant)
    return text


@cases.table
def test_a_path_has_a_job(path: str, job: list[str]) -> None:
    assert cgroup_names.of_path(filled(path)) == Job(*map(filled, job))


@cases.table
def test_a_name_below_the_own_group_makes_no_other_job(path: str, job: list[str]) -> None:
    assert cgroup_names.of_path(filled(path)) == Job(*map(filled, job))


#: Groups whose owners may be hostile, and the groups that they would like to be in
_OWN = (
    "/system.slice/docker-ID.scope",
    "/user.slice/user-1000.slice/user@1000.service",
    "/system.slice/vllm.service",
)
_WISHED = (
    "/system.slice/slurmstepd.scope/job_7/step_0",
    "/slurm/uid_0/job_7",
    "/kubepods/burstable/podUID/ID",
    "/kubepods.slice/kubepods-podUNDER.slice/crio-ID.scope",
)
_parts = st.lists(st.text(st.characters(exclude_characters="/\n\0"), min_size=1, max_size=9), max_size=3)


@given(st.sampled_from(_OWN), st.sampled_from(_WISHED), _parts, _parts)
def test_no_names_lead_out_of_the_own_group(
    own: str, wished: str, before: list[str], after: list[str]
) -> None:
    path = filled("/".join([own, *before, wished.lstrip("/"), *after]))
    assert cgroup_names.of_path(path).kind not in (cgroup_names.SLURM, cgroup_names.POD)


def test_the_hierarchy_with_a_job_counts() -> None:
    rows = (
        "12:pids:/user.slice",
        "4:memory:/slurm/uid_0/job_7/step_0/task_0",
        "1:name=systemd:/x.service",
        "0::/",
    )
    text = "".join(f"{row}\n" for row in rows)
    assert cgroup_names.of(text) == ("/slurm/uid_0/job_7/step_0/task_0", Job("slurm", "7"), text)
    assert cgroup_names.of("0::/docker/" + CONTAINER + "\n").job.runtime == "docker"
    assert cgroup_names.of("") == ("/", Job("other", "/"), "")
