# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parameters that the kernel does not know and values that it rejects: it still boots, but the word has no
effect.
"""

from __future__ import annotations

from typing import Sequence

from ...host.host import Host
from ...linux import kernel_log, kernel_params, modules_load, sysctl_d, sysctl_keys
from ...loader import cmdline
from ...model.errors import HostError

#: Words with a value that the kernel does not know become the environment of init (init/main.c:
#: unknown_bootoption). Only root can read it, and kernels before 5.14 do not log such words.
_ENVIRONMENT = "/proc/1/environ"
#: A sysctl that the kernel itself sets before init starts, since 5.8 (fs/proc/proc_sysctl.c: do_sysctl_args)
_SYSCTL = "sysctl."
#: The CPUs that isolcpus= has taken out (drivers/base/cpu.c: print_cpus_isolated)
_ISOLATED = "/sys/devices/system/cpu/isolated"


def mistake(name: str, words: Sequence[str], running: Sequence[str], host: Host | None) -> str:
    """Reason why no kernel takes these words; empty if one may. running: words of this name on the running
    kernel's command line. host: None for an image, whose kernels do not run.
    """
    key = cmdline.key_of(name)
    if not words:  # A word to remove may be any mistake
        return ""
    for word in words:
        _name, equals, value = word.partition("=")
        refused = kernel_params.refused_value(key, value) if equals else ""
        if refused:
            return refused
    if key.startswith(_SYSCTL):
        path = sysctl_d.slashed(name[len(_SYSCTL) :])
        meant = sysctl_d.dotted(sysctl_keys.meant(path))
        return f"no kernel has this sysctl; did you mean {_SYSCTL}{meant}?" if meant else ""
    meant = kernel_params.meant(key) or _of_module(key, host)
    if not meant or (host is not None and _is_taken(key, running, host)):
        return ""
    return f"no kernel has this parameter; did you mean {meant}?"


def _of_module(key: str, host: Host | None) -> str:
    """The module parameter of the running kernel that was probably meant; empty if no such module exists."""
    module, dot, parameter = key.partition(".")
    if not dot or host is None or kernel_params.is_known(key):
        return ""
    try:
        name = modules_load.meant(host, module, parameter)
    except HostError:  # unseen parameters are not taken for mistakes
        return ""
    return f"{module}.{name}" if name else ""


def _is_taken(key: str, running: Sequence[str], host: Host) -> bool:
    """True if the kernel that runs has the parameter: one of a module, or a word that it did not report."""
    module, dot, parameter = key.partition(".")
    if dot:
        return host.exists(f"{modules_load.LOADED}/{module}/parameters/{parameter}")
    log = kernel_log.lines(host)
    # Without the beginning of the log, silence means nothing.
    begun = any(line.startswith("Linux version ") for line in log)
    return bool(running) and begun and not ignored(key, running, host)


def _without_effect(key: str, words: Sequence[str], host: Host) -> str:
    """The kernel's file that shows no effect of the words; empty if none is known.

    Most values are set again later in the boot, so their files prove nothing.
    """
    if key != "isolcpus" or not any(_takes_out(word) for word in words):
        return ""
    return f"{_ISOLATED} is empty" if host.value(_ISOLATED).text == "" else ""


def _takes_out(word: str) -> bool:
    """True for an isolcpus= that takes CPUs out of the scheduler's domains, as it does without a flag."""
    flags = [flag for flag in word.partition("=")[2].split(",") if flag and not flag[0].isdigit()]
    return not flags or "domain" in flags


def ignored(name: str, words: Sequence[str], host: Host) -> str:
    """Reason why the running kernel did not take these words; empty if it took them or does not report it."""
    key = cmdline.key_of(name)
    line = kernel_params.ignored(key, words, kernel_log.lines(host)) or _without_effect(key, words, host)
    if line:
        return f"the kernel did not take it: {line}"
    if kernel_params.is_known(key) or kernel_params.is_for_users(key):
        return ""
    given = {entry for entry in (host.value(_ENVIRONMENT).text or "").split("\0") if "=" in entry}
    handed_on = next((word for word in words if word in given), "")
    if not handed_on:
        return ""
    return f"the kernel did not take it, and passed {handed_on} to user space ({_ENVIRONMENT})"
