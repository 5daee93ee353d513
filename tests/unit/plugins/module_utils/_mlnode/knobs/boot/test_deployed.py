# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel arguments through bootc, rpm-ostree and ostree, whose stand-ins are in deploy_tools.py."""

from __future__ import annotations

import errno
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import deploy_tools, door
from ansible_collections.mlnode.tuning.tests.unit.deployed_machine import KARGS_D, STAGED, DeployedMachine
from ansible_collections.mlnode.tuning.tests.unit.uefi_machine import LOADER_INFO
from mlnode.engine import engine, handlers
from mlnode.engine.engine import Outcome, Request
from mlnode.engine.revert import revert
from mlnode.engine.transaction import Transaction
from mlnode.knobs.boot.kind import kind as boot
from mlnode.loader import boot_loader, deployed
from mlnode.model.errors import MlnodeError, TransactionError

ACS = "config_acs=xx000x0@0000:17:00.0;xx000x0@0000:18:08.0"
SPEC: dict[str, Any] = {"parameters": {"iommu": "pt", "pci": [ACS]}}
MOST: dict[str, Any] = {**SPEC, "absent": ["quiet"]}
TOOLS = ("bootc", "rpm-ostree", "ostree")


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def node(tool: str, tmp_path: pathlib.Path) -> DeployedMachine:
    return DeployedMachine.with_tools(str(tmp_path / "node"), tool)


@pytest.fixture
def make(tmp_path: pathlib.Path) -> Callable[..., DeployedMachine]:
    return lambda *tools, **more: DeployedMachine.with_tools(str(tmp_path / "node"), *tools, **more)


def applied(machine: DeployedMachine, spec: dict[str, Any] | None = None, name: str = "site") -> Outcome:
    machine.forget()
    return door.apply(machine, Request(name, boot, spec or SPEC))


def statuses(outcome: Outcome) -> dict[str, str]:
    return {row.setting.key[len("boot.") :]: str(row.status) for row in outcome.rows}


def reasons(outcome: Outcome) -> str:
    return "\n".join(row.reason for row in outcome.rows)


def parameter(machine: DeployedMachine, name: str) -> list[str]:
    return [word.replace('"', "") for word in machine.next_words() if word.partition("=")[0] == name]


def test_set_pending_in_force_and_undone(node: DeployedMachine) -> None:
    before = node.next_words()
    outcome = applied(node)
    assert {*statuses(outcome).values()} == {"pending_reboot"}
    assert (parameter(node, "iommu"), parameter(node, "pci")) == (["iommu=pt"], [f"pci={ACS}"])
    assert set(before) < {*node.next_words()}
    number = len(node.commands)
    assert not applied(node).changed, "a second run changes nothing"
    node.boot()
    assert {*statuses(applied(node)).values()} == {"ok"}
    assert len(node.commands) == number
    changes = revert(node)
    assert any(change.at_boot for change in changes)
    assert node.next_words() == before
    assert not node.exists(deployed.RECORD)
    node.boot()
    assert "iommu" not in node.read("/proc/cmdline")


def test_a_check_writes_nothing(node: DeployedMachine) -> None:
    before = node.tree()
    outcomes = engine.preview(node, [Request("site", boot, SPEC)])
    assert outcomes.changed
    assert (node.tree(), node.commands) == (before, [])


def test_words_that_leave_the_declaration_leave_the_next_boot(node: DeployedMachine) -> None:
    applied(node)
    applied(node, {"parameters": {"iommu": "pt"}})
    assert (parameter(node, "iommu"), parameter(node, "pci")) == (["iommu=pt"], [])
    node.boot()
    applied(node, {"parameters": {"iommu": "off"}})
    assert parameter(node, "iommu") == ["iommu=off"]


