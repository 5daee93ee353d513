# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places of several nodes that are one job, and those that are not."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs import report
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs import answers

Places = dict[str, list[dict[str, Any]]]


def jobs(places: Places) -> dict[str, dict[str, Any]]:
    """Name of a job → the job."""
    results = {node: answers.answer(*some) for node, some in places.items()}
    return {job["name"]: job for job in report.report(results).document["jobs"]}


def pod(name: str, node: int, world: int, master: str = "", kind: str = "pod") -> dict[str, Any]:
    """A pod with the eight ranks of one node."""
    processes = answers.ranks(node, world)
    for process in processes:
        process["values"].update({"env MASTER_ADDR": master, "env MASTER_PORT": "29500"} if master else {})
    return answers.place(*processes, kind=kind, name=name)


def test_pods_of_one_rendezvous_are_one_job() -> None:
    found = jobs({"a": [pod("p1", 0, 16, "job-0")], "b": [pod("p2", 1, 16, "job-0")]})
    [job] = found.values()
    assert job["name"] == "2 pods, world size 16, rendezvous job-0:29500"
    assert (job["nodes"], job["ranks_seen"], job["verdict"]) == (["a", "b"], 16, "pass")


def test_pods_with_the_same_ranks_are_jobs_of_their_rendezvous() -> None:
    places = {f"n{at}": [pod(f"p{at}", at % 2, 16, f"job-{at // 2}")] for at in range(4)}
    assert [job["nodes"] for job in jobs(places).values()] == [["n0", "n1"], ["n2", "n3"]]


def test_without_a_rendezvous_different_rank_numbers_are_one_job() -> None:
    [job] = jobs({"a": [pod("p1", 0, 16)], "b": [pod("p2", 1, 16)]}).values()
    assert job["name"] == "2 pods, world size 16, by rank numbers alone"


def test_without_a_rendezvous_the_same_rank_numbers_are_a_doubt() -> None:
    found = jobs({f"n{at}": [pod(f"p{at}", at % 2, 16)] for at in range(4)})
    assert [*found] == [f"pod p{at} on n{at}" for at in range(4)]
    for job in found.values():
        [item] = job["findings"]
        assert (item["verdict"], item["kind"]) == ("unknown", "doubt")
        assert item["text"].startswith("4 places have the same rank numbers of a world of 16")


def test_jobs_of_two_users_are_not_one_and_are_no_doubt() -> None:
    places = {f"n{at}": [pod("s", at % 2, 16, kind="session")] for at in range(4)}
    for at in (2, 3):
        places[f"n{at}"][0]["user"] = 1001
    found = jobs(places)
    assert [(job["nodes"], job["verdict"]) for job in found.values()] == [
        (["n0", "n1"], "pass"),
        (["n2", "n3"], "pass"),
    ]
    kinds = {at: "pod" if at < 2 else "session" for at in range(4)}
    mixed = {f"n{at}": [pod("s", at % 2, 16, kind=kind)] for at, kind in kinds.items()}
    mixed["n0"][0]["user"] = 165536
    assert [job["nodes"] for job in jobs(mixed).values()] == [["n0", "n1"], ["n2", "n3"]]


def test_processes_without_a_job_are_not_compared() -> None:
    places = [
        answers.place(answers.process(None, None, at), kind="other", name="/", user=at) for at in (1, 2)
    ]
    found = jobs({"a": places})
    assert {name: job["verdict"] for name, job in found.items()} == {
        "other / on a (1 of 2)": "pass",
        "other / on a (2 of 2)": "pass",
    }


def test_a_loopback_address_joins_no_nodes() -> None:
    places = {f"n{at}": [pod(f"p{at}", 0, 16, "127.0.0.1"), pod("q", 1, 16, "127.0.0.1")] for at in range(2)}
    places["n1"].pop()
    found = jobs(places)
    assert {name: (job["nodes"], job["ranks_seen"]) for name, job in found.items()} == {
        "2 pods, world size 16 on n0": (["n0"], 16),
        "pod p1 on n1": (["n1"], 8),
    }


@pytest.mark.parametrize(
    ("address", "nodes"),
    [
        ("localhost", 1), ("LocalHost.localdomain", 1), ("ip6-localhost", 1), ("127.1", 1), ("127.0.1.1", 1),
        ("::1", 1), ("[::1]", 1), ("0.0.0.0", 1), ("::", 1),
        ("localhost-7", 2), ("127.example", 2), ("::1:2", 2), ("10.127.0.1", 2), ("0.0.0.01", 2),
    ],
)  # fmt: skip
def test_addresses_of_this_machine(address: str, nodes: int) -> None:
    found = jobs({"a": [pod("p1", 0, 16, address)], "b": [pod("p2", 1, 16, address)]})
    assert {len(job["nodes"]) for job in found.values()} == {nodes}


def test_complete_jobs_of_one_node_are_not_joined() -> None:
    found = jobs({name: [pod("same", 0, 8, "localhost")] for name in "abc"})
    assert [*found] == ["pod same on a", "pod same on b", "pod same on c"]
    assert {job["verdict"] for job in found.values()} == {"pass"}


