# SPDX-License-Identifier: Apache-2.0
"""A plugin whose method would fail in each request stops the start."""

from __future__ import annotations

import pytest

from fleet import errors
from scheduler.compute import filters, weights
from scheduler.loading import named_classes, plugin_methods
from scheduler.volumes import filters as volume_filters
from scheduler.volumes import weights as volume_weights


def a_class(base, **methods):
    """A class of a user."""
    return type("Mine", (base,), {"__module__": "mine", **methods})


def two(self, one, other):
    return True


def one_only(self, one):
    return True


def three(self, one, other, third):
    return True


def anything(self, *args, **more):
    return True


def with_default(self, one, other, third=None):
    return True


HOSTS = "host_passes(self, host_state, filter_properties)"
WEIGH = "_weigh_object(self, host_state, weight_properties)"
FAULTS = [
    ("nothing", filters.BaseHostFilter, {}, f"which does not define {HOSTS}"),
    (
        "a typing error",
        filters.BaseHostFilter,
        {"host_pass": two},
        f"which does not define {HOSTS}; it has host_pass, which is never called",
    ),
    (
        "too few",
        filters.BaseHostFilter,
        {"host_passes": one_only},
        f"whose method host_passes cannot be called .* {HOSTS}",
    ),
    (
        "too many",
        filters.BaseHostFilter,
        {"host_passes": three},
        f"whose method host_passes cannot be called .* {HOSTS}",
    ),
    ("filter_all", filters.BaseHostFilter, {"filter_all": one_only}, "whose method filter_all cannot be called"),
    ("a column filter", filters.ColumnFilter, {"maks": two}, "does not define mask.self, hosts, request.; it has maks"),
    ("a mask", filters.ColumnFilter, {"mask": one_only}, "whose method mask cannot be called"),
    ("a built-in one", filters.RamFilter, {"host_passes": one_only}, "whose method host_passes cannot be called"),
    ("cinder's", volume_filters.BaseBackendFilter, {"backend_pass": two}, f"which does not define {HOSTS}"),
    (
        "cinder's too few",
        volume_filters.BaseBackendFilter,
        {"backend_passes": one_only},
        "host_passes cannot be called",
    ),
    ("cinder's columns", volume_filters.ColumnFilter, {}, "which does not define mask"),
    (
        "no weight",
        weights.BaseHostWeigher,
        {"weigh_object": two},
        f"does not define {WEIGH}; it has weigh_object, which",
    ),
    ("a weight", weights.BaseHostWeigher, {"_weigh_object": one_only}, "whose method _weigh_object cannot be called"),
    ("weights", weights.BaseHostWeigher, {"weigh_objects": one_only}, "whose method weigh_objects cannot be called"),
    ("raw", weights.ColumnWeigher, {}, "which does not define raw.self, hosts, request."),
    ("raw's", weights.ColumnWeigher, {"raw": three}, "whose method raw cannot be called"),
    ("multiplier alone", weights.ColumnWeigher, {"weight_multiplier": anything}, "which does not define raw"),
    ("cinder's weight", volume_weights.BaseHostWeigher, {}, f"which does not define {WEIGH}"),
]


@pytest.mark.parametrize(("name", "base", "methods", "expected"), FAULTS)
def test_a_method_that_cannot_be_called(name, base, methods, expected):
    """The message names the option, the class and the method."""
    expected = expected.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(errors.ConfigError, match=f"^Option an_option names class mine.Mine, .*{expected}"):
        named_classes.make(a_class(base, **methods), None, "an_option")


@pytest.mark.parametrize(
    ("base", "methods"),
    [
        (filters.BaseHostFilter, {"host_passes": two}),
        (filters.BaseHostFilter, {"host_passes": anything}),
        (filters.BaseHostFilter, {"host_passes": with_default}),
        (filters.BaseHostFilter, {"host_passes": staticmethod(lambda host, properties: True)}),
        (filters.BaseHostFilter, {"host_passes": min}),
        (filters.BaseHostFilter, {"filter_all": two, "host_passes": one_only}),
        (filters.BaseHostFilter, {"_filter_one": two}),
        (filters.ColumnFilter, {"mask": two}),
        (filters.ColumnFilter, {"host_passes": two}),
        (filters.RamFilter, {}),
        (volume_filters.BaseBackendFilter, {"backend_passes": two}),
        (volume_filters.BaseBackendFilter, {"host_passes": two}),
        (volume_filters.ColumnFilter, {"mask": two}),
        (weights.BaseHostWeigher, {"_weigh_object": two}),
        (weights.BaseHostWeigher, {"weigh_objects": two}),
        (weights.ColumnWeigher, {"raw": two}),
        (weights.ColumnWeigher, {"column": "free_ram_mb"}),
        (weights.ColumnWeigher, {"_weigh_object": two}),
        (volume_weights.BaseHostWeigher, {"_weigh_object": two}),
    ],
)
def test_a_method_that_can_be_called(base, methods):
    """Either form, names of nova and cinder, and a class below one that has the method."""
    cls = a_class(base, **methods)
    plugin = named_classes.make(cls, None, "an_option") if base is not filters.RamFilter else cls()
    assert "" == plugin_methods.fault(plugin)
    derived = type("Derived", (cls,), {"__module__": "theirs"})
    assert "" == plugin_methods.fault(derived())


def test_what_comes_with_the_scheduler():
    """Built-in plugins are not looked at."""
    assert "" == plugin_methods.fault(filters.RamFilter())
