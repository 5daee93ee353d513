# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""effect.yml with effect_by: which areas each phase declares, the verdicts, and what cannot be compared. The
nodes are files, and the command runs on this machine."""

from __future__ import annotations

import json
import pathlib
import re
import sys
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.tests.unit import effect_site
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT

#: In place of the stub's states: a node that notes the settings it declares, as AREA.KEY. Its file `given`
#: has the answers about settings that are not ordinary, and the number of a declaration that fails.
AREAS = """

class AgentAction(AgentAction):
    def call(self, name, options, interpreter="", changes=False, of_bare=None):
        host = pathlib.Path(self.get_shell_option("remote_tmp")).parent
        applied, given = host / "applied", json.loads((host / "given").read_text())
        before = json.loads(applied.read_text())
        now = {}
        for area, spec in options["areas"].items() if name == "declare" else ():
            keys = spec["settings"] if area == "sysctl" else spec
            now.update({f"{area}.{key}": area for key in keys})
        if not options["check"]:
            with open(host / "phases", "a") as stream:
                stream.write(json.dumps(sorted(now)) + chr(10))
            if len((host / "phases").read_text().splitlines()) == given.get("fails"):
                return {"changed": False, "failed": True, "msg": "the disk is full"}
            kept = {key: before[key] for key in given.get("keeps", ()) if key in before}
            applied.write_text(json.dumps({**now, **kept}))
        changed = sorted(before) != sorted(now)
        if name == "revert":
            return {"changed": changed}
        areas = {}
        for key, area in now.items():
            status = "ok" if key in before else "drifted" if options["check"] else "changed"
            row = {"kind": area, "key": key, "status": status, "runtime": "1", "origin": "0", "reason": "",
                   **given.get("rows", {}).get(key, {})}
            about = areas.setdefault(area, {"changed": changed, "settings": [], "reboot_required": False})
            about["settings"].append(row)
            about["reboot_required"] |= area in given.get("boots", ())
        return {"changed": changed, "areas": areas, "reboot_required": False, "not_in_force": []}
