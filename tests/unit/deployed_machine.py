# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that ostree deploys, with stand-ins for the tools that set its kernel arguments."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from ansible_collections.mlnode.tuning.tests.unit import deploy_tools
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine, as_grub_reads
from mlnode.host.system import Finished
from mlnode.model.errors import UnansweredError

ENTRIES = "/boot/loader/entries"
STAGED = "/run/ostree/staged-deployment"
KARGS_D = "/usr/lib/bootc/kargs.d"


class DeployedMachine(GrubMachine):
    """hangs: a tool gives no answer: after its work if `late`, to a question if `asked`. commands: those that
    change the node."""

    hangs = ""

    @classmethod
    def with_tools(cls, root: str, *tools: str, words: str = "root=UUID=1 rw quiet") -> DeployedMachine:
        machine = cls.debian_with_grub(root)
        assert isinstance(machine, DeployedMachine)
        machine.commands: list[list[str]] = []
        machine.remove("/boot/grub/grub.cfg")
        machine.put("/run/ostree-booted", "")
        for tool in tools:
            machine.put(f"/usr/bin/{tool}", "", 0o755)
        machine.entry(1, words)
        machine.boot()
        return machine

    def entry(self, number: int, words: str, more: str = "") -> str:
        path = f"{ENTRIES}/ostree-{number}.conf"
        head = f"title Fedora\nversion {number}\nlinux /ostree/x/vmlinuz-6.12.0\n"
        self.put(path, f"{head}options {words} ostree=/ostree/boot.1/x/{number}/0\n{more}")
        return path

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] not in ("bootc", "rpm-ostree", "ostree"):
            return super().run(command, seconds)
        if command[-1] in ("--help", "--version") and self.hangs != "asked":
            return Finished(*deploy_tools.run(self.root, [*command]))
        self.commands.append([*command])
        if self.hangs:
            if self.hangs == "late":
                deploy_tools.run(self.root, [*command])
            raise UnansweredError("run", command[0], None, f"no answer in {seconds:.0f} s")
        return Finished(*deploy_tools.run(self.root, [*command]))

    def mood(self, name: str, text: str = "") -> None:
        self.put(f"/moods/{name}", text)
        self.forget()

    def next_words(self) -> list[str]:
        """The command line of the next boot, without the parameter that names the deployment."""
        words, _extra = deploy_tools.Sysroot(pathlib.Path(self.root)).read()
        return [word for word in words if not word.startswith("ostree=")]

    def boot(self) -> None:
        """Shut down, which makes an entry of a staged deployment, and start the default one."""
        sysroot = deploy_tools.Sysroot(pathlib.Path(self.root))
        sysroot.finalize()
        words, _extra = sysroot.read()
        self.started(" ".join(["(hd0,gpt3)/ostree/x/vmlinuz-6.12.0", *as_grub_reads(" ".join(words))]))
        self.forget()