def test_two_declarations_are_given_together(node: DeployedMachine) -> None:
    applied(node, {"parameters": {"iommu": "pt"}})
    applied(node, {"parameters": {"nosmt": ""}}, "other")
    assert {"iommu=pt", "nosmt"} < {*node.next_words()}
    revert(node)
    assert node.next_words() == ["root=UUID=1", "rw", "quiet"]


@pytest.mark.parametrize("tool", ["rpm-ostree", "ostree"])
def test_words_before_are_put_back(make: Callable[..., DeployedMachine], tool: str) -> None:
    words = "root=UUID=1 quiet iommu=on console=tty0 console=ttyS0 rw"
    node = make(tool, words=words)
    spec = {"parameters": {"iommu": "pt", "console": ["ttyS0"]}, "absent": ["quiet"]}
    assert {*statuses(applied(node, spec)).values()} == {"pending_reboot"}
    assert parameter(node, "console") == ["console=ttyS0"]
    assert "quiet" not in node.next_words()
    node.boot()
    assert {*statuses(applied(node, spec)).values()} == {"ok"}
    revert(node)
    assert sorted(node.next_words()) == sorted(words.split())
    assert parameter(node, "console") == ["console=tty0", "console=ttyS0"]


@pytest.mark.parametrize("tool", ["rpm-ostree", "ostree"])
def test_a_hand_since_is_named_corrected_and_kept_by_the_undo(
    make: Callable[..., DeployedMachine], tool: str
) -> None:
    node = make(tool)
    applied(node)
    node.boot()
    hand = ["rpm-ostree", "kargs", "--delete=iommu=pt", "--append=iommu=off"]
    assert node.run(hand).rc == 0
    node.forget()
    if tool == "ostree":
        node.boot()
        node.forget()
    outcomes = engine.preview(node, [Request("site", boot, SPEC)])
    (row,) = (row for row in outcomes.outcomes[0].rows if row.setting.key == "boot.iommu")
    assert "set by another after mlnode gave iommu=pt" in row.reason
    applied(node)
    assert parameter(node, "iommu") == ["iommu=pt"]
    revert(node)
    assert parameter(node, "iommu") == ["iommu=off"]


def test_a_word_of_the_image_is_named_and_replaced(make: Callable[..., DeployedMachine]) -> None:
    """rpm-ostree takes it away, and bootc brings it back only if its file changes (bootc_kargs.rs)."""
    node = make("rpm-ostree", words="root=UUID=1 iommu=on")
    node.put(f"{KARGS_D}/10-site.toml", 'kargs = ["iommu=on"]\n')
    outcomes = engine.preview(node, [Request("site", boot, {"parameters": {"iommu": "pt"}})])
    assert f"{KARGS_D}/10-site.toml:1 (of the image) sets iommu=on" in reasons(outcomes.outcomes[0])
    applied(node)
    assert parameter(node, "iommu") == ["iommu=pt"]
    revert(node)
    assert parameter(node, "iommu") == ["iommu=on"]


def test_systemd_boot_gets_no_quotes(node: DeployedMachine) -> None:
    node.put(LOADER_INFO, b"\6\0\0\0" + "systemd-boot 257\0".encode("utf-16-le"))
    applied(node)
    assert f"pci={ACS}" in node.next_words()
    revert(node)
    assert node.next_words() == ["root=UUID=1", "rw", "quiet"]


def test_the_undo_keeps_a_hand_since(node: DeployedMachine, tool: str) -> None:
    applied(node)
    node.boot()
    node.run(["rpm-ostree", "kargs", "--delete=iommu=pt", "--append=iommu=off"])
    node.boot()
    revert(node)
    assert (parameter(node, "iommu"), parameter(node, "pci")) == (["iommu=off"], [])


