# SPDX-License-Identifier: Apache-2.0
"""From the configuration to filters, weighers and drivers. A wrong name stops the service at start."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_config import cfg

from fleet import errors
from scheduler import checks
from scheduler.volumes import conf as volume_conf
from scheduler.volumes.drivers import loading
from scheduler.volumes.drivers.chance import ChanceScheduler
from scheduler.volumes.drivers.filter_scheduler import FilterScheduler
from scheduler.volumes.drivers.simple import SimpleScheduler
from tests.configuration import of_scheduler
from tests.factories import NOW_S, Service
from tests.unit.scheduler.volumes.pools import Pool, cache, decided, request
from tests.unit.scheduler.volumes.test_plugins import ByBackendPasses, Older

HERE = "tests.unit.scheduler.volumes.test_plugins"
ALIKE = "tests.unit.scheduler.plugins_of_one_name"


def configuration(**options: Any) -> cfg.ConfigOpts:
    conf = of_scheduler()
    volume_conf.register_opts(conf)
    for name, value in options.items():
        conf.set_override(name, value, "volume")
    return conf


def test_the_defaults() -> None:
    """Two filters always run before those of the configuration."""
    made = loading.load_pipeline(configuration())
    names = ["WantedBackendFilter", "BackendUpFilter", *made.domain.defaults.filters]
    assert names == [type(each).__name__ for each in made.filters]
    assert ["CapacityWeigher"] == [type(each).__name__ for each in made.weighers]
    assert made.cacheable
    assert ("widen", False) == (made.domain.defaults.normalisation, made.lottery)


def test_other_names_and_classes_of_users() -> None:
    """Cinder's entry point name of the retry filter, and dotted paths; the order is that of the option."""
    chosen = [f"{HERE}.ByBackendPasses", "RetryFilter", "CapacityFilter"]
    conf = configuration(
        scheduler_default_filters=chosen,
        scheduler_default_weighers=[f"{HERE}.Older", "VolumeNumberWeigher"],
        volume_number_multiplier=-3.0,
        scheduler_weight_handler="stochastic",
    )
    made = loading.load_pipeline(conf)
    names = [ByBackendPasses.__name__, "IgnoreAttemptedHostsFilter", "CapacityFilter"]
    assert names == [type(each).__name__ for each in made.filters[2:]]
    assert [Older.__name__, "VolumeNumberWeigher"] == [type(each).__name__ for each in made.weighers]
    assert -3.0 == made.weighers[1].weight_multiplier()
    assert ("none", True) == (made.domain.defaults.normalisation, made.lottery)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scheduler_default_filters": ["RamFilter", "Nope"]}, "scheduler_default_filters names class RamFilter, Nope"),
        ({"scheduler_default_weighers": ["RAMWeigher"]}, "scheduler_default_weighers names class RAMWeigher"),
        ({"scheduler_default_filters": ["no.such.Filter"]}, "no.such.Filter"),
        ({"scheduler_default_filters": [f"{HERE}.Older"]}, "it is not a subclass of"),
        ({"scheduler_driver": "no_scheduler"}, "scheduler_driver"),
    ],
)
def test_wrong_names(options: dict[str, Any], expected: str) -> None:
    """The message has the option and all names that are not known."""
    with pytest.raises(errors.ClassNotFound, match=expected):
        checks.check_domains(configuration(**options))


@pytest.mark.parametrize(
    ("option", "chosen", "expected"),
    [
        (
            "scheduler_default_filters",
            ["CapacityFilter", f"{ALIKE}.CapacityFilter"],
            "two filters are named CapacityFilter",
        ),
        ("scheduler_default_filters", ["scheduler.volumes.filters.restrictions.BackendUpFilter"], ""),
        (
            "scheduler_default_weighers",
            ["CapacityWeigher", f"{ALIKE}.CapacityWeigher"],
            "two weighers are named Capacity",
        ),
        ("scheduler_default_filters", ["", f"{ALIKE}.CapacityFilter"], ""),
    ],
)
def test_two_of_one_name(option: str, chosen: list[str], expected: str) -> None:
    """They cannot be told apart. One in place of a built-in one is named by its path. An empty entry is none."""
    conf = configuration(**{option: chosen})
    if not expected:
        assert chosen[-1].endswith(type(loading.load_pipeline(conf).filters[-1]).__name__)
        return
    with pytest.raises(errors.ConfigError, match=f"{option} is ambiguous: {expected}.*{ALIKE}"):
        loading.load_pipeline(conf)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("filter_scheduler", FilterScheduler),
        ("cinder.scheduler.filter_scheduler.FilterScheduler", FilterScheduler),
        ("chance_scheduler", ChanceScheduler),
        ("scheduler.volumes.drivers.simple.SimpleScheduler", SimpleScheduler),
    ],
)
def test_drivers(name: str, expected: type) -> None:
    """Short names, and dotted paths of cinder and of this project."""
    assert expected is loading.load_driver_class(configuration(scheduler_driver=name))


@pytest.mark.parametrize(("domains", "expected"), [(["compute"], 1), (["volume"], 1), (["compute", "volume"], 2)])
def test_a_scheduler_may_serve_one_domain(domains: list[str], expected: int) -> None:
    """What is not served is not loaded, so its options may be wrong."""
    conf = configuration()
    conf.set_override("scheduler_domains", domains)
    assert expected == len(checks.check_domains(conf))
    conf.set_override("scheduler_domains", [])
    with pytest.raises(errors.ConfigError, match="must name compute, volume or both"):
        checks.check_domains(conf)


def test_pools_that_the_request_does_not_name_explain_nothing() -> None:
    """Of three backends that are disabled, one was asked for: the refusal counts this one only."""
    backends = ["m1@lvm", "m2@lvm", "m3@lvm"]
    pools = [Pool(host, "p1", number) for number, host in enumerate(backends)]
    down = [Service(host, binary="fleet-volume", disabled=True) for host in backends]
    asked = request(1, resource_backend="m2@lvm#p1")
    made = decided(loading.load_pipeline(configuration()), cache(pools, services=down).candidates(NOW_S), asked)
    assert "HOSTS_DOWN" == made.to_wire()["reason_code"]
    assert "1 of 1" in made.reason
    assert "3" not in made.reason
