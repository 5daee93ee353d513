# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import cli, nccl
from mlnode.knobs.nccl import meanings

CONF = "/etc/nccl.conf"
LOGIN = "/etc/environment"

Capture = pytest.CaptureFixture[str]


def shown(machine: Machine) -> dict[str, tuple[str | None, str]]:
    return {item.name: (item.value, item.source) for item in nccl.in_force(machine).variables}


def test_the_environment_of_a_login_comes_before_the_file_and_its_first_line_before_others(
    machine: Machine,
) -> None:
    machine.put(
        CONF, "# NCCL_ALGO=Ring\nNCCL_DEBUG=INFO\nNCCL_IB_TC=106\nNCCL_IB_TC=0\nnot a line\nPATH=/x\n"
    )
    machine.put(LOGIN, "PATH=/bin\nNCCL_DEBUG=WARN\nOFI_NCCL_PROTOCOL='RDMA'\n")

    assert shown(machine) == {
        "NCCL_DEBUG": ("WARN", f"{LOGIN}:2"),
        "NCCL_IB_TC": ("106", f"{CONF}:3"),
        "OFI_NCCL_PROTOCOL": ("RDMA", f"{LOGIN}:3"),
    }
    by_name = {item.name: item for item in nccl.in_force(machine).variables}
    behind = {name: [other[:2] for other in item.others] for name, item in by_name.items() if item.others}
    assert behind == {"NCCL_DEBUG": [(f"{CONF}:2", "INFO")], "NCCL_IB_TC": [(f"{CONF}:4", "0")]}
    assert "priority" in by_name["NCCL_IB_TC"].meaning or "queue" in by_name["NCCL_IB_TC"].meaning


def test_what_a_shell_or_a_service_sets_is_certain_for_no_job(machine: Machine) -> None:
    machine.put("/etc/profile.d/site.sh", 'export NCCL_NET="IB"  # and\n#NCCL_ALGO=Ring\n')
    machine.put("/etc/profile.d/site.csh", "setenv NCCL_NET_PLUGIN none\n")
    [plain, csh] = nccl.in_force(machine).variables

    assert (plain.name, plain.value, plain.source) == ("NCCL_NET", None, "")
    [other] = plain.others
    assert other[:2] == ("/etc/profile.d/site.sh:1", 'export NCCL_NET="IB"  # and')
    assert "started with this file" in other.why
    assert (csh.name, csh.value) == ("NCCL_NET_PLUGIN", None)


def test_an_environment_under_a_title_is_a_problem(machine: Machine) -> None:
    machine.put("/proc/self/environ", "NCCL_NET=IB\0\0\0")
    found = nccl.in_force(machine)

    assert not found.variables
    [problem] = found.problems
    assert problem.startswith("cannot read /proc/self/environ: the program has written its title over it")


def test_the_file_of_pam_env_has_a_syntax_of_its_own(machine: Machine) -> None:
    machine.put(
        "/etc/security/pam_env.conf", "#NCCL_NET DEFAULT=IB\nNCCL_ALGO DEFAULT=Ring\nPATH DEFAULT=/x\n"
    )
    [found] = nccl.in_force(machine).variables

    assert (found.name, found.value) == ("NCCL_ALGO", None)
    assert found.others[0][:2] == ("/etc/security/pam_env.conf:2", "NCCL_ALGO DEFAULT=Ring")


def test_what_nccl_does_not_read_any_more_is_named_as_such(machine: Machine) -> None:
    machine.put(CONF, "NCCL_IB_CUDA_SUPPORT=1\nNCCL_NO_SUCH_THING=1\n")
    [old, unknown] = nccl.in_force(machine).variables

    assert "2.4" in old.meaning
    assert unknown.meaning == "not a variable of any known version of NCCL"


def test_the_command_prints_a_table_or_json(machine: Machine, capsys: Capture) -> None:
    machine.put(CONF, "NCCL_IB_TC=106\nNCCL_IB_TC=0\n")

    assert cli.main(["nccl", "--root", machine.root]) == cli.OK
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["VARIABLE", "VALUE", "FROM", "MEANING"]
    assert first.split()[:3] == ["NCCL_IB_TC", "106", f"{CONF}:1"]
    assert second.split()[:2] == ["0", f"{CONF}:2"]

    assert cli.main(["nccl", "--json", "--root", machine.root]) == cli.OK
    document = json.loads(capsys.readouterr().out)
    assert [item["name"] for item in document["variables"]] == ["NCCL_IB_TC"]
    assert document["problems"] == []


def test_what_is_wrong_with_a_value_is_said(machine: Machine, capsys: Capture) -> None:
    machine.put(CONF, "NCCL_BUFFSIZE=4M\nNCCL_NET_GDR_LEVEL=2\nSHARP_COLL_LOG_LEVEL=WARN\n")

    assert cli.main(["nccl", "--root", machine.root]) == cli.OK
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("!! ")[1] for line in lines if "!!" in line] == [
        f"{CONF}:1: NCCL reads 4; write 4194304",
        f"{CONF}:2: NCCL takes it for the old number of PXB; write PXB",
        f"{CONF}:3: libsharp takes a number; write 2",
    ]


def test_all_documented_variables_have_their_meaning(machine: Machine, capsys: Capture) -> None:
    machine.put(CONF, "NCCL_IB_TC=106\n")

    assert cli.main(["nccl", "--all", "--json", "--root", machine.root]) == cli.OK
    variables = json.loads(capsys.readouterr().out)["variables"]
    assert len(variables) == len(meanings.MEANINGS)
    assert [item["name"] for item in variables[:2]] == ["NCCL_IB_TC", "NCCL_DEBUG"]
    assert all(item["meaning"] for item in variables)
    assert {item["value"] for item in variables[1:]} == {None}


def test_the_file_of_root_is_for_jobs_of_root(machine: Machine) -> None:
    machine.put("/root/.nccl.conf", "NCCL_DEBUG=INFO\n")
    [found] = nccl.in_force(machine).variables

    assert (found.value, found.others[0].why) == (None, "for jobs of root")


def test_a_file_of_its_own_comes_before_the_one_of_all(machine: Machine) -> None:
    machine.put(LOGIN, "NCCL_CONF_FILE=/srv/nccl.conf\n")
    machine.put("/srv/nccl.conf", "NCCL_DEBUG=INFO\n")
    machine.put(CONF, "NCCL_DEBUG=WARN\n")

    assert shown(machine)["NCCL_DEBUG"] == ("INFO", "/srv/nccl.conf:1")


def test_a_node_without_any_says_so(machine: Machine, capsys: Capture) -> None:
    assert cli.main(["nccl", "--root", machine.root]) == cli.OK
    assert capsys.readouterr().out == "no variable of NCCL is set on this node\n"


def test_a_file_that_cannot_be_read_is_an_error_beside_what_was_found(
    machine: Machine, capsys: Capture
) -> None:
    machine.put(LOGIN, "NCCL_DEBUG=WARN\n")
    machine.put(f"{CONF}/folder", "")

    assert cli.main(["nccl", "--root", machine.root]) == cli.ERROR
    out, err = capsys.readouterr()
    assert "NCCL_DEBUG" in out
    assert CONF in err