# -- bootc ---------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [False, True])
def test_bootc_does_not_take_a_word_of_the_image_away(
    make: Callable[..., DeployedMachine], later: bool
) -> None:
    node = make("bootc", words="root=UUID=1 rw" if later else "root=UUID=1 rw iommu=on")
    if later:
        applied(node)
        node.boot()
        node.run(["rpm-ostree", "kargs", "--append=iommu=on"])
        node.boot()
    node.put(f"{KARGS_D}/10-site.toml", '# iommu=on\nkargs = [\n  "iommu=on",\n]\n')
    for _run in range(2):
        outcome = applied(node)
        assert statuses(outcome)["iommu"] == "overridden"
        assert f"{KARGS_D}/10-site.toml:3 (of the image" in reasons(outcome)
        assert "iommu=on" in parameter(node, "iommu")
    assert not applied(node).changed
    revert(node)
    assert parameter(node, "iommu") == ["iommu=on"]


def test_bootc_says_who_keeps_a_word_that_must_be_absent(make: Callable[..., DeployedMachine]) -> None:
    node = make("bootc")
    outcome = applied(node, MOST)
    assert statuses(outcome) == {"iommu": "pending_reboot", "pci": "pending_reboot", "quiet": "overridden"}
    assert "(set at the installation or by hand; bootc leaves it" in reasons(outcome)
    assert not applied(node, MOST).changed


def test_a_word_of_the_image_is_enough(make: Callable[..., DeployedMachine]) -> None:
    node = make("bootc", words="root=UUID=1 iommu=pt")
    assert statuses(applied(node, {"parameters": {"iommu": "pt"}})) == {"iommu": "ok"}
    assert node.commands == []
    revert(node)
    assert parameter(node, "iommu") == ["iommu=pt"]


def test_another_source_of_bootc_is_named(make: Callable[..., DeployedMachine]) -> None:
    node = make("bootc")
    node.run(
        ["bootc", "loader-entries", "set-options-for-source", "--source", "tuned", "--options", "iommu=on"]
    )
    staged = reasons(applied(node))
    node.boot()
    booted = reasons(applied(node))
    node.boot()
    assert f"{STAGED} (of tuned; bootc leaves it" in staged
    assert "ostree-2.conf:5 (of tuned; bootc leaves it" in booted
    assert "x-options-source-tuned iommu=on\n" in node.read("/boot/loader/entries/ostree-2.conf")


SET_BY_TUNED = ["bootc", "loader-entries", "set-options-for-source", "--source", "tuned"]


@pytest.mark.parametrize(
    ("give", "take"),
    [
        (["rpm-ostree", "kargs", "--append=iommu=pt"], ["rpm-ostree", "kargs", "--delete=iommu=pt"]),
        ([*SET_BY_TUNED, "--options", "iommu=pt"], []),
    ],
)
@pytest.mark.parametrize("boots", [False, True])
def test_the_undo_keeps_the_same_word_of_another(
    make: Callable[..., DeployedMachine], give: list[str], take: list[str], boots: bool
) -> None:
    node = make("bootc")
    applied(node)
    assert node.run(give).rc == 0
    if boots:
        node.boot()
    node.forget()
    words, number = node.next_words(), len(node.commands)
    with pytest.raises(MlnodeError, match="it would take iommu=pt of another away, too"):
        revert(node)
    assert (node.next_words(), len(node.commands)) == (words, number)
    if not take:
        applied(node, {"parameters": {"iommu": "pt"}})
        assert (parameter(node, "iommu"), parameter(node, "pci")) == (["iommu=pt"], [])
        return
    node.run(take)
    node.forget()
    revert(node)
    assert node.next_words() == ["root=UUID=1", "rw", "quiet"]


def test_the_source_is_known_without_a_file(make: Callable[..., DeployedMachine]) -> None:
    """With a transient /etc and /var, the entry alone says whose words they are."""
    node = make("bootc")
    applied(node)
    node.boot()
    assert "x-options-source-mlnode iommu=pt" in node.read("/boot/loader/entries/ostree-2.conf")
    for path in (deployed.path_of("site"), "/etc/mlnode/declared.d/site.json"):
        node.remove(path)
    applied(node, {"parameters": {"iommu": "off"}})
    assert (parameter(node, "iommu"), parameter(node, "pci")) == (["iommu=off"], [])


