# SPDX-License-Identifier: Apache-2.0
"""The operators of extra specs."""

from __future__ import annotations

import pytest

from scheduler.compute.filters import extra_specs_ops

CASES = [
    ("no operator is equality", "1", "1", True),
    ("no operator, other value", "1", "11", False),
    ("no operator compares the whole text, blanks included", "a b", "a b", True),
    ("an empty requirement wants an empty value", "", "", True),
    ("nothing has no value", None, "= 1", False),
    ("a lone = is at least: more", "123", "= 122", True),
    ("a lone = is at least: equal", "123", "= 123", True),
    ("a lone = is at least: less", "123", "= 124", False),
    ("== is equal, as a number", "5.0", "== 5", True),
    ("!= is not equal, as a number", "5.0", "!= 5", False),
    (">= as a number, not as a text", "10", ">= 9", True),
    ("<= as a number, not as a text", "10", "<= 9", False),
    ("what follows the operand is ignored", "10", ">= 9 and more", True),
    ("an operator without an operand", "10", ">=", False),
    ("a host's value that is no number", "many", ">= 9", False),
    ("there is no numeric <", "5", "< 9", False),
    ("s== as a text", "5.0", "s== 5", False),
    ("s!= as a text", "5.0", "s!= 5", True),
    ("s< as a text", "10", "s< 9", True),
    ("s<= as a text", "9", "s<= 9", True),
    ("s> as a text", "10", "s> 9", False),
    ("s>= as a text", "9", "s>= 9", True),
    ("<in> is a part of the text", "12311321", "<in> 11", True),
    ("<in> is no part of the text", "12310321", "<in> 11", False),
    ("<in> without an operand", "1", "<in>", False),
    ("<all-in> has all words", "['aes', 'mmx', 'aux']", "<all-in> aes mmx", True),
    ("<all-in> lacks a word", "['aes', 'mmx', 'aux']", "<all-in> aes txt", False),
    ("<all-in> without an operand", "aes", "<all-in>", False),
    ("<or> first", "12", "<or> 12 <or> 11", True),
    ("<or> second", "11", "<or> 12 <or> 11", True),
    ("<or> neither", "13", "<or> 12 <or> 11", False),
    ("<or> compares whole words", "1", "<or> 12 <or> 11", False),
    ("<or> takes every other word, whatever is between", "11", "<or> 12 and 11", True),
]


@pytest.mark.parametrize(("value", "wanted", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_match(value, wanted, expected):
    """A value meets a requirement, or not."""
    assert expected == extra_specs_ops.match(value, wanted)


@pytest.mark.parametrize("wanted", ["<or>", ">= many", "= x", "== five", "!= x"])
def test_requirements_without_sense(wanted):
    """A requirement that no host can meet, because it is malformed, is refused with the reason."""
    with pytest.raises(ValueError, match="needs a"):
        extra_specs_ops.match("1", wanted)
