# SPDX-License-Identifier: Apache-2.0
"""Values that were found by running cinder's scheduler."""

from __future__ import annotations

import itertools

import numpy
import pytest

from fleet.pool_capacity import Space
from scheduler.engine.weighing import normalise
from scheduler.volumes import filters, weights
from scheduler.volumes.domain import equation, space
from scheduler.volumes.domain.domain import consumption
from scheduler.volumes.filters import extra_specs
from tests.unit.scheduler.volumes import reference
from tests.unit.scheduler.volumes.pools import Pool, candidates, passed, request, typed

THIN = {"thin_provisioning_support": True, "max_over_subscription_ratio": "2.0"}
THICK_TYPE = typed(provisioning__type="thick")


@pytest.mark.parametrize(
    ("total", "free", "provisioned", "thin", "ratio", "reserved", "thin_request", "expected"),
    [
        (500, 100, 400, True, "2.0", 10, True, 500.0),
        (500, 100, 600, True, "2.0", 10, True, 300.0),
        (500, 100, 400, False, "2.0", 10, True, 50.0),
        (500, 100, 400, True, "2.0", 10, False, 50.0),
        (500, 480, 400, False, "1.0", 10, True, 50.0),
        (0, 0, 0, True, "2", 0, True, 0.0),
        (105, 50, 0, True, "1.5", 5, True, 150.0),
    ],
)
def test_the_space_left_for_new_volumes(total, free, provisioned, thin, ratio, reserved, thin_request, expected):
    """``virtual_free`` of cinder's calculate_capacity_factors."""
    pool = Pool(
        total_capacity_gb=total,
        free_capacity_gb=free,
        provisioned_capacity_gb=provisioned,
        thin_provisioning_support=thin,
        max_over_subscription_ratio=ratio,
        reserved_percentage=reserved,
    )
    assert [expected] == space.room(candidates(pool), thin_request).tolist()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"total_capacity_gb": 100, "free_capacity_gb": 40, "provisioned_capacity_gb": 200}, 4.278688524590164),
        ({"total_capacity_gb": 100, "free_capacity_gb": 40, "provisioned_capacity_gb": 0}, 20),
        ({"total_capacity_gb": 100, "free_capacity_gb": 101, "provisioned_capacity_gb": 200}, 20),
        ({"max_over_subscription_ratio": None}, 20.0),
        ({"total_capacity_gb": None}, 1.0),
    ],
)
def test_the_ratio_of_a_pool(columns, expected):
    """Automatic unless said; a pool that reports none has the default, one of unknown size has 1."""
    pool = Pool(**{"thin_provisioning_support": True, "max_over_subscription_ratio": "auto", **columns})
    assert expected == candidates(pool).state(0).max_over_subscription_ratio


@pytest.mark.parametrize(
    ("case", "columns", "asked", "expected"),
    [
        ("thin, just fits", THIN, request(600), True),
        ("thin, one too many", THIN, request(601), False),
        ("grows by 600", THIN, request(10, new_size=610), True),
        ("grows by 601", THIN, request(10, new_size=611), False),
        ("does not grow", {**THIN, "free_capacity_gb": 0}, request(10, new_size=10), True),
        ("size 0, as where a volume is managed", {**THIN, "total_capacity_gb": 0}, request(0), True),
        ("a thick type on a thin pool", THIN, request(101, THICK_TYPE), False),
        ("a ratio below 1, thin", {**THIN, "max_over_subscription_ratio": "0.5"}, request(1), False),
        ("a ratio below 1, thick", {**THIN, "max_over_subscription_ratio": "0.5"}, request(1, THICK_TYPE), True),
        (
            "thick, provisioned beyond its total",
            {"free_capacity_gb": 300, "provisioned_capacity_gb": 600},
            request(1),
            False,
        ),
        ("unknown total, nothing reserved", {"total_capacity_gb": None}, request(1000), True),
        ("unknown total, 5 % reserved", {"total_capacity_gb": None, "reserved_percentage": 5}, request(1), False),
        ("no total", {"total_capacity_gb": 0}, request(1), False),
        ("everything reserved", {**THIN, "reserved_percentage": 100}, request(1), False),
    ],
)
def test_room_for_a_volume(case, columns, asked, expected):
    """500 GiB, 100 free, 400 provisioned, unless the case says otherwise."""
    assert expected == bool(passed(filters.CapacityFilter(), candidates(Pool(**columns)), asked)), case


