# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers of released nova and cinder run unedited from a directory, and decide as those of fleet."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from fleet import errors
from scheduler.compute.domain.virtual_machines import VIRTUAL_MACHINES
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.domain import Domain
from scheduler.engine.pipeline import Pipeline, plugin_properties
from scheduler.engine.plugins import BaseHostFilter, Plugin, WeighedHost
from scheduler.loading import plugin_files
from scheduler.volumes import conf as volume_conf
from scheduler.volumes import filters as volume_filters
from scheduler.volumes import weights as volume_weights
from scheduler.volumes.domain.domain import POOLS
from scheduler.why import refusal
from tests.nova import plugin_wheels
from tests.nova.plugin_wheels import Named
from tests.unit.scheduler import worlds
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.volumes import test_reference as pool_worlds

#: Not run, with the reason.
LEFT_OUT = {
    Named("nova15", "TrustedFilter"): "reads nova's own list of compute nodes from its database",
    Named("nova34", "CrossCellWeigher"): "fleet has its own in the place of nova-scheduler only",
    Named("cinder29", "ChanceWeigher"): "draws a random number",
}
#: Decide otherwise by the design of their release; docs/coming-from-nova.md says how.
OTHER_BY_RELEASE = {
    Named("nova15", "AggregateMultiTenancyIsolation"): "reads the key filter_tenant_id only, without a suffix",
    Named("nova15", "ComputeCapabilitiesFilter"): "ignores hw:maxphysaddr_bits",
    Named("nova15", "ServerGroupAntiAffinityFilter"): "lets one member a host pass, whatever max_server_per_host says",
    Named("nova15", "ImagePropertiesFilter"): "has no default architecture, and ignores hw_maxphysaddr_bits",
}
_MULTIPLIER = 2.5
_WEIGHERS = (
    "ram disk cpu io_ops pci soft_affinity soft_anti_affinity build_failure hypervisor_version num_instances "
    "image_props"
)
_OPTIONS = (
    "max_io_ops_per_host",
    "max_instances_per_host",
    "isolated_images",
    "isolated_hosts",
    "restrict_isolated_hosts_to_isolated_images",
    "image_properties_default_architecture",
    "aggregate_image_properties_isolation_namespace",
)
_EXAMPLES = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    derandomize=True,
    database=None,
)


