# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of programs and drivers as a captured tree keeps them: JSON, `{"format": N, "answers": {...}}`."""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping


def answers(
    content: bytes, form: int, of: str, wrong: Callable[[Mapping[str, Any]], str]
) -> Mapping[str, Any]:
    """form: the number of the format. of: what was captured. wrong: what is wrong with answers, or nothing.

    Raises ValueError with words for an operator.
    """
    try:
        document: Any = json.loads(content)
        if document["format"] != form:
            raise ValueError(f"its format is {document['format']!r} and not {form}")
        recorded: Mapping[str, Any] = document["answers"]
        if not isinstance(recorded, dict):
            raise ValueError("it has no answers by name")
        problem = wrong(recorded)
        if problem:
            raise ValueError(problem)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem_text = f"damaged ({type(error).__name__}: {str(error)[:100]}): capture the {of} again"
        raise ValueError(problem_text) from error
    return recorded


def are_texts(answer: Any) -> bool:
    """True if these are texts by field."""
    return isinstance(answer, dict) and all(isinstance(value, str) for value in answer.values())
