# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of a run, made or predicted, as before/after pairs: Ansible's format for differences."""

from __future__ import annotations

import hashlib
from typing import Collection, Sequence

from ..engine.origin import Origin, is_closed
from ..engine.steps import (
    FileWrite,
    JoinedWrite,
    KernelWrite,
    LinkWrite,
    LoadModule,
    Notify,
    PutBack,
    Step,
    UnitWrite,
    kernel_writes,
)
from ..host.host import Host
from ..model import cpulist, values
from ..model.errors import counted, paragraphs, shown
from ..model.setting import KnobFile
from ..model.values import by_key


def closed(host: Host, steps: Sequence[Step]) -> set[str]:
    """Paths of files that are closed to others by their mode, now or before the first run. Raises HostError.

    Results of a play reach terminals and logs that users other than root can read.
    """
    paths = {step.path for step in steps if isinstance(step, FileWrite)}
    before = Origin.for_look(host, alone=True).entries() if paths else []
    then = {entry["file"] for entry in before if "file" in entry and is_closed(entry["saved"])}
    return {path for path in paths if path in then or is_closed(host.snapshot(path))}


def diff(steps: Sequence[Step], area: str = "", hidden: Collection[str] = ()) -> list[dict[str, str]]:
    """One before/after pair for the running kernel, and one per file or link.

    area: included in the header of the kernel's pair, if there are several areas. hidden: files whose content
    is not shown.
    """
    old: list[str] = []
    new: list[str] = []
    files: list[dict[str, str]] = []
    writes: dict[str, list[KernelWrite]] = {}
    for step in steps:
        if isinstance(step, (KernelWrite, JoinedWrite, UnitWrite)):
            for write in kernel_writes([step]):
                writes.setdefault(write.key, []).append(write)
        elif isinstance(step, PutBack):
            old.append(f"{step.key} = {shown(step.runtime)}")
            new.append(f"{step.key} = {shown(step.origin)}")
        elif isinstance(step, LoadModule):
            writes[f"module {step.name} loaded"] = []
        elif isinstance(step, Notify):
            files.append(pair(step.key, "", f"as declared; the {step.notify} reads it again\n"))
        elif isinstance(step, LinkWrite):
            files.append(pair(step.path, _link(step.before), _link(step.target)))
        else:
            files.append(_file(step, step.path in hidden))
    for key, of_key in writes.items():
        if not of_key:  # a module, which has no value
            new.append(key)
            continue
        changed = [write.file for write in of_key]
        old += _lines(key, changed, [file.runtime for file in changed])
        new += _lines(key, changed, [file.want for file in changed])
    runtime = [pair(f"{area} runtime".strip(), lines(old), lines(new))] if old or new else []
    return runtime + files


def _lines(key: str, files: Sequence[KnobFile], texts: Sequence[str]) -> list[str]:
    """One line, or one for each value that some of the CPUs have."""
    cpus: dict[str, set[int]] = {}
    for file, text in zip(files, texts):
        if file.cpus:
            cpus.setdefault(text, set()).update(file.cpus)
    rest = [(file, text) for file, text in zip(files, texts) if not file.cpus]
    whole = _all([file for file, _text in rest], [text for _file, text in rest]) if rest else None
    return [
        *([] if whole is None else [f"{key} = {shown(whole)}"]),
        *(f"{key} ({_named(numbers)}) = {shown(text)}" for text, numbers in cpus.items()),
    ]


def _named(cpus: Collection[int]) -> str:
    return f"{'CPU' if len(cpus) == 1 else 'CPUs'} {cpulist.render(cpus)}"


def _all(files: Sequence[KnobFile], texts: Sequence[str]) -> str:
    """The values of a setting's files in one line."""
    if any(file.unit for file in files):
        alike = by_key((text, file.unit.name if file.unit else file.path) for file, text in zip(files, texts))
        return "; ".join(f"{', '.join(dict.fromkeys(names))}: {text}" for text, names in alike.items())
    shown = {file.number: text for file, text in zip(files, texts)}
    if len(shown) < len(files):  # queues of several NICs have the same numbers
        return "; ".join(counted(texts))
    return values.grouped(shown)


def _file(step: FileWrite, hide: bool) -> dict[str, str]:
    contents = (step.before, step.content)
    return hidden_pair(step.path, contents) if hide else pair(step.path, *map(_content, contents))


def hidden_pair(path: str, contents: Sequence[bytes | str | None]) -> dict[str, str]:
    """Shows only that there is content and that it differs."""
    labels = ("the content before", "the content after")
    note = "is not shown, as the mode of the file keeps others from reading it"
    shown = ["" if content is None else f"{which} {note}\n" for which, content in zip(labels, contents)]
    return pair(path, *shown)


def _link(target: str) -> str:
    return f"link to {target}\n" if target else ""


def _content(content: bytes | None) -> str:
    """Content as text. Binary content, such as the agent's archive, only as size and digest."""
    if content is None:
        return ""
    if b"\0" in content:
        return f"{len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}\n"
    return content.decode("utf-8", "replace")


def lines(rows: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in rows)


def pair(name: str, before: str, after: str) -> dict[str, str]:
    """One before/after pair of Ansible, with printable contents."""
    texts = {"before": paragraphs(before), "after": paragraphs(after)}
    return {"before_header": name, "after_header": name, **texts}