@pytest.mark.parametrize(("mood", "text"), [("no-sources", ""), ("version", "2025.7")])
def test_an_older_bootc_leaves_it_to_the_next_tool(
    make: Callable[..., DeployedMachine], mood: str, text: str
) -> None:
    node = make(*TOOLS)
    node.mood(mood, text)
    applied(node, MOST)
    assert [command[0] for command in node.commands] == ["rpm-ostree"]
    assert "quiet" not in node.next_words()
    node.remove(f"/moods/{mood}")
    applied(node, {"parameters": {"iommu": "on"}})
    assert "quiet" in node.next_words(), "what rpm-ostree has given, bootc could not take away"
    assert [command[0] for command in node.commands] == ["rpm-ostree"] * 2


def test_without_a_capable_tool_the_way_is_said(make: Callable[..., DeployedMachine]) -> None:
    node = make("bootc")
    node.mood("no-sources")
    outcome = applied(node)
    assert {*statuses(outcome).values()} == {"unsupported"}
    assert f"{KARGS_D} of the image" in reasons(outcome)


# -- what goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("failing", "Installing kernel: No space left on device"),
        ("idle", "it did not give the words of iommu, and said: done"),
        ("nonsense", "it did not give the words of iommu, and said: nothing"),
    ],
)
def test_a_tool_that_fails_leaves_nothing(node: DeployedMachine, tool: str, mood: str, words: str) -> None:
    before, tree = node.next_words(), node.tree()
    node.mood(mood)
    with pytest.raises(TransactionError) as raised:
        applied(node)
    assert f"cannot set kernel arguments with {tool}" in str(raised.value)
    assert words in str(raised.value)
    assert not node.exists("/etc/mlnode/kernel-arguments.d")
    node.remove(f"/moods/{mood}")
    if mood != "nonsense":
        assert node.next_words() == before
        assert {path for path in node.tree() if "moods" not in path} == {*tree}
    elif tool != "bootc":
        assert node.exists(deployed.RECORD), "what it left there is not another's word"
    applied(node)
    if not (mood == "nonsense" and tool == "bootc"):
        assert parameter(node, "iommu") == ["iommu=pt"]
        revert(node)
        assert node.next_words() == before


@pytest.mark.parametrize("late", ["", "late"])
def test_a_tool_that_hangs_is_an_error_and_the_next_run_repairs(
    node: DeployedMachine, tool: str, late: str
) -> None:
    before = node.next_words()
    node.hangs = late or "early"
    with pytest.raises(TransactionError) as raised:
        applied(node)
    assert "no answer in 300 s: another program may hold the lock" in str(raised.value)
    assert (["rpm-ostree", "cancel"] in node.commands) is (tool == "rpm-ostree")
    node.hangs = ""
    node.forget()
    assert {*statuses(applied(node)).values()} == {"pending_reboot"}
    assert parameter(node, "iommu") == ["iommu=pt"]
    revert(node)
    assert node.next_words() == before


def test_a_tool_that_hangs_when_asked_hides_nothing(make: Callable[..., DeployedMachine]) -> None:
    node = make("bootc", words="root=UUID=1 nosmt")
    node.hangs = "asked"
    outcome = applied(node, {"parameters": {"iommu": "pt", "nosmt": ""}})
    assert statuses(outcome) == {"iommu": "unsupported", "nosmt": "ok"}
    assert "cannot run bootc: no answer in 60 s" in reasons(outcome)


def test_another_transaction_is_an_error_with_what_to_do(make: Callable[..., DeployedMachine]) -> None:
    node = make("rpm-ostree")
    node.mood("busy")
    with pytest.raises(TransactionError) as raised:
        applied(node)
    words = (
        "Transaction in progress: upgrade; You can cancel the current transaction with `rpm-ostree cancel`"
    )
    assert f"{words}; wait until rpm-ostree status says idle, and run it again" in str(raised.value)
    assert not node.exists(deployed.RECORD)


