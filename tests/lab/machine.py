# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One lab machine: a QEMU process on a disk overlay of its own, and SSH into it."""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any

from .accelerator import accelerator
from .build import LabError
from .parts import ACPI, TOOLS
from .profiles import Profile
from .tools import Tools

#: Without a controller of disks, of keyboards and of sensors, which are in no test: a third of a boot went to
#: their drivers.
_MACHINE = "q35,sata=off,smbus=off,i8042=off"

#: Four virtual CPUs emulated on two busy real ones take a minute, and four where the machine has other work.
#: A machine that hangs takes for ever: ten times that.
BOOT_SECONDS = 600
_PR_SET_PDEATHSIG = 1
PREFIX = "mlnode-lab-"
_LIBC = ctypes.CDLL(None, use_errno=True)

#: Of a machine's folder, what another one needs to begin where it was saved
_SAVED = ("disk.qcow2", "key", "key.pub")

#: The file beside them with the names of the states that the disk has
_STATES = "states"

#: What an event has started may be at work still, and fail at its end: the service of NICs takes 12 seconds.
_FAILED_UNITS = """
for second in $(seq 60); do
    systemctl list-units --state=activating,deactivating --plain --no-legend 'mlnode*' | grep -q . || break
    sleep 1
done
failed=$(systemctl list-units --state=failed --plain --no-legend | cut -d' ' -f1)
[ -z "$failed" ] || systemctl --no-pager --full status $failed
true
"""

#: What a machine that will never answer says on its console
_DEAD = re.compile(r"Kernel panic|emergency mode|ALERT!.*does not exist|No bootable device|error: no such")

Finished = subprocess.CompletedProcess[str]


