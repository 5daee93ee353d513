#!/usr/bin/env python3
# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for bootc, rpm-ostree and ostree below a folder: `deploy_tools.py FOLDER PROGRAM ARGUMENTS`.

They write and refuse as the real ones do, after their sources: loader_entries.rs of bootc, whose command
set-options-for-source stages a deployment; rpmostree-builtin-kargs.cxx, rpmostreed-transaction-types.cxx and
rpmostreed-sysroot.cxx of rpm-ostree; ot-admin-instutil-builtin-set-kargs.c, ostree-kernel-args.c and
ostree-sysroot-deploy.c of ostree. Files of FOLDER/moods change them: busy, failing, no-sources, version, idle
(says success and does nothing), nonsense (writes other words), greedy (takes root= away).
"""

from __future__ import annotations

import pathlib
import re
import struct
import sys

STAGED = "run/ostree/staged-deployment"
ENTRIES = "boot/loader/entries"
_SOURCE = "x-options-source-"


class RefusedError(Exception):
    """The words of a program that fails, and its exit status."""

    def __init__(self, words: str, status: int = 1) -> None:
        super().__init__(words)
        self.status = status


# -- GVariant (glib, gvariant-serialiser.c) ------------------------------------------------


def _array(parts: list[bytes]) -> bytes:
    ends, data = [], b""
    for part in parts:
        data += part
        ends.append(len(data))
    return data + _offsets(len(data), ends)


def _offsets(length: int, ends: list[int]) -> bytes:
    """The ends of parts, in the smallest numbers that hold the length of the whole."""
    for size, form in ((1, "<B"), (2, "<H"), (4, "<I")):
        if length + size * len(ends) < 1 << 8 * size:
            return b"".join(struct.pack(form, end) for end in ends)
    raise ValueError(length)


def _pair(key: str, value: bytes, pad: int) -> bytes:
    name = key.encode() + b"\0"
    data = name + b"\0" * (-len(name) % pad) + value
    return data + _offsets(len(data), [len(name)])


def packed(kargs: list[str] | None, extra: dict[str, str], locked: bool | None = None) -> bytes:
    """The record of a staged deployment, a{sv}: its words, and the lines of its entry that begin with x-."""
    values = {"target": b"deployment\0\0s"}
    if locked is not None:
        values["locked"] = bytes([locked]) + b"\0b"
    if kargs is not None:
        values["kargs"] = _array([word.encode() + b"\0" for word in kargs]) + b"\0as"
    if extra:
        pairs = [_pair(key, text.encode() + b"\0", 1) for key, text in extra.items()]
        values["bootconfig-extra"] = _array(pairs) + b"\0a{ss}"
    data, ends = b"", []
    for key, value in values.items():
        data += b"\0" * (-len(data) % 8) + _pair(key, value, 8)
        ends.append(len(data))
    return data + _offsets(len(data), ends)


# -- deployments ---------------------------------------------------------------------------


class Sysroot:
    """The deployments of a system: entries, of which the greatest version is the default, and a staged one,
    kept beside its record in plain lines."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self._plain = root / "moods/staged"

    def mood(self, name: str) -> bool:
        return (self.root / "moods" / name).exists()

    def entry(self) -> pathlib.Path:
        entries = sorted((self.root / ENTRIES).glob("ostree-*.conf"), key=lambda path: _version(path))
        if not entries:
            raise RefusedError("error: Not booted into an OSTree system")
        return entries[-1]

    def booted(self) -> pathlib.Path:
        """The entry of the running deployment: the parameter of /proc/cmdline names it."""
        running = (self.root / "proc/cmdline").read_text(encoding="utf-8").split()
        (name,) = filter(_is_deployment, running)
        for path in (self.root / ENTRIES).glob("ostree-*.conf"):
            if name in path.read_text(encoding="utf-8").split():
                return path
        raise RefusedError("error: Setting options for source: No BLS entry found for booted deployment")

    def read(self, base: pathlib.Path | None = None) -> tuple[list[str], dict[str, str]]:
        """Words and further lines of the staged deployment, else of that one or of the one booted next."""
        path = self._plain if self._plain.exists() else base or self.entry()
        pairs = [line.partition(" ")[::2] for line in path.read_text(encoding="utf-8").splitlines()]
        extra = {key: value for key, value in pairs if key.startswith("x-") and value}
        words = next((value.split() for key, value in pairs if key == "options"), [])
        return words, extra

    def stage(self, words: list[str], extra: dict[str, str]) -> None:
        (self.root / STAGED).parent.mkdir(parents=True, exist_ok=True)
        (self.root / STAGED).write_bytes(packed(words, extra))
        (self.root / f"{STAGED}-locked").unlink(missing_ok=True)
        self._plain.parent.mkdir(exist_ok=True)
        self._plain.write_text(_text(words, extra), encoding="utf-8")

    def write(self, words: list[str], extra: dict[str, str]) -> None:
        """Change the default deployment itself."""
        path = self.entry()
        kept = [line for line in path.read_text(encoding="utf-8").splitlines() if not _is_ours(line)]
        path.write_text("\n".join(kept) + "\n" + _text(words, extra), encoding="utf-8")

    def finalize(self) -> None:
        """As ostree-finalize-staged.service does at shutdown: the staged deployment becomes an entry."""
        if not self._plain.exists():
            return
        words, extra = self.read()
        old = self.entry()
        version = _version(old) + 1
        words = [f"ostree=/ostree/boot.1/x/{version}/0" if _is_deployment(word) else word for word in words]
        head = f"title Fedora\nversion {version}\nlinux /ostree/x/vmlinuz-6.12.0\n"
        new = old.with_name(f"ostree-{version}.conf")
        new.write_text(f"{head}{_text(words, extra)}", encoding="utf-8")
        self._plain.unlink()
        (self.root / STAGED).unlink()


