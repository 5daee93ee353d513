# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packet marking of RDMA devices, as virtual files: /roce/DEVICE/PORT/...

    cm-tos           type of service of connections made by rdma_cm, 0 to 255
    cm-mode          read-only; RoCE v2 or IB/RoCE v1
    traffic-class    overrides the class of all queue pairs, or none

Other files are congestion control, in configfs for some drivers.

The first two are in configfs (drivers/infiniband/core/cma_configfs.c). The third file reads in another format
than it is written (mlx5_ib of DOCA and MLNX_OFED).
"""

from __future__ import annotations

import errno
import re
from contextlib import AbstractContextManager

from ...host.host import Host
from ...model.errors import HostError, MissingError, printable
from ...model.record import regex
from . import configfs, model, registry
from .configfs import DEVICES, ConfigfsDriver

_CONFIG = "/sys/kernel/config/rdma_cm"

_NAME = regex(r"[A-Za-z0-9_.-]{1,63}\Z", re.ASCII)
_PORT = regex(r"[1-9][0-9]{0,2}\Z", re.ASCII)
_BYTE = regex(r"[0-9]{1,3}\Z", re.ASCII)
_GLOBAL = regex(r"Global tclass=([0-9]{1,3})\s*\Z", re.ASCII)

#: File here → file in configfs
_CM = {"cm-tos": "default_roce_tos", "cm-mode": "default_roce_mode"}
_FILES = (*_CM, "traffic-class")
_OWN = dict.fromkeys(
    file for driver in registry.DRIVERS.values() if isinstance(driver, ConfigfsDriver) for file in driver.MOST
)

_NONE = "none"
#: Written to clear the class: values from 0 on set it (traffic_class_show)
_UNSET = "-1"


def read(host: Host, path: str) -> bytes:
    device, port, file = _file("read", path)
    if file == "traffic-class":
        text = _tclass(host, _class(host, path, device, port))
    elif file in _OWN:
        text = _driver(host, "read", path, device, file).read(host, device, port, file)
    else:
        with _folder(host, "read", path, device) as folder:
            text = host.read(f"{folder}/ports/{port}/{_CM[file]}").strip()
        if file == "cm-tos" and not _BYTE.match(text):
            raise HostError("read", path, None, f"expected a number, got {printable(text[:40])!r}")
    return f"{text}\n".encode("utf-8", "surrogateescape")


def write(host: Host, path: str, value: str) -> None:
    action = f"write {value!r} to"
    device, port, file = _file(action, path)
    text = value.strip()
    if file in _OWN:
        _driver(host, action, path, device, file).write(host, device, port, file, text)
        return
    unset = file == "traffic-class" and text == _NONE
    if file == "cm-mode" or not (unset or (_BYTE.match(text) and int(text) < 256)):
        raise HostError(action, path, errno.EINVAL)
    if file == "traffic-class":
        host.write_kernel(_class(host, path, device, port), _UNSET if unset else text)
    else:
        with _folder(host, action, path, device) as folder:
            host.write_kernel(f"{folder}/ports/{port}/{_CM[file]}", text)


def names(host: Host, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part][1:]
    if not parts:
        return host.names(DEVICES)
    if len(parts) == 1 and _NAME.match(parts[0]):
        return host.names(f"{DEVICES}/{parts[0]}/ports")
    if len(parts) != 2 or not _NAME.match(parts[0]):
        return []
    return [file for file in (*_FILES, *_OWN) if exists(host, f"{path}/{file}")]


def exists(host: Host, path: str) -> bool:
    try:
        device, port, file = _file("look at", path)
        if file == "traffic-class":
            _class(host, path, device, port)
            return True
        if file in _OWN:
            _driver(host, "look at", path, device, file)
            return host.exists(f"{DEVICES}/{device}/ports/{port}")
        configfs.must_exist(host, "look at", path, device)
        return host.exists(_CONFIG) and host.exists(f"{DEVICES}/{device}/ports/{port}")
    except MissingError:
        return False


def blocked(host: Host, path: str) -> str:
    """Reason why it cannot be set; "" if it can, or if a read will explain more."""
    try:
        device, port, file = _file("look at", path)
        if file == "cm-mode":
            return f"{path} is read-only"
        return host.blocked(_class(host, path, device, port)) if file == "traffic-class" else ""
    except HostError:
        return ""


def command(host: Host, path: str, text: str) -> str:
    """Equivalent line for a shell. Raises HostError."""
    device, port, file = _file("look at", path)
    if file == "cm-tos":
        return f"cma_roce_tos -d {device} -p {port} -t {text}"
    if file == "traffic-class":
        return f"echo {text} > {DEVICES}/{device}/tc/{port}/traffic_class"
    return _driver(host, "look at", path, device, file).command(device, port, file, text)


# -- details -------------------------------------------------------------------------------


def _file(action: str, path: str) -> tuple[str, str, str]:
    parts = [part for part in path.split("/") if part][1:]
    known = len(parts) == 3 and _NAME.match(parts[0]) and _PORT.match(parts[1])
    if not known or parts[2] not in (*_FILES, *_OWN) or parts[0] in (".", ".."):
        raise MissingError(action, path, f"{path} does not exist")
    return parts[0], parts[1], parts[2]


def _driver(host: Host, action: str, path: str, device: str, file: str) -> ConfigfsDriver:
    """The device's driver. Raises MissingError if it has no such file here."""
    configfs.must_exist(host, action, path, device)
    driver = registry.of_device(host, device)
    if not isinstance(driver, ConfigfsDriver) or file not in driver.MOST:
        raise MissingError(action, path, f"the driver of {device} has no {file}")
    if not host.exists(driver.CONFIG):
        raise MissingError(action, path, f"there is no {driver.CONFIG}")
    return driver


def _class(host: Host, path: str, device: str, port: str) -> str:
    """The vendor's file. Raises MissingError if the driver lacks it."""
    configfs.must_exist(host, "look at", path, device)
    file = f"{DEVICES}/{device}/tc/{port}/traffic_class"
    if not host.exists(file):
        raise MissingError("look at", path, registry.of_device(host, device).LACKS[model.TRAFFIC_CLASS])
    return file


def _tclass(host: Host, file: str) -> str:
    """The class of all queue pairs; other lines are classes for single addresses. Raises HostError."""
    text = _NONE
    for line in host.read(file).splitlines():
        match = _GLOBAL.match(line)
        if match:
            text = match.group(1)
        elif line.strip() and ("tclass=" not in line or line.startswith("Global")):
            raise HostError("understand", file, None, f"it says {printable(line[:40])!r}")
    return text


def _folder(host: Host, action: str, path: str, device: str) -> AbstractContextManager[str]:
    lack = "rdma_cm is not loaded, or configfs is not mounted at /sys/kernel/config"
    return configfs.folder(host, action, path, _CONFIG, device, lack)
