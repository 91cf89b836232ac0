# SPDX-License-Identifier: Apache-2.0
"""The section [tolerance]."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from fleet import errors, tolerance_conf
from fleet.objects.tolerance import Tolerance


def of_fleet(tolerates: str, policy: str = "warn") -> Tolerance | None:
    conf = cfg.ConfigOpts()
    tolerance_conf.register_opts(conf)
    conf([])
    conf.set_override("tolerates", tolerates, group="tolerance")
    conf.set_override("policy", policy, group="tolerance")
    return tolerance_conf.of_fleet(conf)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 host", Tolerance()),
        (" 2 hosts ", Tolerance(number=2)),
        ("1 rack", Tolerance(label="rack")),
        ("3  power/feed", Tolerance(number=3, label="power/feed")),
        ("", None),
    ],
)
def test_what_is_promised(text: str, expected: Tolerance | None) -> None:
    assert expected == of_fleet(text)
    if expected is not None:
        assert expected == of_fleet(expected.what)


def test_the_policy() -> None:
    assert Tolerance(policy="refuse") == of_fleet("1 host", "refuse")


@pytest.mark.parametrize(
    "text", ["host", "1", "one host", "0 hosts", "5 hosts", "1.5 hosts", "-1 host", "9" * 400 + " hosts", "1 a b"]
)
def test_what_is_no_promise(text: str) -> None:
    """The service does not start, and its message names the option."""
    with pytest.raises(errors.ConfigError, match=r"\[tolerance\] tolerates "):
        of_fleet(text)
