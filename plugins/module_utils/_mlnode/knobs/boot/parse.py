# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declarations of the kind boot: parameters by name, parameters to remove, CPUs to isolate."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ...loader import cmdline
from ...model import cpulist
from ...model.errors import DeclarationError
from ...model.record import regex
from ...model.schema import Checked
from ...model.setting import Setting
from ...model.strict_json import shown
from . import isolation, passthrough
from .schema import ISOLATED_FROM

KIND = "boot"

_NAME = regex(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z", re.ASCII)
# Characters without a special meaning to the kernel's parser, to a shell or to GRUB's language within quotes
_VALUE = regex(r"[A-Za-z0-9_.,:;=/@+%!~^-]*\Z", re.ASCII)
#: COMMAND_LINE_SIZE is 2048 on x86 and arm64 (arch/*/include/uapi/asm/setup.h), the final NUL included; the
#: kernel drops the rest silently
LONGEST = 2047

_BY_LOADER = "the boot loader and initramfs need it: a wrong one leaves the machine unbootable"
_PAIRS = (
    "the order between hugepagesz= and hugepages= counts, and parameters are merged one by one: declare "
    "default_hugepagesz here, and with sysctl_ml vm.nr_hugepages: {for_bytes: N}, which the agent counts in "
    "the pages of each boot"
)
#: Key → why it cannot be declared
_NEVER = {
    **dict.fromkeys(
        ("root", "rootflags", "rootfstype", "ro", "rw", "init", "rdinit", "initrd", "BOOT_IMAGE"), _BY_LOADER
    ),
    "hugepagesz": _PAIRS,
    "hugepages": _PAIRS,
    cmdline.ABSENT: "is how a missing parameter is shown",
}
#: The last one becomes /dev/console, so a single word would take the others away unseen (serial-console.rst)
_LISTED = ("console",)

#: Placeholder for CPUs that only the machine itself knows
_ALL_BUT = "all CPUs but "


def parse(given: Checked) -> list[Setting]:
    """All settings of one declaration, isolation first. Raises DeclarationError."""
    settings = _isolated(given["isolate"]) if "isolate" in given else []
    for name, value in given.get("parameters", {}).items():
        if name == passthrough.PARAMETER and value == passthrough.AUTO:
            key = f"{KIND}.{passthrough.PARAMETER}"
            settings.append(Setting(KIND, key, cmdline.COMMAND_LINE, None, passthrough.AUTO))
        else:
            settings.append(_setting(_name(name), _words(_name(name), value)))
    settings += [_setting(_name(name), ()) for name in given.get("absent", ())]
    _refuse_doubles(settings)
    _refuse_beside_automatic(settings)
    _refuse_length(settings)
    return settings


def all_but(setting: Setting) -> tuple[int, ...] | None:
    """The CPUs that are left out of an automatic list; None for a setting without one."""
    if not setting.claim.startswith(_ALL_BUT):
        return None
    return cpulist.parse(setting.claim[len(_ALL_BUT) :])


def is_automatic(setting: Setting) -> bool:
    """True for a parameter whose words and name depend on the machine."""
    return setting.want is None and setting.claim == passthrough.AUTO


def name_of(setting: Setting) -> str:
    """The parameter, spelled as it was declared."""
    words = cmdline.wanted(setting.want or cmdline.ABSENT)
    return words[0].partition("=")[0] if words else setting.key[len(KIND) + 1 :]


def _setting(name: str, words: Sequence[str]) -> Setting:
    text = cmdline.shown(words)
    return Setting(KIND, f"{KIND}.{cmdline.key_of(name)}", cmdline.COMMAND_LINE, text, text)


# -- isolation -----------------------------------------------------------------------------


def _isolated(given: Mapping[str, Any]) -> list[Setting]:
    on = {name: given.get(name, True) for name in ISOLATED_FROM}
    cpus = given["cpus"]
    flags = [name for name in ("managed_irq", "domain") if on[name]]
    settings = [_setting("isolcpus", [f"isolcpus={','.join([*flags, cpus])}"])] if flags else []
    settings += [_setting(name, [f"{name}={cpus}"]) for name in ("nohz_full", "rcu_nocbs") if on[name]]
    if on["irqaffinity"]:
        claim = f"{_ALL_BUT}{cpus}"
        settings.append(Setting(KIND, f"{KIND}.irqaffinity", cmdline.COMMAND_LINE, None, claim))
    if not settings:
        raise DeclarationError(f"boot.isolate: all of {', '.join(on)} are off, so nothing is declared")
    return settings


# -- parameters ----------------------------------------------------------------------------


def _name(name: str) -> str:
    if not _NAME.match(name) or len(name) > LONGEST:
        raise DeclarationError(
            f"boot: {shown(name)} is not a parameter's name, which has only letters, digits, _ . and -"
        )
    reason = _NEVER.get(cmdline.key_of(name))
    if reason:
        raise DeclarationError(f"boot.{name} cannot be declared: {reason}")
    return name


def _words(name: str, value: Any) -> list[str]:
    if name in _LISTED and not isinstance(value, list):
        raise DeclarationError(
            f"boot.{name}: give all of them as a list, in their order, as the others are taken away"
        )
    values = value if isinstance(value, list) else [value]
    if not values:
        raise DeclarationError(
            f"boot.{name}: an empty list says nothing; name it under absent to take it away"
        )
    words = [_word(name, raw_word) for raw_word in values]
    key = cmdline.key_of(name)
    if key in isolation.PARAMETERS:
        for word in words:
            _check_cpus(name, key, word)
    return words


def _word(name: str, value: Any) -> str:
    if isinstance(value, bool):
        raise DeclarationError(
            f"boot.{name}: YAML boolean {str(value).lower()}; quote the word the kernel wants, such as "
            '"on" or "off"; "" is the bare parameter'
        )
    text = str(value) if isinstance(value, (int, str)) else None
    if text is None or not _VALUE.match(text):
        raise DeclarationError(
            f"boot.{name}: {shown(value)} is invalid: only letters, digits and _.,:;=/@+%!~^- are allowed"
        )
    return f"{name}={text}" if text else name


def _check_cpus(name: str, key: str, word: str) -> None:
    """Check the words that the guards have to understand."""
    _name, equals, value = word.partition("=")
    if key == "rcu_nocbs" and not equals:  # since Linux 5.18 the bare word lets CPUs be added later
        return
    try:
        isolation.named(key, value)
    except ValueError as error:
        raise DeclarationError(f"boot.{name}: {shown(value)}: {error}; write CPUs as 2-31,34-63") from error


def _refuse_doubles(settings: Sequence[Setting]) -> None:
    seen: set[str] = set()
    for setting in settings:
        if setting.key in seen:
            raise DeclarationError(
                f"{setting.key} is declared twice (isolate, parameters, absent; - and _ are one): keep one"
            )
        seen.add(setting.key)


def _refuse_beside_automatic(settings: Sequence[Setting]) -> None:
    """Refuse a parameter that is also the second name of an automatic one."""
    keys = {setting.key for setting in settings}
    for setting in filter(is_automatic, settings):
        parameter = setting.key[len(KIND) + 1 :]
        for name in passthrough.names(parameter):
            if name != parameter and f"{KIND}.{name}" in keys:
                raise DeclarationError(
                    f"boot.{parameter}: {setting.claim} is boot.{name} on some machines, which is declared, "
                    "too: keep one of the two"
                )


def _refuse_length(settings: Sequence[Setting]) -> None:
    length = sum(len(setting.want or "") + 1 for setting in settings)
    if length > LONGEST:
        raise DeclarationError(
            f"boot: {length} characters of parameters; the kernel reads {LONGEST} of its whole command line"
        )