@dataclasses.dataclass
class Plugins:
    conf: Any
    classes: Mapping[Named, type[Plugin]]

    def of(self, *releases: str) -> Mapping[Named, type[Plugin]]:
        return {
            named: cls
            for named, cls in self.classes.items()
            if named.release in releases and named not in LEFT_OUT and named not in OTHER_BY_RELEASE
        }


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugins]:
    directory = plugin_wheels.unpack(tmp_path_factory.mktemp("plugins"))
    conf = configuration(scheduler_plugin_directories=[str(directory)])
    volume_conf.register_opts(conf)
    plugin_files.install(conf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # nova 15 imports distutils
        found = plugin_wheels.classes(directory)
    yield Plugins(conf, found)
    plugin_files.remove()


def test_how_many_there_are(plugins: Plugins) -> None:
    """The table of the manual has these numbers."""
    assert set() == (set(LEFT_OUT) | set(OTHER_BY_RELEASE)) - set(plugins.classes)
    counts = {release: len(plugins.of(release)) for release in ("nova15", "nova34", "cinder29")}
    assert {"nova15": 36, "nova34": 34, "cinder29": 13} == counts


def test_those_of_nova(plugins: Plugins) -> None:
    """Over random hosts and requests: each filter lets the same hosts pass, each weigher gives the same raw weights."""

    @_EXAMPLES
    @given(scene=worlds.scenes())
    def compare(scene: worlds.Scene) -> None:
        _as_nova_counts(scene)
        _configure(plugins.conf, scene.world.options)
        asked = scene.asked()
        for named, cls in plugins.of("nova15", "nova34").items():
            is_filter = issubclass(cls, BaseHostFilter)
            ours = scene.filter(named.name) if is_filter else scene.weigher(named.name, _MULTIPLIER)
            judged = scene.candidates(), scene.candidates()
            expected, found = _both(ours, cls.from_conf(plugins.conf), VIRTUAL_MACHINES, asked, *judged)
            assert (named, expected) == (named, found)

    compare()


def test_those_of_cinder(plugins: Plugins) -> None:
    """Over random pools and volumes, as those of nova."""

    @_EXAMPLES
    @given(scene=pool_worlds.scenes())
    def compare(scene: pool_worlds.Scene) -> None:
        _assume_as_cinder_asks(scene)
        for named, cls in plugins.of("cinder29").items():
            is_filter = issubclass(cls, BaseHostFilter)
            own = getattr(volume_filters if is_filter else volume_weights, named.name)
            ours = own(as_cinder=True) if named.name in ("DriverFilter", "GoodnessWeigher") else own()
            judged = scene.candidates(), scene.candidates()
            expected, found = _both(ours, cls.from_conf(plugins.conf), POOLS, scene.asked, *judged)
            assert (named, expected) == (named, found)

    compare()


def _as_nova_counts(scene: worlds.Scene) -> None:
    """Make a scene in which both count alike.

    Nothing is reserved, as nova's filters for capacity overcommit what is. A group's hosts are those of its members. An
    image that asks for address bits names an architecture, without which nova does not look at them. A query has "not"
    only as its outermost operator, as nova takes one inside another for true, and does not name a number that nova has as 0
    where a host does not report it. No member of a group is being moved, which nova counts on one host only.
    """
    scene.request.pop("group_places", None)
    query = scene.request["scheduler_hints"].get("query", "")
    if query.rfind('"not"') > 1 or "hypervisor_version" in query:
        del scene.request["scheduler_hints"]["query"]
    if "hw_maxphysaddr_bits" in scene.request["image"]:
        scene.request["image"].setdefault("hw_architecture", "x86_64")
    scene.nodes[:] = [
        dataclasses.replace(node, reserved_vcpus=0, reserved_memory_mb=0, reserved_disk_gb=0) for node in scene.nodes
    ]
    if "group_hosts" in scene.request:
        members = scene.request.get("group_members") or ()
        scene.request["group_hosts"] = sorted({host for uuid, host in scene.world.placed.items() if uuid in members})


def _assume_as_cinder_asks(scene: pool_worlds.Scene) -> None:
    """A volume that grows is where it is: its zone is not judged here, and cinder does not say that it exists there."""
    spec, properties = scene.asked.request_spec, scene.asked.filter_properties
    assume(spec.get("operation") in (None, "create_volume"))
    if "new_size" in properties:
        assume(properties["new_size"] >= spec["volume_properties"]["size"] and "vol_exists_on" not in properties)


def _configure(conf: Any, options: Mapping[str, Any]) -> None:
    for name in _OPTIONS:
        conf.set_override(name, options[name])
    for name in _WEIGHERS.split():
        conf.set_override(f"{name}_weight_multiplier", _MULTIPLIER)
    conf.set_override(
        "image_props_weight_setting", [f"{name}={ratio}" for name, ratio in options["image_props_setting"]]
    )
    conf.set_override("weight_setting", [f"{name}={ratio}" for name, ratio in options["weight_setting"]], "metrics")
    conf.set_override("required", options["required"], "metrics")
    conf.set_override("weight_multiplier", _MULTIPLIER, "metrics")


def _both(ours: Any, theirs: Any, domain: Domain, asked: Any, hosts: Candidates, others: Candidates) -> tuple[Any, Any]:
    """Return the answers of both; one answer where their class fails, as when it compares a number with a text."""
    states = [others.state(row) for row in others.rows.tolist()]
    is_filter = isinstance(theirs, BaseHostFilter)
    pipeline = Pipeline(domain, [theirs] if is_filter else [], [] if is_filter else [theirs], refusal.explain)
    properties = plugin_properties(pipeline, asked, None, {})
    expected = _ours(ours, hosts, asked)
    try:
        if is_filter:
            passed = {id(state) for state in theirs.filter_all(states, properties) or ()}
            return expected, [id(state) in passed for state in states]
        return expected, [
            float(raw) for raw in theirs.weigh_objects([WeighedHost(each) for each in states], properties)
        ]
    except (ArithmeticError, TypeError):
        return expected, expected
    except Exception as failed:
        return expected, None if expected is None else repr(failed)


def _ours(each: Any, hosts: Candidates, asked: Any) -> list[Any] | None:
    """Return the answer of a class of ours; None if it refuses the request."""
    try:
        if isinstance(each, BaseHostFilter):
            each.prepare(asked, lambda: [hosts.key(row)[1] for row in hosts.rows.tolist()])
            mask = each.mask(hosts, asked)  # type: ignore[attr-defined]
            return [True] * len(hosts) if mask is None else mask.tolist()
        return each.raw(hosts, asked).tolist() if each.applies(asked) else [0.0] * len(hosts)
    except errors.FleetError:
        return None
