# SPDX-License-Identifier: Apache-2.0
"""Promises to survive a loss: what may be lost, and what is no promise."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from fleet.db.operations import tolerances
from fleet.objects import tolerance
from fleet.objects.survival import Loss
from fleet.objects.tolerance import Tolerance
from tests.factories import aggregate

HOSTS = ["a", "b", "c", "d"]
RACKS = {"a": "r1", "b": "r1", "c": "r2"}


def losses(number: int, label: str | None) -> list[Loss]:
    return list(Tolerance(number=number, label=label).losses(HOSTS, RACKS) or ())


def test_any_host() -> None:
    assert [Loss(host, [host]) for host in HOSTS] == losses(1, None)


def test_any_two_hosts() -> None:
    assert ["a b", "a c", "a d", "b c", "b d", "c d"] == [each.name for each in losses(2, None)]


def test_any_rack() -> None:
    """A host without the label is a rack of its own."""
    assert [Loss("rack=r1", ["a", "b"]), Loss("rack=r2", ["c"]), Loss("d", ["d"])] == losses(1, "rack")


def test_more_may_be_lost_than_there_is() -> None:
    assert [Loss("rack=r1 rack=r2 d", ["a", "b", "c", "d"])] == losses(4, "rack")


def test_a_scope_without_hosts_loses_nothing() -> None:
    assert [] == list(Tolerance().losses([], {}) or ())


def test_too_many_combinations() -> None:
    """300 hosts have 44,850 pairs."""
    many = [f"h{number}" for number in range(300)]
    assert tolerance.MOST_LOSSES < 300 * 299 / 2
    assert Tolerance(number=2).losses(many, {}) is None
    assert Tolerance(number=1).losses(many, {}) is not None


@pytest.mark.parametrize(
    ("wire", "field"),
    [
        pytest.param({"kind": "rack"}, "tolerance.kind", id="no such scope"),
        pytest.param({"kind": "zone"}, "tolerance.name", id="a zone without a name"),
        pytest.param({"kind": "fleet", "name": "x"}, "tolerance.name", id="the fleet has no name"),
        pytest.param({"number": 0}, "tolerance.number", id="nothing"),
        pytest.param({"number": 10**300}, "tolerance.number", id="too many"),
        pytest.param({"number": 1.0}, "tolerance.number", id="no whole number"),
        pytest.param({"label": "a b"}, "tolerance.label", id="no key of a label"),
        pytest.param({"policy": "hope"}, "tolerance.policy", id="no such policy"),
        pytest.param([], "tolerance", id="no mapping"),
    ],
)
def test_what_is_no_promise(wire: Any, field: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        Tolerance.from_wire(wire)
    assert field == refused.value.field


def test_the_hosts_of_a_scope() -> None:
    known = [aggregate(["a", "b", "gone"], 1, availability_zone="east"), aggregate(["c"], 2)]
    assert HOSTS == tolerances.hosts_of(Tolerance(), HOSTS, known, "nova")
    assert ["a", "b"] == tolerances.hosts_of(Tolerance("zone", "east"), HOSTS, known, "nova")
    assert ["c"] == tolerances.hosts_of(Tolerance("aggregate", known[1].name), HOSTS, known, "nova")


def test_the_default_zone_has_the_hosts_without_a_zone() -> None:
    """As for the zone filter. An aggregate may also name it."""
    known = [aggregate(["a"], 1, availability_zone="east"), aggregate(["b"], 2)]
    without = [host for host in HOSTS if host != "a"]
    assert without == tolerances.hosts_of(Tolerance("zone", "nova"), HOSTS, known, "nova")
    assert ["a"] == tolerances.hosts_of(Tolerance("zone", "east"), HOSTS, known, "nova")
    assert HOSTS == tolerances.hosts_of(Tolerance("zone", "nova"), HOSTS, [], "nova")
    named = [*known, aggregate(["a"], 3, availability_zone="nova")]
    assert HOSTS == tolerances.hosts_of(Tolerance("zone", "nova"), HOSTS, named, "nova")


def test_in_words() -> None:
    assert ("fleet", "1 host") == (Tolerance().scope, Tolerance().what)
    assert ("zone east", "2 hosts") == (Tolerance("zone", "east", 2).scope, Tolerance("zone", "east", 2).what)
    assert "1 rack" == Tolerance(label="rack").what
