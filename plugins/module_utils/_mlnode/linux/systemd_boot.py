# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd-boot and unified kernel images (UKI): the program that the firmware started, its entries, and their
images, which kernel-install makes from the words of /etc/kernel/cmdline.

Sources: the Boot Loader Interface (systemd.io/BOOT_LOADER_INTERFACE), bootctl(1), kernel-install(8).
"""

from __future__ import annotations

import math
from typing import Any, Sequence

from ..host.host import Host
from ..model import strict_json
from ..model.errors import HostError, StoreError
from ..model.record import NamedTuple, regex

#: Beginning of its LoaderInfo; GRUB has one since 2.12 (module bli)
NAME = "systemd-boot"
CMDLINE = "/etc/kernel/cmdline"
#: The file that counts without it; after both, kernel-install takes the running kernel's words
DEFAULT_CMDLINE = "/usr/lib/kernel/cmdline"
_RUNNING = "/proc/cmdline"

EFI = "/sys/firmware/efi"
_VARIABLES = f"{EFI}/efivars"
#: Vendor UUIDs of the Boot Loader Interface, and of the firmware's own variables (UEFI specification, 3.3)
_INTERFACE, _FIRMWARE = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f", "8be4df61-93ca-11d2-aa0d-00e098032b8c"
#: efivarfs puts 4 bytes of attributes before each value (Documentation/filesystems/efivarfs.rst)
_ATTRIBUTES = 4

_LIST = ("bootctl", "list", "--json=short", "--no-pager")
_INSPECT = ("kernel-install", "inspect", "--json=short")
_UKI = '"Layout":"uki"'
_UKI_CONF = tuple(f"{place}/kernel/uki.conf" for place in ("/etc", "/run", "/usr/local/lib", "/usr/lib"))
#: A key in a file, or the name of a certificate for pesign; a tool alone signs nothing (ukify(1))
_SIGNS = regex(r"(?im)^[ \t]*SecureBoot(?:PrivateKey|CertificateName)[ \t]*=[ \t]*\S")
#: With this file, kernel-install adds a counter to the name of a new image
_TRIES = "/etc/kernel/tries"
#: Parameters without which a kernel does not find or start the system; they cannot be declared
_STARTING = ("root", "rootflags", "rootfstype", "init", "rdinit")
#: Name of an initramfs in the section table of an image, which is within its first 4 KiB
_INITRD, _HEADERS = b".initrd\0", 4096

#: The previous image of a kernel, a separate entry until the new image was read back
_KEPT = ".mlnode-kept.efi"
_VERSION = regex(r"([0-9][\w.+~-]*?)(?:\+[0-9]+(?:-[0-9]+)?)?(?:\.mlnode-kept)?\.efi\Z")

COUNTED = "systemd-boot still counts its boots: reboot, or run systemd-bless-boot good"

#: Seconds for one image; dracut, which may have to make an initramfs first, takes up to a minute on a disk
_IMAGE_SECONDS = 300.0


class Item(NamedTuple):
    """An entry of the menu. unified: a UKI, whose file contains its words. added: the words of addons, each
    with its file. tries: boots left for a new entry; None if they are not counted."""

    path: str
    title: str
    unified: bool
    options: str
    default: bool
    added: tuple[tuple[str, str], ...] = ()
    tries: int | None = None


# -- the firmware --------------------------------------------------------------------------


def started(host: Host) -> tuple[str, str]:
    """Names of the boot loader and of the UKI's stub that started this system, from their EFI variables; each
    empty if there is none. Raises HostError."""
    return _text(host, "LoaderInfo"), _text(host, "StubInfo")


def is_started(host: Host) -> bool:
    """True if systemd-boot started this system. Raises HostError."""
    return started(host)[0].startswith(NAME)


def _text(host: Host, name: str) -> str:
    path = f"{_VARIABLES}/{name}-{_INTERFACE}"
    content = host.content(path)
    if content is None:
        return ""
    try:
        text = content[_ATTRIBUTES:].decode("utf-16-le").rstrip("\0")
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or not text:
        raise HostError("read", path, None, "it has no text in UTF-16")
    return text


def is_blind(host: Host) -> bool:
    """True if a UEFI system shows no variables: efivarfs is not mounted. Raises HostError."""
    return host.exists(EFI) and not (host.exists(_VARIABLES) and host.names(_VARIABLES))


def unsigned(host: Host) -> bool:
    """True if the firmware starts signed images only, and kernel-install would make an unsigned one. Raises
    HostError."""
    secure = host.content(f"{_VARIABLES}/SecureBoot-{_FIRMWARE}")
    if secure is None or secure[_ATTRIBUTES:] == b"\0":
        return False
    conf = next((path for path in _UKI_CONF if host.exists(path)), "")
    return not (conf and _SIGNS.search(host.read(conf)))


# -- the menu ------------------------------------------------------------------------------


def items(host: Host) -> list[Item]:
    """Entries for kernels. Raises HostError."""
    out = host.must_run(_LIST, "ask")
    try:
        listed = strict_json.loads(out, _LIST[0])
        if not isinstance(listed, list):
            raise TypeError("no list")
        return [_item(entry) for entry in listed if entry["type"] in ("type1", "type2")]
    except (StoreError, KeyError, TypeError, AttributeError, ValueError) as error:
        detail = f"expected entries with type, path and isDefault, as of bootctl 253 or newer: {error!r}"
        raise HostError("read", " ".join(_LIST), None, detail) from error


def _item(entry: dict[str, Any]) -> Item:
    unified = entry["type"] == "type2"
    path, title, options = entry["path"], entry["showTitle"], entry.get("options", "")
    default, tries = entry["isDefault"], entry.get("triesLeft")
    texts = isinstance(path, str) and isinstance(title, str) and isinstance(options, str)
    if not texts or not isinstance(default, bool) or not isinstance(tries, (int, type(None))):
        raise TypeError(f"entry {path!r}")
    # The stub reads addons; the kernel of any other entry has none, whatever bootctl lists for it.
    addons = entry.get("addons") or () if unified else ()
    added = tuple((addon["options"], _place(entry, addon)) for addon in addons if "options" in addon)
    return Item(path, title, unified, options, default, added, tries)


def _place(entry: dict[str, Any], addon: dict[str, str]) -> str:
    if "globalAddon" in addon:
        return f"{entry['root']}/{addon['globalAddon']}"
    return f"{str(entry['path']).rpartition('/')[0]}/{addon['localAddon']}"


# -- images --------------------------------------------------------------------------------


def lacks(host: Host, images: Sequence[Item]) -> str:
    """Why kernel-install cannot make these UKIs with other words; empty if it can. Raises HostError."""
    source = _source(host)
    if not host.exists(source):
        return f"{CMDLINE} is missing, so kernel-install would take the running words: write them into it"
    if host.exists(_TRIES):
        return f"{_TRIES} exists, so a new image would get another name: move it away during the run"
    starting = _starting(host.read(source))
    paths = {image.path for image in images}
    for image in images:
        if f"{image.path[: -len('.efi')]}{_KEPT}" in paths:  # half an image of a run that was killed
            continue
        command = _command(host, image)
        if not command:
            return f"{image.path} is not named after an installed kernel: have its maker change its words"
        if _starting(image.options) != starting:
            its, given = (" ".join(words) or "no root=" for words in (_starting(image.options), starting))
            return f"{image.path} starts with {its}, and {source} has {given}: correct {source}"
        # Without the path of a kernel, Debian's, which is in /boot, is not found.
        done = host.run((*_INSPECT, *command[2:4]))
        if done.rc or _UKI not in done.out:
            return (
                f"kernel-install is not configured with layout=uki: have the maker of {image.path} change it"
            )
    if unsigned(host):
        return "Secure Boot is on and uki.conf has no SecureBootPrivateKey: a new image would not start"
    return ""


def _source(host: Host) -> str:
    """The file whose words kernel-install takes, even if it is empty. Raises HostError."""
    return DEFAULT_CMDLINE if host.exists(DEFAULT_CMDLINE) and not host.exists(CMDLINE) else CMDLINE


def _starting(line: str) -> list[str]:
    return [word for word in line.split() if word.partition("=")[0] in _STARTING]


def _command(host: Host, image: Item) -> tuple[str, ...]:
    """The command that makes an image again; empty if its kernel is not installed. Raises HostError."""
    version = _version(image.path.rpartition("/")[2])
    for kernel, initrd in (
        (f"/boot/vmlinuz-{version}", f"/boot/initrd.img-{version}"),
        (f"/usr/lib/modules/{version}/vmlinuz", ""),
    ):
        if version and host.exists(kernel):
            # Without one, a plugin of kernel-install makes it.
            more = (initrd,) if initrd and host.exists(initrd) else ()
            return ("kernel-install", "add", version, kernel, *more)
    return ()


def _version(name: str) -> str:
    """Version of the kernel in an image's name; empty without one."""
    match = _VERSION.search(name.partition("-")[2])
    return match.group(1) if match else ""


