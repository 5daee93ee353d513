# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that others may add to a unit of the agent without stopping its work.

A list of harmless options, as a list of harmful ones never ends: every release of systemd adds some. An
unlisted option is reported and not judged. Each entry is here because its manual page says that it changes
neither the unit's start nor its programs' view of the machine.
"""

from __future__ import annotations

from typing import Callable, Iterator, Mapping

from ..linux import kernel_line, systemd_time
from ..linux.systemd_conf import NO, YES, Line
from ..linux.systemd_unit import Unit
from ..model.record import regex

#: True for a value that does no harm to the installed unit
Rule = Callable[[str, Unit], bool]


#: Seconds, systemd-system.conf(5), DefaultTimeoutStartSec=
_DEFAULT_TIMEOUT = 90.0


def _any(_value: str, _installed: Unit) -> bool:
    return True


def _one_of(*words: str) -> Rule:
    return lambda value, _installed: value.lower() in words


def _at_least(least: int) -> Rule:
    """A limit of at least this size; both of a pair (SOFT:HARD)."""
    return lambda value, _installed: all(
        limit == "infinity" or (limit.isascii() and limit.isdigit() and int(limit) >= least)
        for limit in value.split(":")
    )


def _no_sooner(value: str, installed: Unit) -> bool:
    """True for a timeout of at least the installed one and the usual 90 seconds."""
    given = systemd_time.seconds(value)
    lines = [
        *installed.counting("[Service]", "TimeoutStartSec"),
        *installed.counting("[Service]", "TimeoutSec"),
    ]
    wanted = [systemd_time.seconds(line.value) for line in lines] or [_DEFAULT_TIMEOUT]
    # 0 switches the limit off (systemd.service(5), TimeoutStartSec=).
    return given == 0 or (
        given is not None and all(timeout is not None and given >= timeout for timeout in wanted)
    )


def _up_to(most: int) -> Rule:
    def rule(value: str, _installed: Unit) -> bool:
        given = systemd_time.seconds(value)
        return given is not None and given <= most

    return rule


#: Variables that Python, started with -I, and its C library use only for texts, the time zone and web
#: proxies. The agent gives its own programs a separate environment.
_VARIABLE = regex(
    r"(?:LANG|LANGUAGE|LC_[A-Z]+|TZ|NO_COLOR|(?:https?|no)_proxy|(?:HTTPS?|NO)_PROXY"
    r"|(?:NCCL|UCX|FI|OMPI|CUDA|NVIDIA|ROCR|HIP)_[A-Z0-9_]+)=",
    0,
)


def environment(value: str, _installed: Unit | None = None) -> bool:
    """True if no variable in a value of Environment= affects the agent."""
    words = kernel_line.split(value)  # quotes are the same there; escapes are not read here
    return "\\" not in value and all(_VARIABLE.match(word) for word in words)


#: Calendar events at least once a day, in the supported forms (systemd.time(7))
_DAILY = regex(r"(?:minutely|hourly|daily|(?:\*-\*-\* )?\*:[0-5]?[0-9](?:/[1-9][0-9]*)?(?::0?0)?)", 0)


def _recurs(value: str, _installed: Unit) -> bool:
    return _DAILY.fullmatch(value) is not None


_OFF = _one_of(*NO)
_BOOLEAN = _one_of(*NO, *YES)
_NULL = _one_of("null")
_NO_LIMIT = _one_of("infinity")
_OUTPUT = _one_of("inherit", "null", "journal", "journal+console", "kmsg", "kmsg+console")

#: systemd.unit(5)
_UNIT: Mapping[str, Rule] = {
    # Words for people
    **dict.fromkeys(("Description", "Documentation", "SourcePath"), _any),
    # An order neither starts nor stops anything; boot_service.py looks for cycles. Wanted and upheld units
    # may fail. The others start after this unit has failed or is done.
    **dict.fromkeys(("After", "Before", "Wants", "Upholds", "OnFailure", "OnSuccess"), _any),
    # Stopping the unit, and forgetting it afterwards
    **dict.fromkeys(("RefuseManualStop", "IgnoreOnIsolate", "CollectMode"), _any),
}

#: systemd.service(5), systemd.exec(5), systemd.kill(5), systemd.resource-control(5)
_SERVICE: Mapping[str, Rule] = {
    # Its share of the machine; systemd ignores a number out of range
    **dict.fromkeys(("Nice", "OOMScoreAdjust", "IOSchedulingPriority"), _any),
    **dict.fromkeys(("CPUWeight", "StartupCPUWeight", "CPUShares", "StartupCPUShares"), _any),
    **dict.fromkeys(("IOWeight", "StartupIOWeight", "BlockIOWeight", "StartupBlockIOWeight"), _any),
    **dict.fromkeys(("MemoryMin", "MemoryLow"), _any),
    **dict.fromkeys(("CPUAccounting", "IOAccounting", "BlockIOAccounting", "MemoryAccounting"), _BOOLEAN),
    **dict.fromkeys(("TasksAccounting", "IPAccounting"), _BOOLEAN),
    "CPUSchedulingPolicy": _one_of("other", "batch"),
    "IOSchedulingClass": _one_of("2", "best-effort"),
    # Limits: without any, or no narrower than the kernel's own (include/asm-generic/resource.h). The agent
    # locks no memory, and writes no core dump.
    **dict.fromkeys(("LimitCORE", "LimitMEMLOCK"), _any),
    "LimitNOFILE": _at_least(1024),
    **dict.fromkeys(("LimitCPU", "LimitFSIZE", "LimitDATA", "LimitSTACK"), _NO_LIMIT),
    **dict.fromkeys(("LimitRSS", "LimitNPROC", "LimitAS"), _NO_LIMIT),
    # The target of its output
    **dict.fromkeys(("SyslogIdentifier", "SyslogFacility", "SyslogLevel", "SyslogLevelPrefix"), _any),
    **dict.fromkeys(("LogLevelMax", "LogRateLimitIntervalSec", "LogRateLimitBurst"), _any),
    "StandardInput": _NULL,
    **dict.fromkeys(("StandardOutput", "StandardError"), _OUTPUT),
    # How it is stopped, which happens after its end or its timeout only
    **dict.fromkeys(("TimeoutStopSec", "TimeoutAbortSec", "KillMode", "KillSignal", "SendSIGKILL"), _any),
    **dict.fromkeys(("SendSIGHUP", "FinalKillSignal", "RestartKillSignal", "WatchdogSignal"), _any),
    **dict.fromkeys(("TimeoutStartFailureMode", "TimeoutStopFailureMode"), _any),
    "TimeoutStartSec": _no_sooner,
    "TimeoutSec": _no_sooner,
    # Retries after a failed start; some systemd versions take only this word for Type=oneshot
    "RestartSec": _any,
    "Restart": _one_of("no"),
    "Environment": environment,
    # Options that remove an access, with the word that removes nothing: an LXC container has such a drop-in
    # for all services
    **dict.fromkeys(("DynamicUser", "PrivateDevices", "PrivateIPC", "PrivateMounts", "PrivateNetwork"), _OFF),
    **dict.fromkeys(("PrivatePIDs", "PrivateTmp", "PrivateUsers", "ProtectControlGroups"), _OFF),
    **dict.fromkeys(("ProtectClock", "ProtectHome", "ProtectHostname", "ProtectKernelLogs"), _OFF),
    "ProtectKernelModules": _OFF,
    **dict.fromkeys(("ProtectKernelTunables", "ProtectSystem", "LockPersonality", "NoNewPrivileges"), _OFF),
    **dict.fromkeys(("MemoryDenyWriteExecute", "RestrictNamespaces", "RestrictRealtime"), _OFF),
    "RestrictSUIDSGID": _OFF,
    "ProtectProc": _one_of("default"),
    "ProcSubset": _one_of("all"),
    "KeyringMode": _one_of("private", "inherit"),
}  # fmt: skip

#: systemd.timer(5). For more events, or another period, see docs/knobs/metrics.md. The alerts rely on the
#: installed accuracy.
_TIMER: Mapping[str, Rule] = {
    "OnCalendar": _recurs,
    **dict.fromkeys(("OnActiveSec", "OnBootSec", "OnStartupSec"), _any),
    **dict.fromkeys(("OnUnitActiveSec", "OnUnitInactiveSec"), _up_to(86400)),
    **dict.fromkeys(("Persistent", "FixedRandomDelay"), _BOOLEAN),
    "WakeSystem": _OFF,
    "RandomizedDelaySec": _up_to(900),
    "AccuracySec": _up_to(60),
}

SECTIONS = {"[Unit]": _UNIT, "[Service]": _SERVICE, "[Timer]": _TIMER}


def is_listed(section: str, key: str) -> bool:
    """True for an option with some harmless values."""
    return is_ignored(section, key) or key in SECTIONS.get(section, {})


def allows(section: str, key: str, value: str, installed: Unit) -> bool:
    """True for a line that does no harm to the installed unit."""
    if is_ignored(section, key):
        return True
    rule = SECTIONS.get(section, {}).get(key)
    return rule is not None and rule(value, installed)


def is_ignored(section: str, key: str) -> bool:
    """True for lines that systemd ignores when it loads a unit: [Install], which is for systemctl enable, and
    names that begin with X- (systemd.unit(5))."""
    return section == "[Install]" or section.startswith("[X-") or key.startswith("X-")


# -- a unit compared with the installed one --------------------------------------------------

#: Commands of a service, in their order
_COMMANDS = (
    *("ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost", "ExecReload"),
    *("ExecStop", "ExecStopPost"),
)

#: Every one of these has to hold, whatever its name (systemd.unit(5), Conditions and Asserts)
_CONDITIONS = ("Condition", "Assert")


def differences(unit: Unit, installed: Unit) -> Iterator[tuple[Line, bool]]:
    """Lines that may make a unit work differently from the installed one; a missing line has no file. True:
    the line changes the installed unit; False: it adds to it."""
    for section, key in dict.fromkeys((line.section, line.key) for line in (*installed.lines, *unit.lines)):
        if not _is_condition(section, key) and not is_ignored(section, key):
            yield from _different(section, key, unit, installed)
    for begin in _CONDITIONS:
        known = [line.text for line in installed.conditions(begin)]
        yield from ((line, True) for line in unit.conditions(begin) if line.text not in known)


def _is_condition(section: str, key: str) -> bool:
    return section == "[Unit]" and key.startswith(_CONDITIONS)


def _different(section: str, key: str, unit: Unit, installed: Unit) -> list[tuple[Line, bool]]:
    present, wanted = unit.counting(section, key), installed.counting(section, key)
    is_command = section == "[Service]" and key in _COMMANDS
    values, wanted_values = ([_meaning(line.value) for line in lines] for lines in (present, wanted))
    if values == wanted_values or (not is_command and [*dict.fromkeys(values)] == wanted_values):
        return []
    last = [line for line in [unit.last(section, [key])] if line] or wanted[:1]
    new = [line for line, value in zip(present, values) if value not in wanted_values]
    if is_listed(section, key):
        bad = [line for line in new if not allows(section, key, line.value, installed)]
        # A timer without any event never fires.
        bad = last if not present and key == "OnCalendar" else bad
        return [(line, bool(wanted)) for line in bad]
    if wanted or is_command:
        return [(line, True) for line in last]
    return [(line, False) for line in new]


def _meaning(value: str) -> str:
    """The value with one spelling for all words that mean yes."""
    return "yes" if value.lower() in YES else value


# -- the kernel command line ------------------------------------------------------------------

#: Parameters of the kernel command line for systemd, kernel-command-line(7) and systemd(1), that change
#: neither the started units nor their view of the machine
_PARAMETERS = (
    *("systemd.unit", "systemd.mask"),  # judged separately
    *("systemd.wants", "systemd.show_status", "systemd.status_unit_format", "systemd.debug_shell"),
    *("systemd.default_debug_tty", "systemd.dump_core", "systemd.crash_chvt", "systemd.crash_shell"),
    *("systemd.crash_reboot", "systemd.crash_action", "systemd.hostname", "systemd.machine_id"),
    *("systemd.clock_usec", "systemd.random_seed", "systemd.unified_cgroup_hierarchy"),
    *("systemd.legacy_systemd_cgroup_controller", "systemd.watchdog_sec", "systemd.watchdog_pre_sec"),
    *("systemd.watchdog_device", "systemd.watchdog_pretimeout_governor", "systemd.service_watchdogs"),
    *("systemd.default_timeout_start_sec", "systemd.default_device_timeout_sec", "systemd.getty_auto"),
    *(
        "systemd.gpt_auto",
        "systemd.swap",
        "systemd.zram",
        "systemd.firstboot",
        "systemd.condition_first_boot",
    ),
    *("systemd.import_credentials", "systemd.early_core_pattern", "systemd.ssh_auto"),
)
_PARAMETER_BEGINS = ("systemd.log_", "systemd.journald.")


def allows_parameter(key: str, value: str) -> bool:
    """True for a parameter that is harmless or not for systemd."""
    if key == "systemd.setenv":
        return environment(value)
    return not key.startswith("systemd.") or key in _PARAMETERS or key.startswith(_PARAMETER_BEGINS)
