# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request over HTTP (RFC 9110), with limits of time and size for all of it.

Certificates are verified against the node's trust store. A redirect is an answer like any other, and no proxy
is used: the request goes to the given server only.
"""

from __future__ import annotations

from typing import Mapping
from urllib.parse import urlsplit

from ..model.errors import HostError, printable
from ..model.record import NamedTuple, regex
from . import alarm

#: From the name lookup to the last byte. A limit of each read alone would never stop a server that sends a
#: byte now and then.
SECONDS = 30.0

#: Longest error text of a server to show, in characters: as much as fits in a line
_SHOWN = 200


#: RFC 9110, 8.8.3, in ASCII: a stored etag must not break the file that contains it
_ETAG = regex(r'(?:W/)?"[!#-~]{0,200}"\Z')


class Answer(NamedTuple):
    """etag: as the server sent it, with its quotes; empty if it sent none that can be stored."""

    status: int
    reason: str
    etag: str
    body: bytes


class _LateError(Exception):
    """The time is over."""


def get(url: str, etag: str, most: int, seconds: float = SECONDS) -> Answer:
    """The document, or status 304 if its etag is unchanged. most: bytes of a body. Raises HostError for
    anything but a whole answer."""
    return _ask("GET", url, {"If-None-Match": etag} if etag else {}, None, most, seconds)


def post(url: str, content: bytes, most: int, seconds: float = SECONDS) -> Answer:
    """As get(), but sends JSON."""
    return _ask("POST", url, {"Content-Type": "application/json"}, content, most, seconds)


def _ask(
    method: str, url: str, headers: Mapping[str, str], content: bytes | None, most: int, seconds: float
) -> Answer:
    import http.client  # only here: few commands reach the network

    purpose = "fetch" if method == "GET" else "send to"
    try:
        with alarm.limited(seconds, _LateError()):
            return _exchange(method, url, {**headers, "User-Agent": "mlnode"}, content, most)
    except _LateError:
        raise HostError(purpose, url, None, f"no whole answer in {seconds:g} s") from None
    except http.client.HTTPException as error:
        words = f"no answer of HTTP: {type(error).__name__} {str(error)[:_SHOWN]}"
        raise HostError(purpose, url, None, printable(words)) from error
    except (OSError, ValueError) as error:  # of TLS and names, the errno has another meaning
        raise HostError(purpose, url, None, printable(str(error)[:_SHOWN])) from error


def _exchange(method: str, url: str, headers: Mapping[str, str], content: bytes | None, most: int) -> Answer:
    import http.client

    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port)
    try:
        connection.request(method, parts.path or "/", content, {**headers, "Connection": "close"})
        response = connection.getresponse()
        body = response.read(most + 1)
        if len(body) > most:
            raise ValueError(f"the answer has more than {most} bytes")
        if response.length:  # what Content-Length has promised on top
            raise ValueError(f"the answer ends {response.length} bytes too early")
        etag = response.headers.get("ETag", "")
        kept = etag if _ETAG.match(etag) else ""
        return Answer(response.status, printable(response.reason[:_SHOWN]), kept, body)
    finally:
        connection.close()
