# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import re

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.model.errors import HostError, MlnodeError, TransactionError


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO])
def test_missing_things_are_absent(number: int) -> None:
    assert HostError("read", "/proc/sys/x", number).absent


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EINVAL, errno.EISDIR, errno.ELOOP, None])
def test_what_is_there_but_cannot_be_had_is_not_absent(number: int | None) -> None:
    assert not HostError("read", "/proc/sys/x", number).absent


@cases.table
def test_an_errno_is_explained(number: int, words: str) -> None:
    text = str(HostError("write '1' to", "/proc/sys/x", number))
    assert text.startswith(f"cannot write '1' to /proc/sys/x: {errno.errorcode[number]} (")
    assert words in text


def test_an_errno_without_an_explanation_has_its_name_and_the_system_words() -> None:
    assert HostError("read", "/x", errno.EISDIR).kernel == "EISDIR (Is a directory)"


def test_an_errno_unknown_here_is_a_number() -> None:
    assert HostError("read", "/x", 9999).kernel.startswith("9999 (")


def test_a_reason_in_words_stands_where_there_is_no_errno() -> None:
    assert str(HostError("find", "/x", None, "no such row")) == "cannot find /x: no such row"


@cases.table
def test_a_transaction_error_tells_what_became_of_the_rest(
    undone: list[str], stuck: list[str], text: str
) -> None:
    error = TransactionError("it failed", undone, stuck)
    assert (str(error), error.rolled_back, error.stuck) == (text, undone, stuck)
    assert isinstance(error, MlnodeError)


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_no_error_is_said_twice(number: int) -> None:
    """strerror(3) and the words for its cause."""
    words = HostError("write", "/proc/sys/x", number).kernel.partition("(")[2]
    pieces = [re.sub(r"\W+", " ", piece).strip().lower() for piece in re.split(r"[;,)]", words)]
    said = [piece for piece in pieces if piece]
    assert not [one for at, one in enumerate(said) for other in said[:at] if one in other or other in one]