class Machine:
    """A machine that is switched on by start(). Its folder goes away with it."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        _sweep()
        # A short path: the names of sockets may have 107 characters.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self.tools = Tools(TOOLS.path / "root")
        self.port = 0
        self.snapshot = ""
        # What its disk has been saved as, with its memory
        self.states: set[str] = set()
        # More words for the kernel at the next start; not for a machine that boots through GRUB.
        self.extra_command_line = ""
        self._paused = False
        # Where on its console the latest boot begins
        self._boot = 0
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        self._ssh_key()
        base = profile.disk.path / "disk.raw"
        self._image(
            "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), str(self.folder / "disk.qcow2")
        )

    def _ssh_key(self) -> None:
        key = str(self.folder / "key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", key], check=True)

    def _image(self, *words: str) -> None:
        subprocess.run([*self.tools.command("qemu-img"), *words], check=True)

    # -- power -----------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> Machine:
        """Switch on and wait until the machine is up. Raises LabError with the end of its console."""
        self.power_on()
        self.wait()
        return self

    def power_on(self) -> None:
        cable = self.profile.cable
        self._boot = len(self.console())
        # Between finding a free port and QEMU taking it, somebody else may: then another one is tried.
        for _attempt in range(3):
            self.port = _free_port()
            with (self.folder / "qemu.log").open("ab") as log:
                self._process = subprocess.Popen(
                    self._words(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=_die_with_parent,
                    pass_fds=() if cable is None else [_cable()[cable].fileno()],
                )
            deadline = time.monotonic() + 20
            while self._process.poll() is None and time.monotonic() < deadline:
                if (self.folder / "qmp").is_socket() and self._qmp_answers():
                    return
                time.sleep(0.1)
        raise LabError(f"QEMU does not start:\n{(self.folder / 'qemu.log').read_text()}")

    def cut_power(self) -> None:
        """What a pulled plug does: nothing is flushed, nobody is told."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._paused = False
        self.hang_up()
        (self.folder / "qmp").unlink(missing_ok=True)

    def close(self) -> None:
        """Off, and nothing left of it."""
        atexit.unregister(self.close)
        self.cut_power()
        shutil.rmtree(self.folder, ignore_errors=True)

    def reboot(self) -> None:
        """Ask the machine itself to reboot, and wait until it is up again, in a QEMU of its own: in one that
        has been reset, a CPU was twice left without its timer."""
        self.assert_no_unit_failed()
        self._down_and_up("systemctl reboot")

    def crash(self) -> None:
        """Have the kernel panic, and wait until its crash kernel has rebooted the machine, and it is up."""
        self._down_and_up("(sleep 1; echo c >/proc/sysrq-trigger) >/dev/null 2>&1 &")

    def _down_and_up(self, command: str) -> None:
        self._qmp("set-action", {"reboot": "shutdown"})
        self.run(command, check=False)
        deadline = time.monotonic() + BOOT_SECONDS
        while self._process is not None and self._process.poll() is None:
            if time.monotonic() > deadline:
                raise self._failed(f"not down within {BOOT_SECONDS} s")
            time.sleep(0.2)
        self.cut_power()
        self.start()

    def assert_no_unit_failed(self) -> None:
        """Asked where the list of failed units is about to be lost, before a reboot or a reset, and after the
        last test of a file. A test that breaks a unit on purpose says `systemctl reset-failed` itself."""
        if self._process is None:
            return
        failed = self.run(_FAILED_UNITS, check=False, seconds=BOOT_SECONDS)
        # 255 is that of ssh: a machine that cannot be reached is for the test that made it so.
        assert failed.returncode == 255 or not failed.stdout, f"{self.profile.name}: {failed.stdout}"

    def wait(self) -> None:
        """Wait until every job of the boot is done and SSH answers."""
        self.resume()
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            if self._process is None or self._process.poll() is not None:
                words = (self.folder / "qemu.log").read_text(errors="replace").strip()
                raise self._failed(f"QEMU has ended ({self._process and self._process.returncode}): {words}")
            if time.monotonic() > deadline:
                raise self._failed(f"no SSH within {BOOT_SECONDS} s")
            dead = _DEAD.search(self.console(), self._boot)
            if dead:
                raise self._failed(f"the machine is lost ({dead.group()})")
            if self._ssh_answers() and self.run("true", check=False, seconds=20).returncode == 0:
                break
            self.hang_up()
            time.sleep(0.2)
        # Ends with "degraded" and 1 where a unit failed, which is for a test to judge.
        self.run("systemctl is-system-running --wait", check=False, seconds=BOOT_SECONDS)

    def _ssh_answers(self) -> bool:
        """Whether the SSH server of the guest sends its banner. A login that is given up costs the guest the
        exchange of keys all the same, a second of an emulated CPU; and a connection to a machine that is
        booting hangs, as QEMU accepts it at once, so it is tried often and briefly."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _failed(self, words: str) -> LabError:
        return LabError(f"{self.profile.name}: {words}. The end of its console:\n{self.console()[-3000:]}")

    def console(self) -> str:
        """All the kernel and the boot loader have printed so far."""
        path = self.folder / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""

    # -- QEMU ------------------------------------------------------------------------------

    def _words(self) -> list[str]:
        profile, folder = self.profile, self.folder
        public_key = (folder / "key.pub").read_text().strip()
        words = [
            *(
                *self.tools.qemu(),
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
                "-name",
                profile.name,
            ),
            *("-machine", _MACHINE, *self._accelerator(), "-cpu", profile.cpu, "-m", str(profile.mebibytes)),
            *("-smp", f"{profile.cpus},sockets=2,cores={profile.cpus // 2}"),
            # writeback keeps what the guest has flushed, and nothing else is promised: as with a real disk.
            *("-drive", f"file={folder}/disk.qcow2,format=qcow2,if=none,id=disk,cache=writeback"),
            *("-device", "virtio-blk-pci,bus=pcie.0,drive=disk"),
            *("-netdev", f"user,id=login,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-10.0.2.15:22"),
            *("-device", "virtio-net-pci,bus=pcie.0,netdev=login,mac=52:54:00:6c:61:00,romfile="),
            *("-device", "virtio-rng-pci,bus=pcie.0"),
            *("-qmp", f"unix:{folder}/qmp,server=on,wait=off"),
            *(
                "-chardev",
                f"file,id=console,path={folder}/console.log,append=on",
                "-serial",
                "chardev:console",
            ),
            *("-smbios", f"type=11,value=io.systemd.credential:ssh.authorized_keys.root={public_key}"),
            *profile.devices,
        ]
        if profile.cable is not None:
            end = _cable()[profile.cable].fileno()
            words += ["-netdev", f"dgram,id=cable,local.type=fd,local.str={end}"]
            words += ["-netdev", "hubport,id=uplink,hubid=1,netdev=cable"]
        if profile.guest_devices:
            words += ["-fw_cfg", f"name=opt/lab/devices,string={profile.guest_devices}"]
        if profile.table:
            words += ["-acpitable", f"file={ACPI.path}/{profile.table}-{profile.cpus}.aml"]
        if not profile.grub:
            line = f"root=/dev/vda1 ro {profile.kernel_line} {self.extra_command_line}"
            disk = profile.disk.path
            words += ["-kernel", str(disk / "vmlinux"), "-initrd", str(disk / "initrd.img"), "-append", line]
        if self.snapshot:
            words += ["-loadvm", self.snapshot]
        return words

    def _accelerator(self) -> tuple[str, ...]:
        return accelerator(self.tools, self.profile.cpu, self.profile.disk.path / "vmlinux")

    def save(self, name: str) -> None:
        """Keep memory, devices and disk under a name."""
        self.hang_up()
        self._monitor(f"savevm {name}")
        self.states.add(name)

    def give(self, folder: pathlib.Path) -> None:
        """Copy what was saved to a folder, for take() of another process."""
        new = folder.with_suffix(".new")
        new.mkdir()
        self._qmp("stop")  # flushes the disk
        for name in _SAVED:
            shutil.copy2(self.folder / name, new / name)
        self._qmp("cont")
        (new / _STATES).write_text("\n".join(sorted(self.states)))
        new.rename(folder)

    def take(self, folder: pathlib.Path) -> None:
        """Have what another process has saved, for set_back()."""
        self.cut_power()
        for name in _SAVED:
            shutil.copy2(folder / name, self.folder / name)
        self.states = {*(folder / _STATES).read_text().splitlines()}

    def load(self, name: str) -> None:
        """Make the machine what it was when that name was saved; seconds instead of a boot."""
        self.assert_no_unit_failed()
        self.set_back(name)

    def set_back(self, name: str) -> None:
        """The same, whatever has failed on it."""
        self.hang_up()
        if self._process is None:
            self.snapshot = name
            self.power_on()
            self.snapshot = ""
        else:
            self._monitor(f"loadvm {name}")
        self.wait()

    def pause(self) -> None:
        """Stop its CPUs, until it is spoken to again: an idle guest takes half of a real CPU."""
        if self._process and not self._paused:
            self._qmp("stop")
            self._paused = True

    def resume(self) -> None:
        """Let its CPUs go on, before it is spoken to other than by run()."""
        if self._paused:
            self._qmp("cont")
            self._paused = False

    def pcie_error(self, device: str, error: str) -> None:
        """Have a PCIe port report an error, by QEMU's name of it, from which the kernel recovers."""
        words = f"pcie_aer_inject_error {device} {error}"
        answer = self._qmp("human-monitor-command", {"command-line": words})
        if not answer.startswith("OK "):
            raise LabError(f"{self.profile.name}: {words}: {answer}")

    def _monitor(self, command: str) -> None:
        answer = self._qmp("human-monitor-command", {"command-line": command})
        if answer:
            raise LabError(f"{self.profile.name}: {command}: {answer}")

    def _qmp_answers(self) -> bool:
        try:
            return bool(self._qmp("query-status"))
        except (OSError, ValueError):
            return False

    def _qmp(self, command: str, arguments: dict[str, str] | None = None) -> Any:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(120)
            connection.connect(str(self.folder / "qmp"))
            stream = connection.makefile("rw")
            stream.readline()
            answer: dict[str, Any] = {}
            for request in (
                {"execute": "qmp_capabilities"},
                {"execute": command, "arguments": arguments or {}},
            ):
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                answer = json.loads(stream.readline())
                while "event" in answer:
                    answer = json.loads(stream.readline())
            if "return" not in answer:
                raise LabError(f"{self.profile.name}: {command}: {answer}")
            return answer["return"]

    # -- SSH -------------------------------------------------------------------------------

    @property
    def ssh_options(self) -> list[str]:
        """For ssh and for Ansible. One connection serves all commands, until the machine goes down. Times
        only end a hang: an emulated guest on a busy machine sends its banner after more than ten seconds."""
        options = {
            "ControlMaster": "auto",
            "ControlPath": f"{self.folder}/ssh",
            "ControlPersist": "600",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "IdentitiesOnly": "yes",
            "ConnectTimeout": "100",
            "ServerAliveInterval": "30",
            "BatchMode": "yes",
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        # Whatever the user's own configuration says is about other machines.
        return ["-F", "none", "-i", str(self.folder / "key"), *words]

    def ssh(self, *words: str) -> list[str]:
        return ["ssh", *self.ssh_options, "-p", str(self.port), *words]

    def run(
        self, command: str, check: bool = True, stdin: str | None = None, seconds: float = 300
    ) -> Finished:
        """A shell command in the guest, as root."""
        self.resume()
        words = self.ssh("root@127.0.0.1", command)
        source: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=seconds, check=False, **source
            )
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(words, 255, "", f"no end after {seconds} s")
        print(f"{self.profile.name}$ {command[:300]}\n{done.stdout[-4000:]}{done.stderr[-4000:]}", end="")
        if check and done.returncode != 0:
            raise AssertionError(f"{command[:300]}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def out(self, command: str) -> str:
        """What a command prints, without the last line end."""
        return self.run(command).stdout.rstrip("\n")

    def read(self, path: str) -> str:
        return self.out(f"cat {path}")

    def write(self, path: str, content: str) -> None:
        self.run(f"cat >{path}", stdin=content)

    def hang_up(self) -> None:
        if (self.folder / "ssh").is_socket():
            subprocess.run(self.ssh("-O", "exit", "root@127.0.0.1"), capture_output=True, check=False)
            (self.folder / "ssh").unlink(missing_ok=True)


@functools.cache
def _cable() -> tuple[socket.socket, socket.socket]:
    """Between two machines of these tests: one packet is one datagram. It stays when one of them is off."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


def _sweep() -> None:
    """Remove the disks of tests that were killed."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{PREFIX}[0-9]*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if not pathlib.Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _die_with_parent() -> None:
    """In the child, before QEMU: the kernel kills it when the tests die, however they do."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:
        os._exit(1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