"""

#: THP makes it 10 % faster and the limits 10 % slower.
JOB = """
import json, pathlib, random, sys
node = pathlib.Path(sys.argv[1])
applied = {*json.loads((node / "applied").read_text()).values()}
number = len((node / "phases").read_text().splitlines())
rate = 100 * (1.1 if "thp" in applied else 1) * (0.9 if "limits" in applied else 1) * 0.99 ** number
print(json.dumps({"rate": rate * random.Random(number).gauss(1, 0.002)}))
"""

#: Four areas, and two that are not compared
DECLARED: dict[str, Any] = {
    "thp": {"enabled": "madvise", "defrag": "madvise"},
    "sysctl": {"settings": {"vm.swappiness": 1, "net.core.somaxconn": 4096}},
    "limits": {"memlock": "unlimited"},
    "cpu": {"governor": "performance"},
    "boot": {"iommu": "pt"},
    "nccl": {"variables": {"NCCL_DEBUG": "WARN"}},
}

#: Only what these tests declare is compared.
NOTHING = {"nccl.variables": {"status": "unsupported", "reason": "no NCCL"}}


class Made:
    """One or more nodes, found as declared or as before the first run."""

    def __init__(
        self, folder: pathlib.Path, names: str = "a", original: str = "declared", **given: Any
    ) -> None:
        self.folder, self.names = folder, names
        own = folder / "own.yml"
        own.write_text(json.dumps(DECLARED), encoding="utf-8")
        self.site = effect_site.bare(folder, {name: {"node_profile": str(own)} for name in names}, original)
        call = self.site.plugins / "plugin_utils/agent_call.py"
        call.write_text(f"{call.read_text(encoding='utf-8')}{AREAS}", encoding="utf-8")
        self.original = self.settings() if original == "declared" else {}
        for name in names:
            (folder / name / "applied").write_text(json.dumps(self.original), encoding="utf-8")
            (folder / name / "given").write_text(json.dumps({"rows": NOTHING, **given}), encoding="utf-8")
            (folder / name / "phases").touch()
        (folder / "job.py").write_text(JOB, encoding="utf-8")

    @staticmethod
    def settings() -> dict[str, str]:
        spec = {area: about.get("settings", about) for area, about in DECLARED.items()}
        return {f"{area}.{key}": area for area, keys in spec.items() for key in keys}

    def play(self, *words: str, **given: Any) -> tuple[int, str, dict[str, Any]]:
        """Exit status, output and document. All nodes are as before it."""
        command = [sys.executable, str(self.folder / "job.py"), str(self.folder / self.names[0])]
        out = self.folder / "out"
        metric = {"name": "rate", "unit": "1/s", "better": "higher", "json": "rate"}
        options = {
            "effect_by": ["area"], "effect_kinds": ["command"], "effect_command": command,
            "effect_launcher": "first", "effect_metrics": [metric], "effect_phases": 16, "effect_settle": 0,
            "effect_warmups": 0, "campaign_allow": ["busy"], "campaign_results": str(out), **given,
        }  # fmt: skip
        status, said = self.site.play(*words, playbook="playbooks/effect.yml", **options)
        for name in self.names:
            after = json.loads((self.folder / name / "applied").read_text(encoding="utf-8"))
            assert after == self.original, said
        assert not [*out.glob("unfinished/*")]
        paths = [*out.glob("effect-*.json")]
        document = json.loads(paths[0].read_text(encoding="utf-8")) if paths else {}
        if document:
            schema = json.loads((ROOT / "docs/schema/screening.schema.json").read_text("utf-8"))
            jsonschema.validate(document, schema)
        return status, " ".join(said.split()), document

    def phases(self, name: str = "a") -> list[list[str]]:
        lines = (self.folder / name / "phases").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


@pytest.mark.long
@pytest.mark.parametrize("original", ["declared", "reverted"])
def test_areas_that_help_and_harm_are_told_apart_and_all_is_put_back(
    tmp_path: pathlib.Path, original: str
) -> None:
    made = Made(tmp_path, original=original)

    status, said, document = made.play()

    assert status == 0, said
    [result] = document["results"]
    verdicts = {area["area"]: area["verdict"] for area in result["areas"]}
    assert list(verdicts.items())[:2] == [("limits", "harms"), ("thp", "helps")]
    assert {verdicts["sysctl"], verdicts["cpu"]} <= {"no difference", "not decided"}
    assert (
        "left out: nccl: is unsupported on these nodes (nccl.variables: no NCCL) left out: boot: needs"
        in said
    )
    # The last line is of the way back.
    *phases, last = made.phases()
    assert {key for key in last if last} == {*made.original}
    compared = document["effect"]["areas"]
    for applied, planned in zip(phases, document["effect"]["phases"]):
        areas = {key.partition(".")[0] for key in applied}
        assert areas & {*compared} == {*planned}
        # Other areas stay as declared, and areas that need a boot as before the run.
        assert areas - {*compared} == {"nccl", *(["boot"] if original == "declared" else [])}


@pytest.mark.long
def test_harm_fails_the_run_if_asked_for(tmp_path: pathlib.Path) -> None:
    made = Made(tmp_path)

    status, said, document = made.play(
        effect_by=["limits", "sysctl.vm.swappiness"], effect_phases=8, effect_fail_on="harms"
    )

    assert status == 2, said
    assert "rate: limits: harms: -10." in said
    assert "All nodes are put back" in said
    assert document["effect"]["areas"] == ["limits", "sysctl.vm.swappiness"]
    off = [phase for phase in made.phases() if "sysctl.vm.swappiness" not in phase]
    assert off
    assert all("sysctl.net.core.somaxconn" in phase and "boot.iommu" in phase for phase in off)


def test_check_mode_has_the_plan_and_changes_nothing(tmp_path: pathlib.Path) -> None:
    made = Made(tmp_path, original="reverted", boots=["cpu"])

    status, said, _document = made.play("--check")

    assert status == 0, said
    assert "compares thp, sysctl, limits on 1 node. 3 areas in 16 phases: the effect of each area is" in said
    assert (
        "left out: cpu: needs a boot left out: nccl: is unsupported on these nodes (nccl.variables: no"
        in said
    )
    planned = re.findall(r" phase [0-9]+: ((?:[a-z, ](?!phase))*)", said)
    assert len(planned) == 16
    assert {name for phase in planned for name in phase.split(", ")} >= {"thp", "sysctl", "limits"}
    assert "A phase takes up to 600 s, a change of all nodes about" in said
    assert made.phases() == []


@pytest.mark.long
def test_a_node_that_cannot_have_an_area_is_named(tmp_path: pathlib.Path) -> None:
    """Its mean with the other nodes has a part of the effect."""
    made = Made(tmp_path, "ab")
    lacks = {key: {"status": "unsupported", "reason": "no THP"} for key in ("thp.enabled", "thp.defrag")}
    (tmp_path / "b/given").write_text(json.dumps({"rows": {**NOTHING, **lacks}}), encoding="utf-8")

    status, said, _document = made.play("--check")

    assert status == 0, said
    assert "compares thp, sysctl, limits, cpu on 2 nodes" in said
    assert "left out: thp on b: is unsupported on these nodes (thp.enabled: no THP)" in said


#: Options → the message
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing to compare": (
        {"effect_by": ["boot", "nccl", "thp"]},
        "got thp (boot needs a boot; nccl is unsupported on these nodes (nccl.variables: no NCCL)); declare",
    ),
    "two names of one setting": (
        {"effect_by": ["sysctl.vm.swappiness", "sysctl.settings.vm.swappiness", "thp"]},
        "effect_by: sysctl.settings.vm.swappiness and sysctl.vm.swappiness are both of sysctl.vm.swappiness",
    ),
    "too few phases": (
        {"effect_phases": 7},
        "effect_phases: expected at least 12 for 4 areas, got 7; allow more phases, or name fewer areas",
    ),
    "another option": (
        {"effect_precision": 2},
        "effect_precision: expected none with effect_by; set effect_phases instead",
    ),
}


@pytest.mark.parametrize(
    "case", ["nothing to compare", *(pytest.param(case, marks=pytest.mark.long) for case in [*WRONG][1:])]
)
def test_experiments_that_cannot_be(tmp_path: pathlib.Path, case: str) -> None:
    made = Made(tmp_path)
    given, words = WRONG[case]

    status, said, _document = made.play("--check", **given)

    assert status == 2, said
    assert words in said
    assert made.phases() == []


@pytest.mark.long
def test_a_declaration_that_is_edited_during_the_run_ends_it(tmp_path: pathlib.Path) -> None:
    made = Made(tmp_path)
    edited = {**DECLARED, "sysctl": {"settings": {"vm.swappiness": 2, "net.core.somaxconn": 4096}}}
    edits = f"""
