# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words for systemd on the kernel command line: systemd(1), kernel-command-line(7) and its sources
(src/basic/proc-cmdline.c, src/core/main.c)."""

from __future__ import annotations

from ..host.host import Host
from ..model.record import NamedTuple

_RUNNING = "/proc/cmdline"
RUNNING = "the kernel command line"

#: Words that choose a target (src/basic/runlevel.c; src/core/main.c: parse_proc_cmdline_item)
_TARGETS = {
    **dict.fromkeys(("emergency", "-b"), "emergency.target"),
    **dict.fromkeys(("rescue", "single", "-s", "s", "S", "1"), "rescue.target"),
    **dict.fromkeys(("2", "3", "4"), "multi-user.target"),
    "5": "graphical.target",
}


class Word(NamedTuple):
    """A parameter. key: with _ for -, as both mean the same there. text: unchanged."""

    key: str
    value: str
    text: str


class KernelLine(NamedTuple):
    """where: the source of the line."""

    where: str
    words: tuple[Word, ...]

    @property
    def target(self) -> Word | None:
        """The last word that chooses a target, with the target's name as its value."""
        for word in reversed(self.words):
            if word.key == "systemd.unit" and word.value:
                return word
            if word.text in _TARGETS:
                return word._replace(value=_TARGETS[word.text])
        return None

    @property
    def masked(self) -> tuple[str, ...]:
        """Units that systemd.mask= prevents from starting (systemd-debug-generator(8))."""
        names = [word.value for word in self.words if word.key == "systemd.mask"]
        return tuple(name if "." in name else f"{name}.service" for name in names)

    def masking(self, unit: str) -> str:
        """The word that masks a unit; empty if there is none."""
        masks = [word for word in self.words if word.key == "systemd.mask"]
        return next((word.text for word, name in zip(masks, self.masked) if name == unit), "")


def running(host: Host) -> KernelLine | None:
    """The line of the running system; None if it is unknown. Raises HostError."""
    # A container shows its host's line, which its systemd ignores (src/basic/proc-cmdline.c).
    if not host.systemd_runs() or host.exists("/run/systemd/container"):
        return None
    return parse(host.text(_RUNNING), RUNNING)


def parse(text: str, where: str) -> KernelLine:
    words = []
    for raw in split(text):
        key, _equals, value = raw.partition("=")
        # Words with this prefix are for systemd in the initramfs alone.
        if not key.startswith("rd."):
            words.append(Word(key.replace("-", "_") if "." in key else key, value, raw))
    return KernelLine(where, tuple(words))


def split(text: str) -> list[str]:
    """The words, without quotes (src/basic/extract-word.c: EXTRACT_UNQUOTE | EXTRACT_RELAX)."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    for sign in text:
        if quote and sign == quote:
            quote = ""
        elif not quote and sign in "\"'":
            quote, word = sign, word or ""
        elif not quote and sign.isspace():
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + sign
    return words if word is None else [*words, word]
