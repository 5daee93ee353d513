# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse and check a declaration of variables, as far as that is possible without a machine."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ...model import schema
from ...model.errors import DeclarationError
from ...model.record import regex
from ...model.schema import Checked
from ...model.setting import Setting
from ...model.strict_json import shown
from . import auto
from . import names as nccl_names
from . import reading as nccl_reading
from . import values as nccl_values
from .file import PATH

KIND = "nccl"
AUTO = "auto"

#: Accepted with allow: [unknown], for NCCL and for plugins in its process: NCCL sets any name that is in its
#: file
_FOREIGN = regex(r"(?:[NR]CCL|SHARP_COLL|OFI_NCCL)_[A-Z0-9_]{1,100}\Z", re.ASCII)

#: Their product is the number of sockets of one connection (NCCL's src/transport/net_socket.cc: MAX_SOCKETS)
_THREADS, _PER_THREAD, _MAX_SOCKETS = "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", 64


def parse(given: Checked) -> list[Setting]:
    """Settings in the order in which they are declared. Raises DeclarationError."""
    allow = given.get("allow", ())
    settings = [_setting(name, raw, allow) for name, raw in given.get("variables", {}).items()]
    _refuse_too_many_sockets({setting.key: setting.want for setting in settings})
    return settings


def key_of(name: str) -> str:
    return f"{KIND}.{name}"


def name_of(key: str) -> str:
    return key[len(KIND) + 1 :]


def _setting(name: str, raw: Any, allow: Sequence[str]) -> Setting:
    check = nccl_values.check(_check(name, allow))
    resolver = auto.RESOLVERS.get(name)
    if raw == AUTO and name in nccl_names.KNOWN:
        if resolver is None:
            autos = ", ".join(auto.RESOLVERS)
            raise DeclarationError(f"{name}: auto is for {autos}; this one takes {check.words}")
        return Setting(KIND, key_of(name), PATH, None, AUTO, formula=resolver[1])
    text = _text(name, raw, check)
    try:
        value = check.spelled(text)
    except ValueError as error:
        hint = nccl_reading.hint(name, text)
        words = check.words + (f", or {AUTO}" if resolver else "")
        raise _not_taken(name, text, f"{words}; {hint}" if hint else words) from error
    return Setting(KIND, key_of(name), PATH, value, value)


def _check(name: str, allow: Sequence[str]) -> str:
    """The check of a variable. Raises DeclarationError for an unknown name."""
    if name in nccl_names.KNOWN:
        return nccl_names.KNOWN[name].check
    if name in nccl_names.UNFIT:
        raise DeclarationError(f"{name} does not belong into {PATH}: {nccl_names.UNFIT[name]}")
    is_foreign = _FOREIGN.match(name)
    if is_foreign and "unknown" in allow:
        return "text"
    near = schema.nearest(name.upper(), [*nccl_names.KNOWN, *nccl_names.UNFIT])
    reason = f"{shown(name)}: NCCL knows no such variable{f'; did you mean {near}' if near else ''}"
    raise DeclarationError(schema.unless_allowed("unknown", reason, allow) if is_foreign else reason)


def _text(name: str, raw: Any, check: schema.Form) -> str:
    if isinstance(raw, bool):
        raise DeclarationError(f"{name}: YAML boolean {str(raw).lower()}; NCCL takes {check.words}")
    if isinstance(raw, list) and all(isinstance(item, str) for item in raw):
        raw = ",".join(raw)
    if not isinstance(raw, (int, float, str)):
        raise _not_taken(name, raw, check.words)
    text = str(raw)
    if not nccl_values.PRINTABLE.match(text):
        raise DeclarationError(
            f"{name}: {shown(text)} must be one line of ASCII without blanks at its ends, which NCCL would "
            "take for a part of it"
        )
    if len(text) > nccl_values.LONGEST:
        raise DeclarationError(f"{name}: expected {nccl_values.LONGEST} characters at most, got {len(text)}")
    return text


def _not_taken(name: str, raw: Any, allowed: str) -> DeclarationError:
    return DeclarationError(f"{name}: {shown(raw)} is not what NCCL takes: {allowed}")


def _refuse_too_many_sockets(wanted: Mapping[str, str | None]) -> None:
    threads, each = (int(wanted.get(key_of(name)) or 1) for name in (_THREADS, _PER_THREAD))
    if threads * each > _MAX_SOCKETS:
        raise DeclarationError(
            f"{_THREADS} {threads} with {_PER_THREAD} {each} is {threads * each} sockets of a connection, "
            f"and NCCL takes {_MAX_SOCKETS}"
        )