def test_a_container_for_each_gpu_is_one_job_of_its_node() -> None:
    places: Places = {}
    for node in "abc":
        ranks = answers.ranks(0, 8)
        places[node] = [
            answers.place(rank, kind="container", name=f"{node}{at}") for at, rank in enumerate(ranks)
        ]
    found = jobs(places)
    assert [*found] == [f"8 containers, world size 8 on {node}" for node in "abc"]
    assert {job["ranks_seen"] for job in found.values()} == {8}
    places["b"].pop()
    assert {job["nodes"][0]: job["ranks_seen"] for job in jobs(places).values()} == {"a": 8, "b": 7, "c": 8}


def test_equal_ids_of_containers_on_two_nodes_are_two_jobs() -> None:
    found = jobs({
        name: [answers.place(answers.process(None, None, 7), kind="container", name="3f" * 32)]
        for name in ("a", "b")
    })  # fmt: skip
    assert [*found] == ["container 3f3f3f3f3f3f on a", "container 3f3f3f3f3f3f on b"]


@pytest.mark.parametrize(
    ("kind", "name"), [("unit", "a-long-name.service"), ("container", "training-of-lxc-1")]
)
def test_a_unit_and_a_named_container_have_their_whole_name(kind: str, name: str) -> None:
    place = answers.place(answers.process(None, None, 7), kind=kind, name=name)
    assert [*jobs({"a": [place]})] == [f"{kind} {name} on a"]


def test_ids_with_the_same_beginning_have_different_names() -> None:
    found = jobs({
        "a": [
            answers.place(answers.process(None, None, at), kind="container", name=f"{'3f' * 31}0{at}")
            for at in (1, 2)
        ]
    })  # fmt: skip
    assert [*found] == ["container 3f3f3f3f3f3f on a (1 of 2)", "container 3f3f3f3f3f3f on a (2 of 2)"]


def test_two_clusters_with_one_slurm_id_are_two_jobs_if_they_meet_elsewhere() -> None:
    places = {
        f"{cluster}{at}": [pod("4711", at, 32 if cluster == "a" else 16, f"{cluster}0", kind="slurm")]
        for cluster, size in (("a", 4), ("b", 2))
        for at in range(size)
    }
    found = jobs(places)
    assert {name: (job["ranks_seen"], job["verdict"]) for name, job in found.items()} == {
        "slurm 4711 (1 of 2)": (32, "pass"),
        "slurm 4711 (2 of 2)": (16, "pass"),
    }


def test_two_clusters_that_nothing_tells_apart_have_repeated_ranks() -> None:
    places = {f"{cluster}{at}": [pod("4711", at, 16, kind="slurm")] for cluster in "ab" for at in range(2)}
    [job] = jobs(places).values()
    assert [(item["kind"], item["text"]) for item in job["findings"]] == [
        ("duplicate", "ranks 0-15 in more than one place")
    ]


def test_replicas_of_one_slurm_job_that_meet_on_their_nodes_are_jobs_of_their_own() -> None:
    places = {name: [pod("4711", 0, 8, "127.0.0.1", kind="slurm")] for name in "abc"}
    places["b"][0]["processes"].pop(3)
    assert {job["nodes"][0]: (job["ranks_seen"], job["verdict"]) for job in jobs(places).values()} == {
        "a": (8, "pass"),
        "b": (7, "unknown"),
        "c": (8, "pass"),
    }


def test_names_are_unique_whatever_a_job_claims() -> None:
    places = {f"n{at}": [pod("s", at % 2, 16, "h", kind="session")] for at in range(4)}
    for at in (2, 3):
        places[f"n{at}"][0]["user"] = 1001
    name = next(name for name in jobs(places) if name.endswith("(2 of 2)"))
    for at in (4, 5):
        places[f"n{at}"] = [pod("s", at % 2, 16, "h", kind="session")]
        for process in places[f"n{at}"][0]["processes"]:
            process["values"].update({"env MASTER_ADDR": f"h:29500{name[name.index(' (') :]}"})
            del process["values"]["env MASTER_PORT"]
    found = jobs(places)
    assert len(found) == 3
    assert name in found
    assert f"{name} (2 of 2)" in found


def test_an_unread_environment_does_not_divide_a_job() -> None:
    places = {"a": [pod("p1", 0, 16, "job-0")], "b": [pod("p2", 1, 16, "job-0")]}
    for process in places["a"][0]["processes"][:5]:
        process.update(values={}, unknown={"environment": "no answer in 2 s"}, rank=None, world=None)
    [job] = jobs(places).values()
    assert job["nodes"] == ["a", "b"]


def test_an_odd_rendezvous_of_one_rank_does_not_divide_a_job() -> None:
    places = {f"n{at}": [pod("4711", at, 32, "n0", kind="slurm")] for at in range(4)}
    places["n2"][0]["processes"][1]["values"]["env MASTER_ADDR"] = "old"
    [job] = jobs(places).values()
    assert [(item["value"], item["who"]) for item in job["findings"]] == [
        ("env MASTER_ADDR", "rank 17 on n2")
    ]
