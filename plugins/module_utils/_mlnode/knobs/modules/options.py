# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parameters of kernel modules, which a module takes when it is loaded (modprobe.d(5)).

A loaded module keeps its parameters, and another value waits for a reboot: to reload a driver would take a
job's device away.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, Sequence

from ...drivers.gpu import modules as gpu_modules
from ...host.host import Host
from ...linux import initramfs, last_boot, modules_load
from ...linux.modules_load import Config, Given
from ...model import values
from ...model.errors import DeclarationError, HostError
from ...model.record import regex
from ...model.setting import Boot, Reading, Setting, Value
from .. import own_file

DROP_IN = "/etc/modprobe.d/zz-mlnode-"

#: As kstrtobool() in lib/kstrtox.c reads them, and as the kernel prints them
_BOOLEANS = {**dict.fromkeys(("y", "1", "on", "t"), "Y"), **dict.fromkeys(("n", "0", "off", "f"), "N")}

#: lib/kstrtox.c: _parse_integer_fixup_radix(), after the sign. No number of the kernel has more digits.
_INTEGER = regex(r"([+-]?)(?:0[xX]([0-9a-fA-F]{1,40})|(0[0-7]{0,40})|([1-9][0-9]{0,40}))\Z", re.ASCII)

_NOT_GIVEN = "the default of the module"
_NO_MODULE = "{0} is not loaded, and this kernel has no such module to load"


def parse(kind: str, given: Mapping[str, Mapping[str, Any]]) -> list[Setting]:
    """One setting for each parameter. Raises DeclarationError."""
    settings: dict[str, Setting] = {}
    for module, parameters in given.items():
        for name, text in parameters.items():
            names = modules_load.underscored(module), modules_load.underscored(name)
            key = f"module.{'.'.join(names)}"
            if key in settings:
                raise DeclarationError(f"{key} is declared twice (- and _ are one): keep one")
            settings[key] = Setting(kind, key, _path(*names), text, text)
    return [*settings.values()]


def split(key: str) -> tuple[str, str]:
    """Module and parameter of a key; the parameter is empty for a module itself. No name has a dot."""
    module, _dot, parameter = key.partition(".")[2].partition(".")
    return module, parameter


def words_of(settings: Iterable[Setting]) -> dict[str, list[str]]:
    """Module → `PARAMETER=VALUE` of each of these settings."""
    arguments: dict[str, list[str]] = {}
    for setting in settings:
        module, parameter = split(setting.key)
        if parameter:
            arguments.setdefault(module, []).append(f"{parameter}={setting.want}")
    return arguments


def file(name: str, settings: Iterable[Setting]) -> tuple[str, bytes | None]:
    """Path and content of a declaration's drop-in; no content without a parameter."""
    arguments = words_of(settings)
    lines = [f"options {module} {' '.join(given)}" for module, given in arguments.items()]
    return f"{DROP_IN}{name}.conf", own_file.content(name, lines, explains="module.NAME.PARAMETER")


# -- present and next value ----------------------------------------------------------------


def read(setting: Setting, config: Config, host: Host, release: str, blocked: str) -> Reading:
    """Reading of one parameter of the running kernel. blocked: who else has to set it. Raises HostError."""
    want = setting.want or ""
    module, parameter = split(setting.key)
    lines = given(config, host, module, parameter)
    built_in = modules_load.is_built_in(host, release, module)
    if not built_in and not host.exists(f"{modules_load.LOADED}/{module}"):
        loadable = modules_load.is_loadable(host, release, module)
        return _not_loaded(setting, lines, config, blocked or ("" if loadable else _NO_MODULE.format(module)))
    path, now = _shown(host, module, parameter)
    if now.text is not None:
        now = Value(text=_spelled(now.text, want))
    boot = boot_of(lines, config, want)
    if not built_in and boot.value.text == want and boot.source.startswith(DROP_IN):
        boot = _in_force(boot, now, host, release, module)
    if built_in and not any(line.where == modules_load.COMMAND_LINE for line in lines[-1:]):
        source = f"{module} is built in, and takes {module}.{parameter}= from the kernel command line, which"
        boot = Boot(now, source, foreign=True)
    if blocked:
        boot = Boot(now, "the container's host")
    reading = Reading(path, now, boot, want, blocked=blocked, native=not blocked, at_boot=True)
    return reading._replace(note=_losing(lines))


