# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A declaration of a node as a web server has it: a signature of OpenSSH, and the signed JSON.

It is one file, because two could be fetched in different versions. Its content matches the question of a
controller's action to the agent, see call.py.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

from ..engine import declared
from ..model import schema, strict_json
from ..model.errors import MlnodeError, StoreError
from ..model.record import NamedTuple
from . import waivers
from .registry import KINDS

#: Raised with every change that an older agent would misunderstand
FORMAT = 1

#: Other signatures with the same key are not accepted (ssh-keygen(1), -n)
NAMESPACE = "mlnode-pull@mlnode.tuning"

#: Bytes; a declaration with a hundred rules for NICs has some 50,000 characters
MOST = 1 << 20

#: The last line of a signature (PROTOCOL.sshsig)
_END = b"-----END SSH SIGNATURE-----\n"
#: It has some 300 bytes, and 1,500 with RSA
_LONGEST = 8192

#: Options of a question `declare`, without those that depend on the node or the moment
FIELDS: Mapping[str, type] = {
    **dict.fromkeys(("name", "on_unsupported", "fabric_type", "fail_at"), str),
    **dict.fromkeys(("layers", "selected", "ignore"), list),
    "leave": bool,
    **dict.fromkeys(("areas", "profile"), dict),
}

Declarations = Sequence[Mapping[str, Any]]


class Document(NamedTuple):
    """serial: greater than all earlier ones; Unix time, unless a clock went back."""

    node: str
    serial: int
    declarations: Declarations

    @property
    def window(self) -> Sequence[str]:
        """Times at which it may be applied."""
        specs = (item["areas"].get("pull") or {} for item in self.declarations)
        return next((spec["window"] for spec in specs if spec.get("window")), ())


def file_name(node: str) -> str:
    """Name of the file on the server."""
    return f"{node}.signed"


def render(document: Document) -> bytes:
    """JSON in the order of the declarations, which is the order of the writes. Raises ValueError if it is too
    long."""
    fields = {"format": FORMAT, **document._asdict()}
    text = json.dumps(fields, ensure_ascii=True, separators=(",", ":")) + "\n"
    if len(text) > MOST - _LONGEST:
        raise ValueError(f"{len(text)} bytes; at most {MOST - _LONGEST} are allowed")
    return text.encode("ascii")


def split(body: bytes) -> tuple[bytes, bytes]:
    """Signature and JSON. Raises MlnodeError if the file has another form."""
    signature, end, content = body.partition(_END)
    if not end or not content or len(signature) > _LONGEST or not content.isascii():
        raise MlnodeError("it is not a signed document of mlnode")
    return signature + end, content


def parse(content: bytes) -> Document:
    """Raises MlnodeError for what render() would not have written."""
    where = "the document"
    fields = strict_json.document(content, where, FORMAT)
    try:
        node, serial, declarations = strict_json.typed(
            fields, {"node": str, "serial": int, "declarations": list}
        )
        for item in declarations:
            strict_json.typed(item, FIELDS)
            if {*item} != {*FIELDS}:
                raise ValueError(f"a declaration has other fields than {', '.join(FIELDS)}")
            strict_json.typed({"pull": {}, **item["areas"]}, {"pull": dict})
            for exception in item["ignore"]:
                strict_json.typed(exception, waivers.FIELDS)
    except ValueError as error:
        raise StoreError(f"{where} is not one of mlnode: {error}") from error
    return Document(node, serial, declarations)


def check(declarations: Declarations) -> None:
    """Raises MlnodeError for a declaration that is wrong on any node: unknown areas and options, and values
    that they do not take."""
    for item in declarations:
        name = declared.check_name(item["name"])
        try:
            schema.refuse_unknown("declaration", item["areas"], tuple(KINDS))
            for area, spec in item["areas"].items():
                KINDS[area].parse(KINDS[area].checked(spec), None)
        except MlnodeError as error:
            raise MlnodeError(f"{name}: {error}") from error
