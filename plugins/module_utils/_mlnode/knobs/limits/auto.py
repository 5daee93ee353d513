# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The formula of `memlock: auto`: unlimited if programs register memory with an RDMA device or a GPU."""

from __future__ import annotations

from ...engine.kind import Context
from ...host.host import Host
from ...model.setting import Setting
from . import parse as limits_parse
from .parse import Limit, Wanted
from .schema import AUTO

_RDMA = "/sys/class/infiniband"

_MARK = "# {}: auto, as an RDMA device or a GPU was found here"

LEFT = "auto: neither an RDMA device nor a GPU is here; the limit is not changed"


def resolved(setting: Setting, context: Context) -> dict[str, Wanted]:
    """The amounts of a setting by service, without those that are left as they are. Raises HostError."""
    limit, texts = _declared(setting, context)
    automatic = any(map(_is_automatic, texts.values()))
    given = automatic and (has_devices(context) or _was_given(setting, context))
    return {
        name: limits_parse.wanted(limit, text)
        for name, text in texts.items()
        if given or not _is_automatic(text)
    }


def mark(setting: Setting, context: Context) -> list[str]:
    """The line of a file that records a device found by `auto`, for later runs. Raises HostError."""
    limit, texts = _declared(setting, context)
    given = any(map(_is_automatic, texts.values())) and len(resolved(setting, context)) == len(texts)
    return [_MARK.format(limit.name)] if given else []


def _is_automatic(text: str) -> bool:
    return text.endswith(AUTO)


def _declared(setting: Setting, context: Context) -> tuple[Limit, dict[str, str]]:
    scope, _domain, limit = limits_parse.taken_apart(setting.key)
    return limit, limits_parse.declared(context.spec, scope, limit)


def has_devices(context: Context) -> bool:
    """A build host's devices say nothing about the machines that will boot its image."""
    return context.runtime and context.host.once("limits.devices", lambda: _look(context.host))


def _look(host: Host) -> bool:
    # Imported here, as most declarations have no `auto`.
    from ...topology import gpus, pci
    from ...topology.reader import Reader

    # RDMA devices have no PCI class; a GPU is found even before its driver is loaded.
    return bool(host.names(_RDMA) or (host.names(pci.DEVICES) and gpus.find(pci.read(Reader(host)))))


def _was_given(setting: Setting, context: Context) -> bool:
    """True if an earlier run has found a device. At boot the agent may run before the driver, and jobs keep
    the limit if an RDMA device has failed.
    """
    scope, _domain, limit = limits_parse.taken_apart(setting.key)
    paths = context.host.matching(f"{limits_parse.FOLDERS[scope]}/{limits_parse.file_of(context.name)}")
    return any(_MARK.format(limit.name) in context.host.text(path).split("\n") for path in paths)