def make_images(host: Host) -> None:
    """Make all UKIs of this system again. Each old image stays in the menu until the new one was read back,
    and returns if that fails. Raises HostError."""
    if started(host) == ("", ""):  # an image build, or a node with another loader since
        return
    for image in items(host):
        if image.path.endswith(_KEPT):  # left by a run that was killed
            _move(host, image.path, image.path[: -len(_KEPT)] + ".efi")
    images = [item for item in items(host) if item.unified and _command(host, item) and _is_own(host, item)]
    # All before the first: the way back, too, must not leave an image that does not start.
    counted = next((image.path for image in images if image.tries is not None), "")
    reason = COUNTED if counted else lacks(host, images) if images else ""
    if reason:
        raise HostError("write", counted or "the unified kernel images", None, reason)
    for image in images:
        if not _is_right(host, image):  # the old one of a run that has failed
            _make(host, image)


def _is_own(host: Host, image: Item) -> bool:
    """False if an image of this name starts another system. Raises HostError."""
    lines = (host.text(_source(host)), host.read(_RUNNING))
    return _starting(image.options) in [_starting(line) for line in lines]


def _is_right(host: Host, image: Item) -> bool:
    """True if an image has the words of the file, and the number that ukify adds."""
    wanted, words = host.read(_source(host)).split(), image.options.split()
    added = words[len(wanted) :]
    return words == wanted + added and all(word.startswith("systemd.machine_id=") for word in added)


