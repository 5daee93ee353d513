# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A declaration of variables read and checked: everything that can be wrong before a machine is asked."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from .. import schema
from ..errors import DeclarationError
from ..schema import unless_allowed
from ..setting import Setting
from . import nccl_auto, nccl_names, nccl_values
from .nccl_file import PATH
from .nccl_schema import OPTIONS

KIND = "nccl"
AUTO = "auto"

#: With allow: [unknown], as NCCL sets whatever stands in its file: of NCCL, and of plugins in its process
_FOREIGN = re.compile(r"(?:NCCL|SHARP_COLL|OFI_NCCL)_[A-Z0-9_]{1,100}\Z", re.ASCII)

#: Both multiplied are the sockets of one connection (NCCL's src/transport/net_socket.cc: MAX_SOCKETS)
_THREADS, _PER_THREAD, _MAX_SOCKETS = "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", 64


def parse(spec: Mapping[str, Any]) -> list[Setting]:
    """Settings in the order in which they are declared. Raises DeclarationError."""
    given = schema.checked(KIND, spec, OPTIONS)
    allow = given.get("allow", ())
    found = [_setting(name, raw, allow) for name, raw in given.get("variables", {}).items()]
    _refuse_too_many_sockets({setting.key: setting.want for setting in found})
    return found


def key_of(name: str) -> str:
    return f"{KIND}.{name}"


def name_of(key: str) -> str:
    return key[len(KIND) + 1 :]


def _setting(name: str, raw: Any, allow: Sequence[str]) -> Setting:
    type_ = _type(name, allow)
    if raw == AUTO and type_ is not nccl_values.TEXT:
        if name not in nccl_auto.RESOLVERS:
            autos = ", ".join(nccl_auto.RESOLVERS)
            raise DeclarationError(f"{name}: auto is for {autos}; this one takes {type_.allowed}")
        return Setting(KIND, key_of(name), PATH, None, AUTO, formula=nccl_auto.RESOLVERS[name][1])
    text = _text(name, raw, type_)
    value = type_.spell(text)
    if value is None:
        also = f", or {AUTO}" if name in nccl_auto.RESOLVERS else ""
        raise DeclarationError(f"{name}: {_short(text)} is not what NCCL takes: {type_.allowed}{also}")
    return Setting(KIND, key_of(name), PATH, value, value)


def _type(name: str, allow: Sequence[str]) -> nccl_values.Type:
    """What a variable takes. Raises DeclarationError for a name that is none."""
    if name in nccl_names.KNOWN:
        return nccl_names.KNOWN[name].type
    if name in nccl_names.UNFIT:
        raise DeclarationError(f"{name} does not belong into {PATH}: {nccl_names.UNFIT[name]}")
    if _FOREIGN.match(name) and "unknown" in allow:
        return nccl_values.TEXT
    close = nccl_names.nearest(name)
    reason = f"{_short(name)}: NCCL knows no such variable"
    reason += f"; did you mean {close}" if close else ""
    raise DeclarationError(unless_allowed("unknown", reason, allow) if _FOREIGN.match(name) else reason)


def _text(name: str, raw: Any, type_: nccl_values.Type) -> str:
    if isinstance(raw, bool):
        raise DeclarationError(f"{name}: YAML boolean {str(raw).lower()}; NCCL takes {type_.allowed}")
    if isinstance(raw, list) and type_.joins and all(isinstance(item, str) for item in raw):
        raw = ",".join(raw)
    if not isinstance(raw, (int, float, str)):
        raise DeclarationError(f"{name}: {_short(raw)} is not what NCCL takes: {type_.allowed}")
    text = str(raw)
    if not nccl_values.PRINTABLE.match(text):
        raise DeclarationError(
            f"{name}: {_short(text)} must be one line of ASCII without blanks at its ends, which NCCL would "
            "take for a part of it"
        )
    if len(text) > nccl_values.LONGEST:
        raise DeclarationError(f"{name}: {len(text)} characters, of which NCCL reads {nccl_values.LONGEST}")
    return text


def _short(value: Any) -> str:
    """A value in a message, of which a hostile one may have millions of characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _refuse_too_many_sockets(wanted: Mapping[str, str | None]) -> None:
    threads, each = (int(wanted.get(key_of(name)) or 1) for name in (_THREADS, _PER_THREAD))
    if threads * each > _MAX_SOCKETS:
        raise DeclarationError(
            f"{_THREADS} {threads} with {_PER_THREAD} {each} is {threads * each} sockets of a connection, "
            f"and NCCL takes {_MAX_SOCKETS}"
        )
