# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Systems that are deployed as an image: their boot loader and /usr are read-only, or changes to them are
lost with the next deployment. They have their own way to change both."""

from __future__ import annotations

from typing import Protocol

from ..model.record import NamedTuple

#: Made by ostree-prepare-root(1) in the initramfs, for a system that ostree has deployed
OSTREE_BOOTED = "/run/ostree-booted"
#: A deployment that becomes an entry of the loader at shutdown (ostree-sysroot-private.h)
OSTREE_STAGED = "/run/ostree/staged-deployment"


class Files(Protocol):
    def exists(self, path: str) -> bool: ...


class ImageMode(NamedTuple):
    """name: the system. kernel_arguments, files: its way to change them."""

    name: str
    kernel_arguments: str
    files: str


# bootc-loader-entries-set-options-for-source(8) wants ostree 2026.1
_BOOTC = (
    "have a file in /usr/lib/bootc/kargs.d of the image name them (bootc), and upgrade to that image; or run "
    "bootc loader-entries set-options-for-source --source NAME --options 'ALL OF ITS PARAMETERS', and reboot"
)
_OSTREE = "run ostree admin instutil set-kargs --merge --replace=PARAMETER, and reboot"
_RPM_OSTREE = "run rpm-ostree kargs --append-if-missing=PARAMETER (--delete-if-present=PARAMETER), and reboot"

#: File that shows a system → the system
_OTHERS = {
    "/usr/sbin/transactional-update": ImageMode(
        "transactional-update",
        "change /etc/default/grub, run transactional-update grub.cfg, and reboot",
        "change it with transactional-update run, and reboot",
    ),
    "/etc/NIXOS": ImageMode(
        "NixOS",
        "declare boot.kernelParams in its configuration, and rebuild",
        "declare it in its configuration, and rebuild",
    ),
}


def ostree(host: Files) -> ImageMode:
    """The system of a tree that ostree deploys, by its tools. Raises HostError."""
    if host.exists("/usr/bin/rpm-ostree"):
        files = "build it into the image, or layer a package with rpm-ostree install"
        return ImageMode("ostree (rpm-ostree)", _RPM_OSTREE, files)
    if host.exists("/usr/bin/bootc"):
        return ImageMode("ostree (bootc)", _BOOTC, "build it into the image, and run bootc upgrade")
    return ImageMode("ostree", _OSTREE, "build it into the image")


def running_system(host: Files) -> ImageMode | None:
    """The system that runs, if it is one of these. Raises HostError."""
    if host.exists(OSTREE_BOOTED):
        return ostree(host)
    return next((system for path, system in _OTHERS.items() if host.exists(path)), None)
