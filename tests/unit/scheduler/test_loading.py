# SPDX-License-Identifier: Apache-2.0
"""Names in the configuration become classes, or stop the service."""

from __future__ import annotations

import pytest

from fleet import errors
from scheduler.compute import filters, weights
from scheduler.compute.drivers import driver_loading, loading
from scheduler.compute.drivers.caching_scheduler import CachingScheduler
from scheduler.compute.drivers.chance import ChanceScheduler
from scheduler.compute.drivers.filter_scheduler import FilterScheduler
from tests.unit.scheduler import plugins_of_one_name
from tests.unit.scheduler.plugins import configuration

HERE = "tests.unit.scheduler.plugins"
ALIKE = "tests.unit.scheduler.plugins_of_one_name"
RAM = "scheduler.compute.filters.ram.RamFilter"
ALL = "scheduler.filters.all_filters"


def names(made):
    return [type(each).__name__ for each in made]


def test_default_filters_in_their_order():
    """Filters run in the order of the option; one named twice runs twice, and is made once."""
    conf = configuration(scheduler_default_filters=["RamFilter", "RetryFilter", "RamFilter"])
    made = loading.load_filters(conf)
    assert ["RamFilter", "RetryFilter", "RamFilter"] == names(made)
    assert made[0] is made[2]


@pytest.mark.parametrize(
    "path",
    [
        "scheduler.filters.all_filters",
        "nova.scheduler.filters.all_filters",
        "scheduler.filters.ram.RamFilter",
        "scheduler.filters.RamFilter",
        "nova.scheduler.filters.ram_filter.RamFilter",
    ],
)
def test_paths_of_built_in_filters(path):
    """nova's dotted paths keep their tail."""
    conf = configuration(scheduler_available_filters=[path], scheduler_default_filters=["RamFilter"])
    assert filters.RamFilter is type(loading.load_filters(conf)[0])


def test_options_reach_the_filters():
    """A built-in filter is made with the values it needs."""
    conf = configuration(default_availability_zone="east", scheduler_default_filters=["AvailabilityZoneFilter"])
    assert "east" == loading.load_filters(conf)[0]._default_zone


def test_a_plugin_beside_the_built_in_filters():
    """A user's filter is made available by its path, and made with no argument."""
    conf = configuration(
        scheduler_available_filters=["scheduler.filters.all_filters", f"{HERE}.SpecifiedHostFilter"],
        scheduler_default_filters=["RamFilter", "SpecifiedHostFilter"],
    )
    assert ["RamFilter", "SpecifiedHostFilter"] == names(loading.load_filters(conf))


def test_filters_besides_the_default_ones():
    """They come after the default filters, which stay; one that the list names already runs once."""
    default = names(loading.load_filters(configuration()))
    conf = configuration(scheduler_additional_filters=[f"{HERE}.SpecifiedHostFilter", "scheduler.filters.RamFilter"])
    assert [*default, "SpecifiedHostFilter"] == names(loading.load_filters(conf))


def test_built_in_classes_by_their_names():
    """As in scheduler_default_filters, the class name is enough."""
    default = names(loading.load_filters(configuration()))
    conf = configuration(
        scheduler_available_filters=["RamFilter", ALL],
        scheduler_additional_filters=["TypeAffinityFilter", "RamFilter"],
        scheduler_weight_classes=["RAMWeigher"],
    )
    assert [*default, "TypeAffinityFilter"] == names(loading.load_filters(conf))
    assert ["RAMWeigher"] == names(loading.load_weighers(conf))


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        (
            "two additional ones",
            {"scheduler_additional_filters": [f"{HERE}.SpecifiedHostFilter", f"{ALIKE}.SpecifiedHostFilter"]},
            "Option scheduler_additional_filters is ambiguous: two filters are named SpecifiedHostFilter: "
            f"{HERE}.SpecifiedHostFilter, {ALIKE}.SpecifiedHostFilter. ",
        ),
        (
            "an additional one, and a built-in one",
            {"scheduler_additional_filters": [f"{ALIKE}.RamFilter"]},
            f"Option scheduler_additional_filters is ambiguous: two filters are named RamFilter: {RAM}, {ALIKE}.RamFilter. ",
        ),
        (
            "an available one, and a built-in one",
            {"scheduler_available_filters": [ALL, f"{ALIKE}.RamFilter"]},
            f"Option scheduler_default_filters is ambiguous: two filters are named RamFilter: {RAM}, {ALIKE}.RamFilter. ",
        ),
        (
            "a name and a path",
            {"scheduler_default_filters": ["RamFilter", f"{ALIKE}.RamFilter"]},
            f"Option scheduler_default_filters is ambiguous: two filters are named RamFilter: {RAM}, {ALIKE}.RamFilter. ",
        ),
    ],
)
def test_two_filters_of_one_name(name, options, expected):
    """Neither is left out in silence: the message has both paths, and how to replace a built-in filter."""
    with pytest.raises(errors.ConfigError) as refused:
        loading.load_filters(configuration(**options))
    assert refused.value.message.startswith(expected), name
    assert "write its dotted path into scheduler_default_filters instead of the name" in refused.value.message


