# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys and values that a module provides: now, and at boot."""

from __future__ import annotations

from ...engine.kind import Context
from ...model import values
from ...model.errors import HostError
from ...model.setting import Boot, Reading, Setting, Value
from . import lines, needed


def offer(
    key: str, want: str | None, context: Context
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], str]:
    """Values that the kernel offers, modules to load now and at boot, and the reason if the wanted value is
    not available.
    """
    module = needed.module_of(key, want)
    if not module:
        return (), (), (), ""
    loadable = needed.is_loadable(module, context)
    wanted = (module,) if loadable else ()
    if key not in needed.PREFIXES:  # The key exists, so its module is loaded
        return (), (), wanted, ""
    if key not in lines.AVAILABLE:
        loaded = context.host.exists(f"/sys/module/{module}")
        return (), wanted if not loaded else (), wanted, ""
    offered = values.tokens(context.host.value(lines.AVAILABLE[key]).text or "")
    if want in offered:
        return offered, (), wanted, ""
    if loadable:
        return offered, wanted, wanted, ""
    release = context.facts.kernel_release()
    return (
        offered,
        (),
        (),
        (
            f"{want} is not offered by this kernel ({', '.join(offered) or 'no list'}), and "
            f"/lib/modules/{release} has no module {module}"
        ),
    )


def to_come(setting: Setting, module: str, path: str, invalid: str, context: Context) -> Reading:
    """Reading of a key that appears with a module, which this run loads, as does every boot before it reads
    sysctl.d.

    The file's value is read again before the write. invalid: why no kernel accepts the value.
    """
    bar = needed.barred(setting.key, setting.want, context)
    absent = Value(absent=f"the module {module}, which brings it, is not loaded")
    boot = context.boot_by_agent(setting, None if setting.raise_only else setting.want)
    if bar is not None and bar.bar.for_all:
        absent = Value(absent=f"{absent.absent}: {bar.bar.words}")
        return Reading(path, absent, bar.boot(boot))
    return Reading(
        path,
        absent,
        boot,
        want=None if setting.raise_only else setting.want,
        native=True,
        load=(module,),
        modules=(module,),
        invalid=invalid,
        missing=True,
    )


def at_boot(
    setting: Setting, want: str | None, boot: Boot, bar: needed.Barred | None, context: Context
) -> Boot:
    """The boot layer of a key or value that a module provides: a line of sysctl.d counts if the module is
    loaded by then. Else the agent loads it and sets the value.
    """
    module = needed.owner(setting.key)
    if bar is not None and (bar.bar.for_all or not module):
        return bar.boot(boot)
    if not module or boot.value.text is None or not needed.is_loadable(module, context):
        return boot
    try:
        why = str(bar) if bar else needed.unlisted(module, context)
    except HostError as error:
        return Boot(Value(unreadable=str(error)))
    return context.boot_by_agent(setting, want, instead_of=why) if why else boot