def _in_force(boot: Boot, now: Value, host: Host, release: str, module: str) -> Boot:
    """The boot layer of a line of ours, whose file an initramfs may have copied before."""
    file = boot.source.rpartition(":")[0]
    try:
        if now.text == boot.value.text and last_boot.is_older(host, [file]):
            return boot  # the last boot has proved it
        stale = initramfs.older_copy(host, release, module, file)
    except HostError as error:
        return Boot(Value(unreadable=str(error)), file)
    return Boot(Value(absent=stale), file, foreign=True) if stale else boot


def _not_loaded(setting: Setting, lines: Sequence[Given], config: Config, never: str) -> Reading:
    """Reading of a module that is not loaded: the next load counts. never: why it will not be."""
    want = setting.want or ""
    text = lines[-1].value if lines else _NOT_GIVEN
    now = Value(absent=never) if never else Value(text=_spelled(text, want))
    boot = Boot(now) if never else boot_of(lines, config, want)
    note = f"{split(setting.key)[0]} is not loaded, and takes it when it is"
    return Reading(setting.path, now, boot, want, native=not never, note=note)


def given(config: Config, host: Host, module: str, parameter: str) -> list[Given]:
    """Every value that the parameter would be given, in order of precedence. Raises HostError."""
    return [*config.given(module, parameter), *modules_load.given_on_command_line(host, module, parameter)]


def boot_of(given: Sequence[Given], config: Config, want: str) -> Boot:
    """The value that the next load of the module gives the parameter."""
    if config.unreadable:
        return Boot(Value(unreadable="; ".join(config.unreadable)))
    if not given:
        return Boot(Value(absent="no options line of modprobe.d gives it"))
    value, where = given[-1]
    return Boot(Value(text=_spelled(value, want)), where, foreign=_counts_later(where))


def _counts_later(where: str) -> bool:
    """True for a line after mlnode's drop-ins. Files count by name, whatever their folder."""
    folder, _slash, file = where.rpartition("/")
    return not where.startswith(DROP_IN) and (not folder or file > DROP_IN.rpartition("/")[2])


def _losing(given: Sequence[Given]) -> str:
    """Lines with another value that precede the one in force."""
    last = given[-1:]
    lines = [
        line for line in given[:-1] if line.where.startswith("/") and not _alike(line.value, last[0].value)
    ]
    return "; ".join(f"{line.where} gives {line.value}, and a later line counts" for line in lines)


def _path(module: str, parameter: str) -> str:
    for driver in gpu_modules.ALL:
        path, prefix = driver.PARAMETERS
        if path and module == driver.MODULE and parameter.startswith(prefix):
            return path
    return f"{modules_load.LOADED}/{module}/parameters/{parameter}"


def _shown(host: Host, module: str, parameter: str) -> tuple[str, Value]:
    """The file in which a loaded module shows a parameter, and its value."""
    path = _path(module, parameter)
    now = host.value(path)
    if now.absent is not None:
        meant = modules_load.meant(host, module, parameter)
        hint = f"; did you mean {meant}?" if meant else ""
        reason = f"{module} has no such parameter, or does not show it{hint}"
        return path, Value(absent=f"{path} does not exist: {reason}")
    if path.startswith(f"{modules_load.LOADED}/") or now.text is None:
        return path, now
    name = parameter.partition("_")[2]
    for line in now.text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key == name:
            return path, Value(text=value.strip().strip('"'))
    return path, Value(absent=f"{path} has no {name}: this version of the driver does not know {parameter}")


def _spelled(text: str, want: str) -> str:
    """A value in the spelling that is compared with the wanted one."""
    if _alike(text, want):
        return want
    # values.same() takes 660 and 0660 for the same number.
    return f"{_number(text)} in decimal" if values.same(text, want) else text


def _alike(value: str, other_value: str) -> bool:
    """True if a module reads both as the same value: numbers in any base, and booleans, which the kernel
    prints as Y or N.
    """
    numbers = _number(value), _number(other_value)
    if None not in numbers:  # First, as 0660 and 660 differ
        return numbers[0] == numbers[1]
    if values.same(value, other_value):
        return True
    if {value, other_value} & {"Y", "N"}:
        known = [_BOOLEANS.get(text.lower(), text) for text in (value, other_value)]
        return known[0] == known[1]
    return False


def _number(text: str) -> int | None:
    """Value of a number as kstrtoint() with base 0 reads it, which takes 0660 for octal; None for any other
    text.
    """
    match = _INTEGER.match(text)
    if not match:
        return None
    sign, hexadecimal, octal, decimal = match.groups()
    number = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
    return -number if sign == "-" else number
