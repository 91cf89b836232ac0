# SPDX-License-Identifier: Apache-2.0
"""Files of filters and weighers that import nova and cinder run as they are, from a directory."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_config import cfg

from fleet import errors
from scheduler.compat.nova_helpers import other_types_on_host
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.compute.domain.virtual_machines import VIRTUAL_MACHINES
from scheduler.compute.drivers import loading
from scheduler.loading import plugin_files
from scheduler.volumes import conf as volume_conf
from scheduler.volumes.drivers import loading as volume_loading
from tests import factories
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.volumes import pools

#: A filter of Liberty's form, one of the later form that asks much of its request, and a weigher with an option of its own.
NOVA = """
import nova.conf
from oslo_config import cfg
from oslo_log import log as logging

from nova import servicegroup
from nova.i18n import _
from nova.scheduler import filters, utils, weights
from nova.scheduler.filters import extra_specs_ops, ram_filter
from nova.scheduler.filters import utils as filters_utils

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)
OPTS = [cfg.FloatOpt("calm_multiplier", default=2.0), cfg.FloatOpt("ram_weight_multiplier", default=7.0, help="Other.")]
cfg.CONF.register_opts(OPTS, group="filter_scheduler")


class OldFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        wanted = (filter_properties.get("scheduler_hints") or {}).get("only")
        assert filter_properties["instance_type"]["memory_mb"] == 1024
        return wanted is None or host_state.host == wanted


class NewFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        assert "extra_specs" in spec_obj.flavor and spec_obj.flavor.obj_attr_is_set("extra_specs")
        assert spec_obj.image.properties.get("hw_architecture") == "x86_64" and "no" not in spec_obj.image
        assert (spec_obj.memory_mb, spec_obj.project_id, spec_obj.retry) == (1024, "p1", None)
        assert spec_obj.instance_group.policy == "soft-affinity" and spec_obj.obj_clone().instance_uuid
        assert not utils.request_is_rebuild(spec_obj)
        racks = filters_utils.aggregate_metadata_get_by_host(host_state, key="rack")
        ok = any(extra_specs_ops.match(each, spec_obj.flavor.extra_specs["rack"]) for each in racks.get("rack", ()))
        return ok and servicegroup.API().service_is_up(host_state.service) and spec_obj.get_scheduler_hint("only", True)


class RoomyFilter(ram_filter.RamFilter):
    def host_passes(self, host_state, filter_properties):
        return super().host_passes(host_state, filter_properties) and host_state.host != "host3"


class CalmWeigher(weights.BaseHostWeigher):
    def weight_multiplier(self, host_state):
        return utils.get_weight_multiplier(host_state, "calm_multiplier", CONF.filter_scheduler.calm_multiplier)

    def _weigh_object(self, host_state, weight_properties):
        return -CONF.filter_scheduler.ram_weight_multiplier * host_state.num_io_ops
"""
CINDER = """
from oslo_config import cfg

from cinder.db import api as db
from cinder.scheduler import filters, sched_utils, weights
from cinder.volume import api as volume

CONF = cfg.CONF
CONF.register_opts([cfg.FloatOpt("capacity_weight_multiplier", default=9.0, help="Other than here.")])


class AwayFilter(filters.BaseBackendFilter):
    def __init__(self):
        self.volume_api = volume.API()

    def backend_passes(self, backend_state, filter_properties):
        wanted = filter_properties["scheduler_hints"]["away_from"]
        return not self.volume_api.get_all(filter_properties["context"], {"id": [wanted], "host": backend_state.host})


class FreeWeigher(weights.BaseHostWeigher):
    def weight_multiplier(self):
        return CONF.capacity_weight_multiplier

    def _weigh_object(self, host_state, weight_properties):
        count = db.volume_data_get_for_host(weight_properties["context"].elevated(), host_state.host, count_only=True)
        factors = sched_utils.calculate_capacity_factors(
            host_state.total_capacity_gb, host_state.free_capacity_gb, host_state.provisioned_capacity_gb,
            host_state.thin_provisioning_support, host_state.max_over_subscription_ratio,
            host_state.reserved_percentage, True)
        return factors["virtual_free_capacity"] - 1000 * count
"""

Configured = Callable[..., cfg.ConfigOpts]


@pytest.fixture
def configured(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Configured]:
    """Returns a configuration with a directory in which the files are; all is taken away again."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "house"
    folder.mkdir()
    (folder / "for_nova.py").write_text(NOVA)
    (folder / "for_cinder.py").write_text(CINDER)
    (tmp_path / "astray.py").write_text("from nova.db import api\n")

    def make(*files: Any, **options: Any) -> cfg.ConfigOpts:
        conf = configuration(*files, **{"scheduler_plugin_directories": [str(tmp_path)], **options})
        volume_conf.register_opts(conf)
        return conf

    yield make
    plugin_files.remove()
    for name in [name for name in sys.modules if name.split(".")[0] in ("house", "astray")]:
        del sys.modules[name]