@pytest.mark.parametrize(
    "options",
    [
        {"scheduler_default_filters": ["RetryFilter", f"{ALIKE}.RamFilter"]},
        {"scheduler_default_filters": ["RetryFilter"], "scheduler_additional_filters": [f"{ALIKE}.RamFilter"]},
        {"scheduler_default_filters": ["RetryFilter", "RamFilter"], "scheduler_available_filters": [
            "scheduler.filters.RetryFilter", f"{ALIKE}.RamFilter", f"{ALIKE}.RamFilter"]},
    ],
)  # fmt: skip
def test_a_filter_in_place_of_a_built_in_one(options):
    """It is replaced where the configuration leaves it out and names another one by its path."""
    made = loading.load_filters(configuration(**options))
    assert [filters.RetryFilter, plugins_of_one_name.RamFilter] == [type(each) for each in made]


def test_names_that_nobody_chooses():
    """A filter may be available that has the name of another one; a driver that asks for that name is refused."""
    conf = configuration(scheduler_available_filters=[ALL, f"{ALIKE}.ExactRamFilter"])
    plugins = loading.load_plugins(conf)
    assert [filters.RamFilter] == [type(each) for each in plugins.named(["RamFilter"])]
    with pytest.raises(
        errors.ConfigError, match=r"scheduler_available_filters is ambiguous: .* named ExactRamFilter: "
    ):
        plugins.named(["ExactRamFilter"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scheduler_additional_filters": [f"{HERE}.UnmakeableFilter"]}, "scheduler_additional_filters"),
        ({"scheduler_default_filters": [f"{HERE}.UnmakeableFilter"]}, "scheduler_default_filters"),
        (
            {
                "scheduler_available_filters": [f"{HERE}.UnmakeableFilter"],
                "scheduler_default_filters": ["UnmakeableFilter"],
            },
            "scheduler_default_filters",
        ),
    ],
)
def test_a_filter_that_cannot_be_made(options, expected):
    """The message names the option that chose it."""
    with pytest.raises(errors.ConfigError) as refused:
        loading.load_filters(configuration(**options))
    assert (
        f"Option {expected} names class {HERE}.UnmakeableFilter, whose making raised LookupError: no licence"
        == refused.value.message
    )


def test_empty_entries(tmp_path):
    """An emptied option, and a comma at the end of a line, name nothing."""
    path = tmp_path / "fleet.conf"
    path.write_text(
        "[DEFAULT]\nscheduler_additional_filters =\nscheduler_available_filters =\n"
        f"scheduler_available_filters = {ALL}\nscheduler_default_filters = RamFilter,,RetryFilter,\n"
        "scheduler_weight_classes = scheduler.weights.RAMWeigher,\n"
    )
    conf = configuration(path)
    assert ["RamFilter", "RetryFilter"] == names(loading.load_filters(conf))
    assert ["RAMWeigher"] == names(loading.load_weighers(conf))


def test_two_weighers_of_one_name():
    """One class that is named twice counts twice; two classes cannot be told apart."""
    conf = configuration(scheduler_weight_classes=["scheduler.weights.all_weighers", "scheduler.weights.RAMWeigher"])
    assert len(weights.CLASSES) + 1 == len(loading.load_weighers(conf))
    conf = configuration(scheduler_weight_classes=["scheduler.weights.all_weighers", f"{ALIKE}.RAMWeigher"])
    expected = "Option scheduler_weight_classes is ambiguous: two weighers are named RAMWeigher: "
    with pytest.raises(errors.ConfigError, match=f"{expected}scheduler.compute.*, {ALIKE}.RAMWeigher"):
        loading.load_weighers(conf)


def test_a_path_of_a_further_filter_that_leads_nowhere():
    """The message names the option."""
    with pytest.raises(errors.ClassNotFound, match="Option scheduler_additional_filters names class no.such.Filter"):
        loading.load_filters(configuration(scheduler_additional_filters=["no.such.Filter"]))


