# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.agent import registry
from mlnode.agent.registry import KINDS
from mlnode.knobs.nic import parse as nic_parse
from mlnode.knobs.qos import parse as qos_parse
from mlnode.knobs.rail import parse as rail_parse
from mlnode.model import schema
from mlnode.model.errors import DeclarationError
from mlnode.model.schema import Option

RULE: dict[str, Any] = {"name": "a", "mtu": 9000}


def checked(area: str, spec: Any) -> dict[str, Any]:
    return schema.checked(area, spec, registry.options(area))


@cases.table
def test_a_declaration_is_copied_in_its_plain_form(area: str, spec: Any, found: Any) -> None:
    before = copy.deepcopy(spec)

    assert checked(area, spec) == found
    assert spec == before


# -- every table ---------------------------------------------------------------------------


def every(table: schema.Table, at: str) -> list[tuple[str, Option]]:
    found = []
    for name, option in table.items():
        inner = {**option.suboptions, **option.fields, **({"*": option.values} if option.values else {})}
        found += [(f"{at}.{name}", option), *every(inner, f"{at}.{name}")]
    return found


TABLES = {area: every(registry.options(area), area) for area in KINDS}


@pytest.mark.parametrize("area", TABLES)
def test_a_table_contradicts_itself_nowhere(area: str) -> None:
    for where, option in TABLES[area]:
        assert (option.elements != "") == (option.type == "list"), where
        assert option.default is None or not option.required, where
        if option.choices and option.default:
            assert {*([option.default] if option.type == "str" else option.default)} <= {*option.choices}, (
                where
            )
        if option.keyed and option.elements == "dict":
            assert option.suboptions[option.keyed].required, where
        if option.joined:
            assert [name for name, _option in TABLES[area] if name.endswith(f".{option.joined}")], where


@pytest.mark.parametrize("area", TABLES)
def test_each_option_that_ansible_is_shown_has_a_text(area: str) -> None:
    def shown(table: schema.Table) -> list[Option]:
        return [inner for option in table.values() for inner in (option, *shown(option.suboptions))]

    for option in shown(registry.options(area)):
        paragraphs = [" ".join(text.split()) for text in option.text.split("\n\n")]
        assert all(text.endswith((".", ").")) for text in paragraphs), option.text


@pytest.mark.parametrize("parser", [nic_parse, rail_parse, qos_parse])
def test_a_parser_reads_each_option_of_a_rule(parser: Any) -> None:
    rule = registry.options(parser.KIND)["rules"].suboptions
    assert {name for name, option in rule.items() if option.declares} == {*parser.GROUPS}


# -- properties ----------------------------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 300),
    st.sampled_from(
        ["1", "on", "no", "auto", "eth0", "none", "leave", "performance", "0-3", "", "x y", "\n"]
    ),
    st.floats(allow_nan=False, allow_infinity=False),
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("ab1", max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)


def of_option(option: Option) -> st.SearchStrategy[Any]:
    """Something that mostly has the right shape."""
    if option.type == "list":
        element = of_option(option.element)
        listed = st.lists(element, max_size=2)
        return (
            listed | st.dictionaries(st.sampled_from("ab"), element, max_size=2) if option.keyed else listed
        )
    if option.names:
        known = {name: of_option(inner) for name, inner in option.names.items()}
        return st.fixed_dictionaries({}, optional=known)
    if option.values:
        return st.dictionaries(
            st.sampled_from(["1", "64kB", "a", "tso"]), of_option(option.values), max_size=2
        )
    if option.choices:
        return st.sampled_from(option.choices) | LEAVES
    if option.form:
        return st.from_regex(re.compile(option.form.pattern.pattern, option.form.pattern.flags)) | LEAVES
    if option.type == "int":
        return st.integers(option.least, option.most).flatmap(lambda one: st.sampled_from([one, str(one)]))
    return {"bool": st.booleans() | st.sampled_from(["on", "off"]), "str": st.text("ab1-", max_size=3)}.get(
        option.type, ANYTHING
    )


DECLARATIONS = st.sampled_from([*KINDS]).flatmap(
    lambda area: st.tuples(
        st.just(area), of_option(Option("dict", suboptions=registry.options(area))) | ANYTHING
    )
)


@quick
@given(DECLARATIONS)
def test_what_was_checked_is_plain_and_stays_as_it_is(found: tuple[str, Any]) -> None:
    area, spec = found
    try:
        plain = checked(area, spec)
    except DeclarationError:
        return
    assert json.loads(json.dumps(plain)) == plain
    assert checked(area, plain) == plain
    assert None not in [*plain.values()]