def test_a_staged_deployment_gets_the_words(node: DeployedMachine, tool: str) -> None:
    node.run(["rpm-ostree", "kargs", "--append=upgraded"])
    assert node.exists(STAGED)
    outcome = applied(node)
    if tool == "ostree":
        assert {*statuses(outcome).values()} == {"unsupported"}
        assert f"({STAGED}): reboot first" in reasons(outcome)
        node.boot()
        outcome = applied(node)
    assert {*statuses(outcome).values()} == {"pending_reboot"}
    assert {"upgraded", "iommu=pt"} < {*node.next_words()}
    node.boot()
    assert {*statuses(applied(node)).values()} == {"ok"}


class _PowerCutError(BaseException):
    pass


def _cut(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Let the power fail before our record is written, before the tool's work, or after it."""
    before = vars(deployed)["_run" if place == "after" else place]

    def cut(*words: Any) -> None:
        if place == "after":
            before(*words)
        raise _PowerCutError

    monkeypatch.setattr(deployed, "_run" if place == "after" else place, cut)
    given = {**handlers.HANDLERS, handlers.KERNEL_ARGUMENTS: deployed.give}
    monkeypatch.setattr(handlers, "HANDLERS", given)
    monkeypatch.setattr(Transaction, "_undo", lambda *_args: None)


@pytest.mark.parametrize("spec", [{"parameters": {"iommu": "off"}}, {"parameters": {"nosmt": ""}}, None])
@pytest.mark.parametrize("place", ["give", "_run", "after"])
def test_a_power_cut_is_repaired(
    node: DeployedMachine, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any] | None, place: str
) -> None:
    """A changed, a new and two leaving parameters, and a revert."""
    before = node.next_words()
    applied(node)
    node.boot()
    with monkeypatch.context() as patched:
        _cut(patched, place)
        with pytest.raises(_PowerCutError):
            applied(node, spec) if spec else revert(node)
    node.boot()
    if spec is not None:
        assert not {*statuses(applied(node, spec)).values()} - {"pending_reboot", "ok"}
        (name,) = spec["parameters"]
        assert len(parameter(node, name)) == 1
        assert parameter(node, "pci") == []
        assert not applied(node, spec).changed
    revert(node)
    assert node.next_words() == before


@pytest.mark.parametrize("unit", ["mlnode-apply.service", "mlnode-nic.service", "mlnode-pull.service"])
def test_a_sandboxed_service_leaves_it_to_the_play(node: DeployedMachine, unit: str) -> None:
    node.put("/proc/self/cgroup", f"0::/system.slice/{unit}\n")
    outcome = applied(node)
    assert {*statuses(outcome).values()} == {"unsupported"}
    assert f"in the sandbox of {unit}: run the play, or mlnode apply" in reasons(outcome)
    assert node.commands == []


def test_a_composefs_deployment_of_bootc_is_left_to_its_image(make: Callable[..., DeployedMachine]) -> None:
    node = make("bootc")
    node.started("x composefs=abc root=UUID=1")
    assert KARGS_D in boot_loader.find(node).lacks


@pytest.mark.parametrize("content", ["{", "[]", '{"iommu": "pt"}', '{"iommu": [1]}', "\xff", ""])
@pytest.mark.parametrize("path", [deployed.path_of("other"), deployed.RECORD])
def test_a_damaged_file_is_an_error(make: Callable[..., DeployedMachine], path: str, content: str) -> None:
    node = make("rpm-ostree")
    applied(node)
    node.put(path, content.encode("latin-1"))
    node.forget()
    with pytest.raises(MlnodeError, match=f"{path}: it is damaged"):
        applied(node, {"parameters": {"iommu": "off"}})
    assert parameter(node, "iommu") == ["iommu=pt"]