def test_a_module_that_is_not_found_here():
    """A command may run without the PYTHONPATH of the scheduler: the message says what to set. Others have their reason."""
    advice = "Python looks for no.such in the directories of PYTHONPATH: set it here as for fleet-scheduler"
    for path, missing in (("no.such.Filter", "no"), ("nosuch.Filter", "nosuch")):
        with pytest.raises(errors.ClassNotFound) as refused:
            loading.load_filters(configuration(scheduler_additional_filters=[path]))
        assert advice.replace("no.such", missing) in refused.value.message
    with pytest.raises(errors.ClassNotFound) as refused:
        loading.load_filters(configuration(scheduler_additional_filters=[f"{HERE}.NoSuch"]))
    assert "PYTHONPATH" not in refused.value.message


def test_unknown_filters_are_all_named():
    """The message lists every name that leads nowhere."""
    conf = configuration(scheduler_default_filters=["RamFilter", "NoSuch", "NorThis"])
    with pytest.raises(errors.FilterNotFound) as refused:
        loading.load_filters(conf)
    assert "NoSuch, NorThis" == refused.value.filter_name


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("no.such.module.Filter", "No module named 'no'"),
        (f"{HERE}.NoSuchFilter", "has no attribute 'NoSuchFilter'"),
        (f"{HERE}.NotAFilter", "neither a public subclass of BaseHostFilter"),
        (f"{HERE}.NotAFilter, {HERE}.A_NUMBER", "one class a line: repeat it for each"),
        (f"{HERE}._Hidden", "neither a public subclass of BaseHostFilter"),
        (f"{HERE}.A_NUMBER", "neither a public subclass of BaseHostFilter"),
        ("NoSuchFilter", "no built-in class has this name, and a class of your own needs its full dotted path"),
        ("RAMWeigher", "neither a public subclass of BaseHostFilter"),
    ],
)
def test_a_path_that_leads_to_no_filter(path, reason):
    """The message names the option, the path and what is wrong with it."""
    with pytest.raises(errors.ClassNotFound) as refused:
        loading.load_filters(configuration(scheduler_available_filters=[path]))
    assert ("scheduler_available_filters", path) == (refused.value.option, refused.value.class_name)
    assert reason in refused.value.message


def test_default_weighers():
    """All weighers that come with the scheduler, with their multipliers."""
    made = loading.load_weighers(configuration(io_ops_weight_multiplier=-3.5))
    assert [cls.__name__ for cls in weights.CLASSES] == names(made)
    assert -3.5 == made[names(made).index("IoOpsWeigher")]._multiplier


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("filter_scheduler", FilterScheduler),
        ("scheduler.filter_scheduler.FilterScheduler", FilterScheduler),
        ("nova.scheduler.filter_scheduler.FilterScheduler", FilterScheduler),
        ("caching_scheduler", CachingScheduler),
        ("nova.scheduler.caching_scheduler.CachingScheduler", CachingScheduler),
        ("chance_scheduler", ChanceScheduler),
        ("scheduler.chance.ChanceScheduler", ChanceScheduler),
    ],
)
def test_drivers(name, expected):
    """Short names and dotted paths, nova's among them."""
    assert expected is driver_loading.load_driver_class(configuration(scheduler_driver=name))


@pytest.mark.parametrize(
    "name", ["fast_scheduler", "scheduler.compute.drivers.loading.load_filters", "scheduler.nothing.Here"]
)
def test_unknown_drivers(name):
    """A driver that does not exist stops the service."""
    with pytest.raises(errors.ClassNotFound):
        driver_loading.load_driver_class(configuration(scheduler_driver=name))


@pytest.mark.parametrize(
    ("group", "later", "old", "value", "expected"),
    [
        ("filter_scheduler", "enabled_filters", "scheduler_default_filters", "RamFilter", ["RamFilter"]),
        ("filter_scheduler", "host_subset_size", "scheduler_host_subset_size", "3", 3),
        ("filter_scheduler", "ram_weight_multiplier", "ram_weight_multiplier", "-1", -1.0),
        ("scheduler", "driver", "scheduler_driver", "chance_scheduler", "chance_scheduler"),
        ("scheduler", "max_attempts", "scheduler_max_attempts", "5", 5),
    ],
)
def test_later_option_names(tmp_path, group, later, old, value, expected):
    """A configuration file with nova's later names means the same."""
    path = tmp_path / "fleet.conf"
    path.write_text(f"[{group}]\n{later} = {value}\n")
    assert expected == configuration(path)[old]
