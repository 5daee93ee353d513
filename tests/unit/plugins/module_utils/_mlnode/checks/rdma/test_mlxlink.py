# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import mlxlink
from ansible_collections.mlnode.tuning.tests.fixtures.mlxlink import ERRORS, MODULE, OPERATION, TROUBLE
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit import rdma_bench as bench
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlnode.checks.model import Check
from mlnode.checks.rdma.mlxlink import NAMES, TOOLS
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

COMMAND = f"{TOOLS[0]} -d 0000:01:00.0 -m -c --json"


class Carded(Machine):
    """A machine whose tool says what it is told to."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.answer = Finished(0, mlxlink.text(), "")
        self.errors: list[HostError] = []
        self.asked: list[str] = []

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] not in TOOLS:
            return super().run(command, seconds)
        assert seconds < 60
        self.asked.append(" ".join(command))
        for error in self.errors:
            raise error
        return self.answer


@pytest.fixture
def port(tmp_path: pathlib.Path) -> Carded:
    machine = Carded(bench.node(tmp_path, bench.infiniband()).root)
    machine.put(TOOLS[0], "", 0o755)
    return machine


def seen(machine: Carded, text: str | None = None, **declared: Any) -> dict[str, Check]:
    """The three findings about the port, or about the node."""
    if text is not None:
        machine.answer = Finished(0, text, "")
    found = bench.look(machine, {"devices": {"mlx5_0/1": declared}})
    return {name: check for (name, _target), check in found.items() if name in NAMES}


def verdicts(found: dict[str, Check]) -> list[str]:
    return [str(found[name].verdict) for name in NAMES]


def test_a_healthy_link(port: Carded) -> None:
    found = seen(port)

    assert verdicts(found) == ["pass", "pass", "pass"]
    assert port.asked == [COMMAND]
    assert {check.target for check in found.values()} == {"mlx5_0/1"}
    assert {check.source for check in found.values()} == {COMMAND}
    assert found["link_report"].found == "Active, No issue was observed"
    assert found["ber"].found == "effective 15E-255, raw 4E-9 in 2745.8 min"
    assert found["ber"].expected == "effective at most 1e-09, raw at most 1e-07"
    assert found["cable"].found == "OSFP Passive copper cable NVIDIA MCP7Y00-N002 MT2305VB01234"


def test_the_fixture_is_written_as_the_tool_writes_it() -> None:
    lines = mlxlink.text().splitlines()
    assert lines[:4] == ["{", '   "result" : {', '      "output" : {', '         "Module Info" : {']
    assert json.loads(mlxlink.text())["status"] == {"code": 0, "message": "success"}


def test_the_temperature_is_told(port: Carded) -> None:
    section = {**mlxlink.HEALTHY[MODULE], "Temperature [C]": "61 [-10..80]"}
    found = seen(port, mlxlink.text({**mlxlink.HEALTHY, MODULE: section}))
    assert found["cable"].found.endswith(" MT2305VB01234, 61 [-10..80] C")


def test_without_a_cable(port: Carded) -> None:
    found = seen(port, mlxlink.text(mlxlink.UNPLUGGED))
    assert verdicts(found) == ["fail", "unknown", "fail"]
    assert found["link_report"].found == "Polling, Cable is unplugged"
    assert found["cable"].found == "none is plugged"


def test_a_link_without_a_module_is_no_missing_cable(port: Carded) -> None:
    found = seen(port, mlxlink.changed(MODULE, Identifier="N/A"))
    assert verdicts(found) == ["pass", "pass", "skip"]
    assert "knows no module on it" in found["cable"].found


def test_what_the_firmware_has_to_say_of_a_link_that_is_up_warns(port: Carded) -> None:
    found = seen(port, mlxlink.changed(TROUBLE, Recommendation="Bad signal integrity", Status_Opcode="15"))
    assert str(found["link_report"].verdict) == "warn"
    assert found["link_report"].found == "Active, Bad signal integrity"
    assert "cable" in found["link_report"].advice


@cases.table
def test_bit_error_rates(port: Carded, keys: dict[str, Any], declared: dict[str, Any], verdict: str) -> None:
    options = {"ber": declared} if declared else {}
    found = seen(port, mlxlink.changed(ERRORS, **keys), **options)["ber"]
    assert str(found.verdict) == verdict, found
    assert bool(found.advice) == (verdict in ("warn", "fail"))


# -- when nobody tells -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        HostError("run", TOOLS[0], None, "no answer in 20 s"),
        HostError("run", TOOLS[0], 13),
        Finished(1, "", '-E- Failed to open device: "0000:01:00.0", Operation not permitted\n'),
        Finished(1, mlxlink.text(), "-E- Failed to send access register\n"),
        Finished(0, "", ""),
        Finished(0, "Operational Info\n----------------\nState : Active\n", ""),
        Finished(0, mlxlink.text()[:500], ""),
        Finished(0, mlxlink.text(code=1, message="FW burn in progress"), ""),
        Finished(0, mlxlink.text({}), ""),
        Finished(0, "[" * 100_000, ""),
        Finished(0, "[]", ""),
        Finished(0, '{"result": {"output": 3}}', ""),
        Finished(0, '{"result": null, "status": {"code": 0}}', ""),
        Finished(0, '{"result": {"output": {}}, "status": []}', ""),
        Finished(0, '{"result": {"output": {}}, "status": {"code": [1]}}', ""),
        Finished(0, "9" * 5000, ""),
    ],
    ids=repr,
)
def test_a_tool_that_hangs_or_says_nonsense_proves_nothing(
    port: Carded, answer: Finished | HostError
) -> None:
    if isinstance(answer, HostError):
        port.errors.append(answer)
    else:
        port.answer = answer
    found = seen(port)
    assert verdicts(found) == ["unknown"] * 3
    assert all(check.found for check in found.values())
    assert all(len(check.found) < 300 for check in found.values())


def test_what_it_says_itself_is_told(port: Carded) -> None:
    port.answer = Finished(1, "", '-E- Failed to open device: "0000:01:00.0", Operation not permitted\n')
    assert "Operation not permitted" in seen(port)["ber"].found
    assert "FW burn" in seen(port, mlxlink.text(code=1, message="FW burn in progress"))["ber"].found


@pytest.mark.parametrize("section", [OPERATION, TROUBLE, ERRORS, MODULE])
def test_no_check_passes_without_its_section(port: Carded, section: str) -> None:
    sections = {title: keys for title, keys in mlxlink.HEALTHY.items() if title != section}
    found = verdicts(seen(port, mlxlink.text(sections)))
    assert found.count("unknown") == 1
    assert found.count("pass") == 2


def test_without_a_tool_the_node_says_so_once(port: Carded) -> None:
    port.remove(TOOLS[0])
    found = bench.look(port, {"devices": {"mlx5_0/1": {}}})
    for name in NAMES:
        check = found[name, "node"]
        assert (str(check.verdict), check.found) == (
            "skip",
            "neither mlxlink (MFT) nor mstlink (mstflint) is installed",
        )
        assert (name, "mlx5_0/1") not in found


def test_what_was_declared_and_nobody_tells_is_unknown(port: Carded) -> None:
    port.remove(TOOLS[0])
    found = bench.look(port, {"devices": {"mlx5_0/1": {"ber": {"raw": "1e-6"}}}})
    assert str(found["ber", "mlx5_0/1"].verdict) == "unknown"
    assert found["ber", "mlx5_0/1"].expected == "effective at most 1e-09, raw at most 1e-06"
    assert ("ber", "node") not in found
    assert str(found["cable", "node"].verdict) == "skip"


def test_the_tool_of_mstflint_will_do(port: Carded) -> None:
    port.remove(TOOLS[0])
    port.put(TOOLS[1], "", 0o755)
    assert verdicts(seen(port)) == ["pass", "pass", "pass"]
    assert port.asked == [COMMAND.replace(*TOOLS)]


def test_cards_of_others_are_not_asked(tmp_path: pathlib.Path) -> None:
    card = bench.roce()
    machine = Carded(bench.node(tmp_path, replace(card, id="8086:1592")).root)
    machine.put(TOOLS[0], "", 0o755)
    found = bench.look(machine, {"devices": {"mlx5_0/1": {}}})
    assert machine.asked == []
    assert {str(found[name, "node"].verdict) for name in NAMES} == {"skip"}


def test_soft_roce_is_not_asked(tmp_path: pathlib.Path) -> None:
    machine = Carded(bench.software(tmp_path).root)
    machine.put(TOOLS[0], "", 0o755)
    found = bench.look(machine)
    assert machine.asked == []
    assert found["ber", "node"].found == "no port is judged that mlxlink knows"


@settings(quick, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.text(max_size=40),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(
                    st.sampled_from(["result", "output", "status", "code", OPERATION, ERRORS, "State"]),
                    inner,
                    max_size=4,
                ),
            ),
        ).map(json.dumps),
    )
)
def test_odd_words_pass_nothing(port: Carded, text: str) -> None:
    assert "pass" not in verdicts(seen(port, text))