@pytest.mark.parametrize(
    "known", [{}, [], "x", 1, {"before": [], "given": []}, {"before": [1], "given": [[]]}]
)
def test_a_damaged_record_is_an_error(make: Callable[..., DeployedMachine], known: Any) -> None:
    node = make("rpm-ostree")
    applied(node)
    node.put(deployed.RECORD, json.dumps({"nosmt": known}))
    with pytest.raises(MlnodeError, match=f"{deployed.RECORD}: it is damaged"):
        applied(node, {"parameters": {"iommu": "off"}})


@pytest.mark.parametrize("path", [deployed.path_of("site"), deployed.RECORD])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_what_cannot_be_read_is_no_success(
    make: Callable[..., DeployedMachine], path: str, number: int
) -> None:
    node = make("rpm-ostree")
    applied(node)
    node.unreadable = {path: number}
    with pytest.raises(MlnodeError, match=path):
        applied(node)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_unreadable_files_are_unknown(node: DeployedMachine, number: int) -> None:
    for path in ("/boot/loader/entries/ostree-1.conf", STAGED):
        node.put(STAGED, "") if path == STAGED else None
        node.unreadable = {path: number}
        node.forget()
        loader = boot_loader.find(node)
        assert loader.unreadable, path
        outcomes = engine.preview(node, [Request("site", boot, SPEC)])
        assert {str(row.status) for row in outcomes.outcomes[0].rows} == {"unknown"}


@pytest.mark.parametrize(
    ("words", "sign"),
    [("root=UUID=1 -- single", "--"), ("root=UUID=1 -x", "-x"), ("root=UUID=1 x -- -y", "--")],
)
def test_words_that_tools_could_not_add_are_refused(
    node: DeployedMachine, tool: str, words: str, sign: str
) -> None:
    """Behind two dashes they would be init's; and ostree takes one dash for an option of its own."""
    node.entry(1, words)
    node.boot()
    outcome = applied(node)
    if sign == "-x" and tool != "ostree":
        assert {*statuses(outcome).values()} == {"pending_reboot"}
        return
    assert {*statuses(outcome).values()} == {"unsupported"}
    assert f"because of {sign!r}" in reasons(outcome)
    assert node.commands == []


@pytest.mark.parametrize("record", ["key", "file", "unlocked"])
def test_a_deployment_that_was_only_downloaded_stays_locked(
    node: DeployedMachine, tool: str, record: str
) -> None:
    """The next boot does not start it, so its words are not those of the next boot."""
    applied(node)
    node.boot()
    words = ["root=UUID=1", "rw", "iommu=off", f'pci="{ACS}"']
    node.put(STAGED, deploy_tools.packed(words, {}, locked={"key": True, "unlocked": False}.get(record)))
    if record == "file":
        node.put(f"{STAGED}-locked", "")
    number = len(node.commands)
    node.forget()
    entry = deployed.next_entry(node)
    assert entry is not None
    assert entry.parameter("iommu")[0] == (("iommu=off",) if record == "unlocked" else ("iommu=pt",))
    if record == "unlocked":
        return
    assert {*statuses(applied(node)).values()} == {"ok"}
    outcome = applied(node, {"parameters": {"iommu": "on"}})
    assert statuses(outcome) == {"iommu": "unsupported"}
    assert f"{tool} would unlock the staged deployment ({STAGED}): reboot first" in reasons(outcome)
    with pytest.raises(MlnodeError, match="would unlock"):
        revert(node)
    assert len(node.commands) == number
    node.remove(STAGED)
    node.remove(f"{STAGED}-locked") if record == "file" else None
    node.forget()
    revert(node)
    assert node.next_words() == ["root=UUID=1", "rw", "quiet"], "after the boot it can be undone"