if number == 5:
    pathlib.Path({str(tmp_path / "own.yml")!r}).write_text({json.dumps(edited)!r})
"""
    (tmp_path / "job.py").write_text(JOB + edits, encoding="utf-8")

    status, said, document = made.play(effect_by=["thp", "limits"], effect_phases=8)

    assert status == 2, said
    assert "phase 8 of 8 was lost; a: the declaration is another one than at the begin" in said
    assert {area["verdict"] for result in document["results"] for area in result["areas"]} == {"unknown"}


#: What a node answers → the message
LOST: dict[str, tuple[dict[str, Any], str]] = {
    "a phase that cannot be reached": ({"fails": 2}, "a: the disk is full"),
    "an area that stays in force": (
        {"keeps": ["thp.enabled", "thp.defrag"]},
        "a: thp keeps its values without its declaration, and cannot be compared",
    ),
    "an area that is not in force": (
        {"rows": {**NOTHING, "cpu.governor": {"status": "drifted", "reason": "no driver"}}},
        "cpu.governor is drifted: no driver",
    ),
}


@pytest.mark.parametrize(
    "case",
    ["a phase that cannot be reached", *(pytest.param(case, marks=pytest.mark.long) for case in [*LOST][1:])],
)
def test_a_lost_phase_ends_it_and_all_is_put_back(tmp_path: pathlib.Path, case: str) -> None:
    given, words = LOST[case]
    made = Made(tmp_path, "ab", **given)

    status, said, document = made.play()

    assert status == 2, said
    assert words in said
    assert "was lost" in said
    assert "All nodes are put back to their state before the run." in said
    if document:
        assert {area["verdict"] for result in document["results"] for area in result["areas"]} == {"unknown"}
