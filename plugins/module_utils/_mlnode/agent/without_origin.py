# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode revert --without-origin`: the last way out for a node whose origin is lost.

It removes files that mlnode owns by name and marked lines in files of others. It lists the rest, which cannot
be undone: values of the running kernel until a boot, and unmarked words in files.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Sequence, Tuple

from ..engine import confirm, declared, engine, handlers, origin, origin_paths
from ..engine.declared import FOLDER as DECLARED
from ..engine.engine import Request
from ..engine.kind import Row
from ..engine.lock import WAIT_SECONDS, locked
from ..engine.revert import BASELINES, FOLDERS, Change, described
from ..host import places
from ..host.host import Host
from ..host.places import AGENT_COMMAND
from ..knobs.irq import irqbalance
from ..knobs.nccl import file as nccl_file
from ..model.errors import HostError, LostOriginError, MlnodeError, RefusedError, TransactionError
from ..model.record import NamedTuple
from ..model.setting import Layer
from ..model.values import same
from . import mounts, node, registry
from .registry import KINDS

_UNITS = "/etc/systemd/system/"


class Removal(NamedTuple):
    """changes: removed items. stays: items that were not removed, for people."""

    changes: tuple[Change, ...] = ()
    stays: tuple[str, ...] = ()


class _File(NamedTuple):
    """An own file, or a file of others with marked lines. content: the remainder without them."""

    path: str
    content: bytes | None
    reader: str


def pending(host: Host) -> Removal:
    """Removal that remove() would do. Raises MlnodeError."""
    _refuse_with_origin(host)
    changes = tuple(_change(host, file) for file in _files(host))
    return Removal(changes, tuple(_running(_looked(host))))


def remove(host: Host, wait_seconds: float = WAIT_SECONDS) -> Removal:
    """Remove mlnode without its origin. Raises MlnodeError with the items that could not be removed; another
    run retries them."""
    # The command removes itself; later imports would fail.
    registry.imported()
    mounts.imported()
    with locked(host, wait_seconds):
        confirm.refuse_while_pending(host)
        _refuse_with_origin(host)
        files, looked = _files(host), _looked(host)
        changes = tuple(_change(host, file) for file in files)
        if files and not host.is_superuser():
            raise HostError("revert", "this node", None, "root is needed")
        stuck = _removed(host, files)
        host.forget()
        if stuck:
            done = [change.key for change in changes if not any(change.key in problem for problem in stuck)]
            raise TransactionError("not everything could be removed", done, stuck)
        _clear(host)
        return Removal(changes, (*_running(looked), *_next_boot(host, looked)))


def _refuse_with_origin(host: Host) -> None:
    try:
        known = origin.Origin.load(host).entries()
    except LostOriginError:
        return
    if known:
        raise RefusedError(
            f"the origin in {origin.PATH} is intact: run `mlnode revert`, which restores everything"
        )


# -- the files -----------------------------------------------------------------------------


def _files(host: Host) -> list[_File]:
    files = [_File(path, None, reader) for path, reader in origin_paths.present(host).items()]
    for path in places.BLOCKS:
        text = nccl_file.parse(host.text(path)).others
        content = text.encode("utf-8", "surrogateescape")
        if host.content(path) not in (None, content):
            files.append(_File(path, content if text.strip() else None, ""))
    return files


def _change(host: Host, file: _File) -> Change:
    saved = host.snapshot(file.path)
    before, hidden = described(saved), origin.is_closed(saved)
    waits = file.reader in handlers.AT_BOOT
    if file.content is None:
        return Change(file.path, before, None, is_file=True, at_boot=waits, is_closed=hidden)
    after = file.content.decode("utf-8", "replace")
    return Change(file.path, before, after, True, waits, "mlnode's part removed, the rest kept", hidden)


def _removed(host: Host, files: Sequence[_File]) -> list[str]:
    """Remove them, and return what could not be, and why."""
    stuck: list[str] = []
    # The command goes last, after the notification of all readers: until then it can be run again.
    command = AGENT_COMMAND
    for file in sorted(files, key=lambda file: file.path == command):
        if file.path == command:
            stuck += _notify_readers(host, files)
            if stuck:
                break
        try:
            if file.content is None:
                host.remove_file(file.path)
            else:
                host.write_file(file.path, file.content)
            folder = file.path.rpartition("/")[0]
            if folder.startswith(_UNITS) and folder.endswith(".d"):
                host.remove_folder_if_empty(folder)
        except HostError as error:
            stuck.append(str(error))
    if not any(file.path == command for file in files):
        stuck += _notify_readers(host, files)
    return stuck


def _notify_readers(host: Host, files: Sequence[_File]) -> list[str]:
    stuck = []
    for reader in filter(None, dict.fromkeys(file.reader for file in files)):
        try:
            handlers.run(host, reader)
        except HostError as error:
            stuck.append(str(error))
    return stuck


def _clear(host: Host) -> None:
    """Remove the rest of the store, and its empty folders. Raises HostError."""
    patterns = (path for pattern in BASELINES for path in host.matching(pattern))
    for path in (origin.PATH, origin.COPY, *patterns):
        host.remove_file(path)
    for folder in (DECLARED, irqbalance.LISTS, *FOLDERS):
        host.remove_folder_if_empty(folder)


# -- what stays ----------------------------------------------------------------------------


#: The request of a declared area, and its settings as they are now
_Looked = Tuple[Request, Sequence[Row]]


def _looked(host: Host) -> list[_Looked]:
    """All declared settings. Errors are ignored: an unreadable setting can only be left."""
    looked: list[_Looked] = []

    def look(request: Request) -> tuple[Sequence[Row], bool]:
        looked.append((request, engine.evaluate(host, request).rows))
        return (), False

    for declaration in declared.load_all(host, []):
        for kind in (name for name in KINDS if name in declaration.kinds):
            with suppress(MlnodeError):
                node.treated(look, declaration, KINDS[kind], [])
    return looked


def _running(looked: Sequence[_Looked]) -> list[str]:
    lines = []
    for row in (row for _request, rows in looked for row in rows):
        text = row.reading.runtime.text
        # A value in a file disappears with it.
        kept = not row.reading.path.startswith("/etc/")
        if kept and text is not None and same(text, row.reading.want or ""):
            lines.append(f"{row.setting.key} = {text} until the node is booted")
    return list(dict.fromkeys(lines))


def _next_boot(host: Host, looked: Sequence[_Looked]) -> list[str]:
    """Values that are set at boot although all own files are gone: edits without a mark."""
    lines = []
    for request, _rows in looked:
        try:
            after = engine.evaluate(host, request._replace(layers=(Layer.BOOT,))).rows
        except MlnodeError as error:
            lines.append(str(error))
            continue
        for row in after:
            boot, want = row.reading.boot, row.reading.want
            if want and boot.source.startswith("/") and same(boot.value.text or "", want):
                lines.append(f"{row.setting.key} = {want} at the next boots, from {boot.source}")
    return lines
