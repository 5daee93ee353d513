# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area pull."""

from __future__ import annotations

import re

from ...model.record import regex
from ...model.schema import Form, Option, Table
from ...model.setting import Severity
from .window import FORM as WINDOW

_PORT = regex(r"\Ahttps?://[^/]*:([0-9]{1,5})(?:/|\Z)", re.ASCII)


def _address(text: str) -> str:
    port = _PORT.match(text)
    if port and not 0 < int(port.group(1)) < 1 << 16:
        raise ValueError
    return text.rstrip("/")


#: Without a user: it would be a secret in a world-readable file
_URL = Form(
    regex(
        r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
        r"(?:/[A-Za-z0-9._~%+-]{1,100}){0,20}/?\Z",
        re.ASCII,
    ),
    "an address such as https://config.example/mlnode",
    _address,
)

#: A part of a URL and the name of a file
NODE = Form(
    regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}\Z", re.ASCII),
    "a name of letters, digits, dots, dashes and underscores that starts with a letter or digit",
)


def _key(text: str) -> str:
    """A key without its comment."""
    return " ".join(text.split(" ")[:2])


#: As in sshd(8), AUTHORIZED_KEYS FILE FORMAT, without options
_KEY = Form(
    regex(r"[a-z0-9@.-]{7,60} [A-Za-z0-9+/]{16,4096}={0,2}(?: [^\0\n]{0,200})?\Z", re.ASCII),
    "a public key as in a file of ssh-keygen, such as ssh-ed25519 AAAA...",
    _key,
)

OPTIONS: Table = {
    "url": Option(
        "str",
        """
        The folder on a web server that holds what M(mlnode.tuning.publish) has written. Unset leaves the
        timer off. Redirects are not followed, and no proxy is used.
        """,
        form=_URL,
        severity=Severity.MEDIUM,
        reason="without it this node stays as it was declared when a playbook was last played on it",
        source="docs/guide/pull.md",
    ),
    "node": Option(
        "str",
        "The name of this node there. A document for another one is refused.",
        form=NODE,
        joined="url",
    ),
    "signers": Option(
        "list",
        "Public keys; one of them must have signed the document.",
        elements="str",
        form=_KEY,
        default=[],
        declares=False,
    ),
    "window": Option(
        "list",
        """
        Times in UTC at which a new document is applied, such as V(Sat,Sun 22:00-04:00); at other times it is
        only checked. Unset means at any time. The window in the new document counts.
        """,
        elements="str",
        form=WINDOW,
        default=[],
        declares=False,
    ),
    "report": Option(
        "str",
        """
        Address for a report by POST, unless nothing is new. The report is also in
        C(/run/mlnode/pull/report.json).
        """,
        form=_URL,
        declares=False,
    ),
}