def _make(host: Host, image: Item) -> None:
    kept = image.path[: -len(".efi")] + _KEPT
    before, has_initrd = _alike(host, image), _has_initrd(host, image.path)
    _move(host, image.path, kept)
    try:
        host.must_run(_command(host, image), f"make {image.path} with", _IMAGE_SECONDS)
        _read_back(host, image, has_initrd)
    except HostError:
        _move(host, kept, image.path)
        for path in sorted(_alike(host, image) - before):  # under another name, and as good as the default
            host.must_run(("rm", "-f", "--", path), "remove the new image with")
        raise
    # kernel-install does not: after a power cut, FAT may have the removal and half of the new image.
    _sync(host, image.path)
    host.must_run(("rm", "-f", "--", kept), "remove the previous image with")


def _alike(host: Host, image: Item) -> set[str]:
    """All images of this kernel. Raises HostError."""
    folder, _slash, name = image.path.rpartition("/")
    names = {other: _version(other) for other in host.names(folder)}
    return {f"{folder}/{other}" for other, version in names.items() if version == _version(name)}


def _has_initrd(host: Host, path: str) -> bool:
    return _INITRD in host.beginning(path, _HEADERS, math.inf)[0]


def _read_back(host: Host, image: Item, has_initrd: bool) -> None:
    source = _source(host)
    wanted = host.read(source).split()
    new = next((item for item in items(host) if item.path == image.path), None)
    if new is None or new.options.split()[: len(wanted)] != wanted:
        detail = f"kernel-install made no image with the words of {source}"
    elif has_initrd and not _has_initrd(host, image.path):
        detail = "kernel-install made an image without an initramfs"
    else:
        return
    raise HostError("write", image.path, None, f"{detail}, so the old image was put back")


def _move(host: Host, path: str, to: str) -> None:
    host.must_run(("mv", "-fT", "--", path, to), f"move {path} with")
    _sync(host, to)


def _sync(host: Host, path: str) -> None:
    host.must_run(("sync", "-f", "--", path), "write to the disk with")