def test_a_staged_deployment_without_words_gets_none(node: DeployedMachine, tool: str) -> None:
    """As ostree admin upgrade --stage makes one. bootc would give it mlnode's alone, without root=."""
    node.put(STAGED, deploy_tools.packed(None, {}))
    outcome = applied(node)
    assert {*statuses(outcome).values()} == {"unsupported"}
    assert f"{tool} gives no words to this staged deployment ({STAGED}): reboot first" in reasons(outcome)
    assert node.commands == []


@pytest.mark.parametrize("stateroot", ["x", "other"])
def test_a_rollback_is_not_taken_back(node: DeployedMachine, tool: str, stateroot: str) -> None:
    """bootc starts from the running deployment, and rpm-ostree from the newest of its stateroot."""
    path = node.entry(2, "root=UUID=1 rw older")
    node.put(path, node.read(path).replace("/x/2/0", f"/{stateroot}/2/0"))
    outcome = applied(node)
    if tool == "ostree" or (tool, stateroot) == ("rpm-ostree", "x"):
        assert {*statuses(outcome).values()} == {"pending_reboot"}
        assert {"older", "iommu=pt"} < {*node.next_words()}
        return
    assert {*statuses(outcome).values()} == {"unsupported"}
    assert f"that {tool} does not change: reboot first" in reasons(outcome)
    assert (node.commands, node.next_words()) == ([], ["root=UUID=1", "rw", "older"])


@pytest.mark.parametrize("tool", ["bootc", "rpm-ostree"])
def test_a_word_that_a_tool_takes_away_is_an_error(make: Callable[..., DeployedMachine], tool: str) -> None:
    node = make(tool)
    node.mood("greedy")
    with pytest.raises(TransactionError, match="it took root=UUID=1 away, too"):
        applied(node)


@pytest.mark.parametrize("tool", ["rpm-ostree", "ostree", ""])
def test_words_of_a_bootc_that_has_left_are_taken_away(
    make: Callable[..., DeployedMachine], tool: str
) -> None:
    node = make("bootc")
    applied(node)
    node.boot()
    node.remove("/usr/bin/bootc")
    if not tool:
        with pytest.raises(MlnodeError, match="cannot set kernel arguments"):
            revert(node)
        return
    node.put(f"/usr/bin/{tool}", "", 0o755)
    applied(node, {"parameters": {"iommu": "off"}})
    assert (parameter(node, "iommu"), parameter(node, "pci")) == (["iommu=off"], [])
    assert not applied(node, {"parameters": {"iommu": "off"}}).changed
    revert(node)
    assert node.next_words() == ["root=UUID=1", "rw", "quiet"]


def test_the_record_knows_each_word_once(make: Callable[..., DeployedMachine]) -> None:
    node = make("rpm-ostree")
    for value in ("pt", "off", "pt"):
        applied(node, {"parameters": {"iommu": value}})
    record = json.loads(node.read(deployed.RECORD))
    assert record == {"iommu": {"before": [], "given": [["iommu=pt"]]}}


def test_explain_names_the_file_of_the_image(make: Callable[..., DeployedMachine]) -> None:
    node = make("bootc")
    node.put(f"{KARGS_D}/10-site.toml", 'kargs = ["iommu=on"]\n')
    assert f'{KARGS_D}/10-site.toml:1: kargs = ["iommu=on"]' in boot.boot_sources("boot.iommu", node)


def test_a_missing_boot_is_said(make: Callable[..., DeployedMachine]) -> None:
    node = make("rpm-ostree")
    node.remove("/boot/loader/entries/ostree-1.conf")
    node.forget()
    assert boot_loader.find(node).lacks.endswith("is /boot mounted?")


def test_nothing_is_given_elsewhere(make: Callable[..., DeployedMachine]) -> None:
    node = make("rpm-ostree")
    node.remove("/run/ostree-booted")
    node.put(deployed.path_of("site"), '{"iommu": ["iommu=pt"]}')
    deployed.give(node)
    assert node.commands == []