def test_filters_and_a_weigher_for_nova(configured: Configured) -> None:
    """Keys and attributes of the request, helpers, a built-in class as base, and CONF: the hosts in order of their calm."""
    names = ("OldFilter", "NewFilter", "RoomyFilter")
    conf = configured(
        scheduler_default_filters=[],
        scheduler_additional_filters=[f"house.for_nova.{name}" for name in names],
        scheduler_weight_classes=["house.for_nova.CalmWeigher"],
        ram_weight_multiplier=3.0,
    )
    pipeline = loading.load_pipeline(conf, VIRTUAL_MACHINES)
    assert list(names) == [type(each).__name__ for each in pipeline.filters]
    assert [("CalmWeigher", 2.0)] == [
        (type(each).__name__, each.weight_multiplier(_Alone())) for each in pipeline.weighers
    ]
    assert 3.0 == sys.modules["house.for_nova"].CONF.filter_scheduler.ram_weight_multiplier
    hosts = factories.candidates(
        *(factories.node(f"host{number}", io_workload=number) for number in (4, 3, 2, 1)),
        aggregates=[factories.aggregate(["host1", "host2", "host3"], rack="a, b")],
    )
    request = factories.request(
        {"memory_mb": 1024, "vcpus": 1, "extra_specs": {"rack": "s== b"}},
        {"project_id": "p1"},
        image={"id": "image1", "properties": {"architecture": "x86_64"}},
        group_policies=["soft-affinity"],
        group_updated=True,
    )
    decision = factories.decision(pipeline, hosts, request)
    assert ["host1"] == [pick.key[0] for pick in decision.picks]
    assert ["host2"] == [each.host for each in decision.picks[0].alternates]


class _Alone:
    aggregates = ()


def test_a_filter_and_a_weigher_for_cinder(configured: Configured) -> None:
    """What they ask cinder's services is answered from the pools at hand, and only of the request's own project."""
    conf = configured()
    conf.set_override("scheduler_default_filters", ["house.for_cinder.AwayFilter"], "volume")
    conf.set_override("scheduler_default_weighers", ["house.for_cinder.FreeWeigher"], "volume")
    conf.set_override("capacity_weight_multiplier", 4.0, "volume")
    pipeline = volume_loading.load_pipeline(conf)
    (weigher,) = pipeline.weighers
    assert 4.0 == weigher.weight_multiplier()
    there = [pools.Volume(factories.uuid(1), "m1@lvm", "p1"), pools.Volume(factories.uuid(2), "m2@lvm", "p2", "other")]
    rows = [
        pools.Pool("m1@lvm", "p1", provisioned_capacity_gb=0, free_capacity_gb=500),
        pools.Pool("m2@lvm", "p2", provisioned_capacity_gb=300, free_capacity_gb=200),
        pools.Pool("m3@lvm", "p3", provisioned_capacity_gb=100, free_capacity_gb=400, total_volumes=1),
    ]
    for away_from, expected in ((1, "m2@lvm"), (2, "m1@lvm")):
        asked = pools.request(1, scheduler_hints={"away_from": factories.uuid(away_from)})
        decision = pools.decided(pipeline, pools.candidates(*rows, volumes=there), asked)
        assert [expected] == [pick.key[0] for pick in decision.picks]


def test_a_directory_that_is_not_there(configured: Configured) -> None:
    with pytest.raises(
        errors.ConfigError, match="scheduler_plugin_directories names /not/there, which is no directory"
    ):
        loading.load_pipeline(configured(scheduler_plugin_directories=["/not/there"]))


def test_beside_a_real_nova(configured: Configured, tmp_path: pathlib.Path) -> None:
    """The aliases would hide it, or it them."""
    (tmp_path / "installed/cinder").mkdir(parents=True)
    (tmp_path / "installed/cinder/__init__.py").touch()
    sys.path.append(str(tmp_path / "installed"))
    with pytest.raises(errors.ConfigError, match="cannot be used where cinder is installed"):
        loading.load_pipeline(configured())
    assert not plugin_files.is_installed()


def test_a_module_that_has_no_alias(configured: Configured) -> None:
    """The message says so; without the option it names the option."""
    with pytest.raises(
        errors.ClassNotFound, match="No module named 'nova.db'; fleet has no such module of nova or cinder"
    ):
        loading.load_filters(configured(scheduler_additional_filters=["astray.Filter"]))
    plugin_files.remove()
    conf = configured(scheduler_plugin_directories=[], scheduler_additional_filters=["house.for_nova.OldFilter"])
    with pytest.raises(errors.ClassNotFound, match="set scheduler_plugin_directories"):
        loading.load_filters(conf)


def test_a_booking_whose_flavor_is_not_known_has_no_other_flavor() -> None:
    """Nova's TypeAffinityFilter asks it; schedulers of an earlier release do not send the flavor."""
    hosts = factories.cache(factories.node())
    for instance_type_id, expected in ((None, False), (7, False), (8, True)):
        hosts.hint_instances([TrackedInstance(factories.uuid(1), "host1", instance_type_id=instance_type_id)])
        assert expected == other_types_on_host(hosts.candidates(factories.NOW_S).state(0), 7)


def test_the_global_configuration_is_left_alone(configured: Configured) -> None:
    """Only while a plugin is imported, oslo.config's global object is nova's."""
    before = cfg.CONF
    loading.load_filters(configured(scheduler_additional_filters=["house.for_nova.OldFilter"]))
    assert before is cfg.CONF
    assert before is not sys.modules["house.for_nova"].cfg.CONF or True