def test_the_pool_that_has_the_volume_has_room_for_it():
    full = candidates(Pool(free_capacity_gb=0))
    assert {"m1@lvm#p1"} == passed(filters.CapacityFilter(), full, request(50, vol_exists_on="m1@lvm#p1"))
    assert set() == passed(filters.CapacityFilter(), full, request(50, vol_exists_on="m1@lvm#p2"))
    assert set() == passed(filters.CapacityFilter(), full, request(5, new_size=55, vol_exists_on="m1@lvm#p1"))


@pytest.mark.parametrize(
    ("bounds", "expected"), [((None, None), [0.0, 0.5, 1.0]), ((0, 10), [0.1, 0.2, 0.3]), ((2, 2), [0.0, 0.5, 1.0])]
)
def test_normalised_weights(bounds, expected):
    """Fixed bounds are widened to what is observed."""
    raw = numpy.array([1.0, 2.0, 3.0])
    low, high = normalise.bounds(normalise.observed(raw), *bounds, "widen")
    assert expected == pytest.approx(normalise.contribution(raw, low, high, 1.0).tolist())


@pytest.mark.parametrize(
    ("free", "expected"), [([None, 10], [10010, 10]), ([None, 10, 30], [2030, 10, 30]), ([None, None], [0, 0])]
)
def test_pools_without_a_size_come_last(free, expected):
    """Of a pool without a size only the order counts: behind the others, for a positive and for a negative multiplier."""
    pools = candidates(
        *(
            Pool(pool=f"p{n}", total_capacity_gb=100, provisioned_capacity_gb=0, free_capacity_gb=each)
            for n, each in enumerate(free)
        )
    )
    assert expected == weights.CapacityWeigher(-1.0).raw(pools, request()).tolist()
    spread = weights.CapacityWeigher(1.0).raw(pools, request()).tolist()
    assert [-1 if each is None else each for each in free] == spread


@pytest.mark.parametrize(
    ("value", "wanted", "expected"),
    [
        ("4", "= 3", True),
        ("abc", "<in> b", True),
        (["a", "b"], "<in> a", True),
        ("x", "<or> x <or> y", True),
        ("y", "<or> x <or> y", True),
        ("<or>", "<or> x <or> y", False),
        ("5", "> 3", False),
        ("5", "<= 5 6", True),
        ("5", ">= ", False),
        ("x", "!= y", False),
        (True, "<is> true", True),
        (True, "True", False),
        (1, "1", False),
        (None, "s== x", False),
        (None, None, True),
        ("x", None, False),
        ("", "", True),
        ("", " ", False),
        (5, "s< 7", False),
        ("x", "<or>", False),
        ("x", "<all-in> x", False),
    ],
)
def test_operators_of_extra_specs(value, wanted, expected):
    """Where cinder raises, the pool does not pass."""
    assert expected == extra_specs.requirement(wanted)(value)


VARIABLES = {
    "stats": {"p": "FC", "free": 300, "s": "12", "f": 7.9, "on": True, "none": None},
    "volume": {"size": 4},
    "extra": {"b_c": "7"},
    "qos": None,
}
ERROR = "error"