def _version(path: pathlib.Path) -> int:
    match = re.search(r"^version (\d+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return int(match.group(1)) if match else 0


def _text(words: list[str], extra: dict[str, str]) -> str:
    return "".join([f"options {' '.join(words)}\n", *(f"{key} {value}\n" for key, value in extra.items())])


def _is_ours(line: str) -> bool:
    return line.startswith(("options ", "x-"))


def _is_deployment(word: str) -> bool:
    return word.startswith("ostree=")


# -- programs ------------------------------------------------------------------------------


def bootc(sysroot: Sysroot, words: list[str]) -> str:
    if words[:1] != ["loader-entries"] or sysroot.mood("no-sources"):
        raise RefusedError(f"error: unrecognized subcommand '{words[0]}'\n\nUsage: bootc <COMMAND>", 2)
    if words[1:] == ["set-options-for-source", "--help"]:
        return "Set or update the kernel arguments owned by a specific source\n"
    given = dict(zip(words[2::2], words[3::2]))
    source = given["--source"]
    if not re.fullmatch(r"[A-Za-z0-9_-]+", source):
        raise RefusedError(
            "error: Setting options for source: Source name must contain only alphanumeric ..."
        )
    if _ostree_version(sysroot) < (2026, 1):
        raise RefusedError("error: This feature requires ostree >= 2026.1 for bootconfig-extra support")
    now, extra = sysroot.read(sysroot.booted())
    key, new = f"{_SOURCE}{source}", given.get("--options", "").split()
    left = [word for word in now if word not in extra.get(key, "").split()]
    left += [word for word in new if word not in left]
    if left == now and extra.get(key, "").split() == new:
        return ""
    extra = {name: text for name, text in extra.items() if name != key}
    sysroot.stage(left, {**extra, key: " ".join(new)} if new else extra)
    return ""


def rpm_ostree(sysroot: Sysroot, words: list[str]) -> str:
    if words[:1] != ["kargs"]:
        raise RefusedError(f"error: Unknown command '{words[0]}'")
    now, extra = sysroot.read()
    options = [word[2:].split("=", 1) for word in words[1:]]
    if not options:
        return " ".join(now) + "\n"
    names = {name for name, _value in options}
    if {"delete", "replace"} <= names:
        raise RefusedError("error: Cannot specify both --delete and --replace")
    if sysroot.mood("busy"):
        words_of_daemon = " You can cancel the current transaction with `rpm-ostree cancel`"
        raise RefusedError(f"error: Transaction in progress: upgrade\n{words_of_daemon}")
    left, changed = [*now], False
    for name, value in sorted(options, key=lambda option: _ORDER.index(option[0])):
        if name == "delete" or (name == "delete-if-present" and value in now):
            _delete(left, value)
        elif name == "append" or (name == "append-if-missing" and value not in left):
            left.append(value)
        else:
            continue
        changed = True
    if not changed:
        return "No changes.\n"
    sysroot.stage(left, extra)
    return (
        'Staging deployment...done\nChanges queued for next boot. Run "systemctl reboot" to start a reboot\n'
    )


#: In which the daemon does them
_ORDER = ("delete", "append", "append-if-missing", "delete-if-present")


def _delete(words: list[str], argument: str) -> None:
    key, equals, _value = argument.partition("=")
    values = [word for word in words if word.partition("=")[0] == key]
    if not values:
        raise RefusedError(f"error: No key '{key}' found")
    if not equals and len(values) == 1:
        argument = values[0]
    if argument not in words:
        many = not equals
        raise RefusedError(
            f"error: Multiple values for key '{key}' found" if many else f"error: No karg '{argument}' found"
        )
    words.remove(argument)


def ostree(sysroot: Sysroot, words: list[str]) -> str:
    if words == ["--version"]:
        year, number = _ostree_version(sysroot)
        return f"libostree:\n Version: '{year}.{number}'\n Git: 0\n Features:\n  - libcurl\n"
    if words[:3] != ["admin", "instutil", "set-kargs"]:
        raise RefusedError(f"error: Unknown command '{words[0]}'")
    if (sysroot.root / STAGED).exists():
        raise RefusedError(
            "OSTree:ERROR: assertion failed: (!ostree_deployment_is_staged (deployment))",
            134,
        )
    _now, extra = sysroot.read()
    sysroot.write(words[3:], extra)
    return "Bootloader updated; bootconfig swap: yes; bootversion: boot.0.1, deployment count change: 0\n"


def _ostree_version(sysroot: Sysroot) -> tuple[int, int]:
    path = sysroot.root / "moods/version"
    year, number = (path.read_text(encoding="utf-8") if path.exists() else "2026.1").split(".")
    return int(year), int(number)


_PROGRAMS = {"bootc": bootc, "rpm-ostree": rpm_ostree, "ostree": ostree}


def run(root: str, command: list[str]) -> tuple[int, str, str]:
    """Exit status and the two outputs of a program."""
    sysroot = Sysroot(pathlib.Path(root))
    asks = command[1:] == ["--version"] or command[-1] == "--help"
    if sysroot.mood("failing") and not asks:
        return 1, "", "error: Installing kernel: No space left on device\n"
    if sysroot.mood("idle") and not asks:
        return 0, "done\n", ""
    if sysroot.mood("nonsense") and not asks:
        now, extra = sysroot.read()
        sysroot.write([*(word for word in now if "iommu" not in word), "iommu=nonsense"], extra)
        return 0, "", ""
    if sysroot.mood("greedy") and not asks:
        now, extra = sysroot.read()
        sysroot.stage([word for word in now if not word.startswith("root=")], extra)
    try:
        return 0, _PROGRAMS[command[0]](sysroot, command[1:]), ""
    except RefusedError as refused:
        return refused.status, "", f"{refused}\n"


if __name__ == "__main__":
    status, out, err = run(sys.argv[1], sys.argv[2:])
    sys.stdout.write(out)
    sys.stderr.write(err)
    sys.exit(status)