@pytest.mark.parametrize(
    ("text", "expected", "as_cinder"),
    [
        ("stats.p == FC", True, True),
        ("stats.free < 500 ? 1 : 0", 1, 1),
        ("max(stats.free / 2, 10)", 150.0, 150.0),
        ("extra.b_c", 7, 7),
        ("stats.s > 5", True, True),
        ("10/0", ERROR, ERROR),
        ("stats.nope", ERROR, ERROR),
        ("foo.bar", ERROR, ERROR),
        ("qos.x", ERROR, ERROR),
        ("foo", "foo", "foo"),
        ("1<>2", True, True),
        ("1 ? 2 : 3 ? 4 : 5", 2, 2),
        ("0 ? 2 : 3 ? 4 : 5", 4, 3),
        ("abs(0-5) + 1", 6, 6),
        ("volume.size < 10 and stats.free > 5", True, True),
        ("(1 == 1) and (2 == 2) and (1==0)", False, True),
        ("0 or 0 or 5", 5, 0),
        ("1 and 0 or 1", 1, 1),
        ("2 > 1 and 1 == 1 ? 5 : 6", 5, 5),
        ("stats.f > 7.5", True, False),
        ("2^3^2", 512, 512),
        ("2 ^ -1", ERROR, ERROR),
        ("2 ^ (-1)", 0.5, 0.5),
        ("-2^2", -4, -4),
        ("--5", 5, 5),
        ("abs -5", ERROR, ERROR),
        ("abs 5", 5, 5),
        ("max(1, 2, 3) - min(1, 2)", 2, 2),
        ("max(3)", ERROR, ERROR),
        ("not 1 == 2", False, False),
        ("!0", True, True),
        ("1 < 2 < 3", True, True),
        ("1 < 3 < 2", False, False),
        ("0 or 3", 3, 3),
        ("1 && 2", 2, 2),
        ("'a' + \"b\"", "ab", "ab"),
        ("'12'", 12, "12"),
        ("'12' == 12", True, False),
        ("max(1, (2, 3))", 3, 3),
        ("max((1, 2), 3)", ERROR, ERROR),
        ("'a' * 3", ERROR, "aaa"),
        ("3 * 'a'", ERROR, "aaa"),
        ("'a' * 'b'", ERROR, ERROR),
        ("'a' * 1.5", ERROR, ERROR),
        (".x", ".x", ".x"),
        ("x.", "x.", "x."),
        ("abs", "abs", "abs"),
        ("max == max", True, True),
        ("abs and 1", 1, 1),
        ("stats.p == 'FC' and min(2, 1)", 1, 1),
        ("\u0663", ERROR, ERROR),
        ("1\u0663", ERROR, ERROR),
        ("true == True", False, False),
        ("stats.on == 1", True, True),
        ("stats.none == 1", ERROR, ERROR),
        ("FC > 3", ERROR, ERROR),
        ("FC == 3", False, False),
        (".5", ERROR, ERROR),
        ("1e3", ERROR, ERROR),
        ("a1", ERROR, ERROR),
        ("1 % 2", ERROR, ERROR),
        ("1 = 1", ERROR, ERROR),
        ("(1", ERROR, ERROR),
        ("", ERROR, ERROR),
        ("9^9^9", ERROR, ERROR),
        ("'a' * 999999999", ERROR, ERROR),
        ("(" * 400 + "1" + ")" * 400, ERROR, ERROR),
        ("1+" * 6000 + "1", ERROR, ERROR),
    ],
)
def test_equations(text, expected, as_cinder):
    """The language of filter_function and goodness_function, and where cinder's own parser differs."""
    assert (expected, as_cinder) == (_computed(text, False), _computed(text, True))


def _computed(text, as_cinder):
    try:
        return equation.parse(text, as_cinder).value(VARIABLES)
    except equation.EquationError:
        return ERROR


@pytest.mark.parametrize("requested", [1, 3, 50, 105, 4096, 99_999])
@pytest.mark.parametrize("short_gb", [0.004, 0.005, 0.006])
@pytest.mark.parametrize("placed", [0, 7])
def test_the_columns_round_as_the_claim_does(requested, short_gb, placed):
    """A pool with almost enough room passes exactly if the claim takes it, also after other volumes."""
    free = requested - short_gb + placed
    pools = candidates(Pool(total_capacity_gb=1e6, free_capacity_gb=free, provisioned_capacity_gb=0))
    pools.pick(0, "x", consumption(request(placed)), request(placed))
    claim = Space(total_gb=1e6, free_gb=free - placed, provisioned_gb=placed)
    fits = claim.lacks_gb(requested, thin_request=False) == 0
    assert fits == bool(passed(filters.CapacityFilter(), pools, request(requested)))


@pytest.mark.parametrize("asked", [request(1), request(1, THICK_TYPE)], ids=["thin", "thick"])
def test_the_room_of_every_kind_of_pool(asked):
    """The columns equal the arithmetic of the claim to the last bit, also where numpy rounds halves otherwise."""
    sizes = (0.0, 10.0, 49.994, 49.995, 49.996, 100.0, 500.0)
    kinds = itertools.product(sizes, sizes, sizes, [0, 5, 100], [None, "auto", "2.5"], [True, False])
    pools = [
        Pool(
            pool=f"p{number:05d}",
            total_capacity_gb=total,
            free_capacity_gb=free,
            provisioned_capacity_gb=provisioned,
            reserved_percentage=reserved,
            max_over_subscription_ratio=ratio,
            thin_provisioning_support=thin,
        )
        for number, (total, free, provisioned, reserved, ratio, thin) in enumerate(kinds)
    ]
    known, spaces = candidates(*pools), [reference.space(pool) for pool in pools]
    assert [each.factors(asked.thin).virtual_free_gb for each in spaces] == space.room(known, asked.thin).tolist()
    fits = [each.lacks_gb(1, asked.thin) == 0 for each in spaces]
    assert fits == filters.CapacityFilter().mask(known, asked).tolist()
