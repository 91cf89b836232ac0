# SPDX-License-Identifier: Apache-2.0
"""The decision over columns equals the obvious one, host by host: every filter, every weigher, the whole selection."""

from __future__ import annotations

import os

import numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet import errors
from scheduler.compute import filters, weights
from scheduler.compute.domain.host_state import CONTAINERS, DEFAULTS, HostState
from scheduler.compute.weights import WeighedHost
from tests import factories
from tests.unit.scheduler import reference, worlds
from tests.unit.scheduler.reference_filters import CHECKS, ONCE
from tests.unit.scheduler.reference_weighers import WEIGHERS

MULTIPLIERS = st.sampled_from([1.0, 2.5, -1.0, 0.0, -1000000.0])
#: Seconds of work by default; FLEET_EXAMPLES=20 searches twenty times as long.
FACTOR = int(os.environ.get("FLEET_EXAMPLES", "1"))


def examples(number):
    return settings(max_examples=number * FACTOR, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_the_reference_knows_every_filter_and_weigher():
    """A filter that comes with the scheduler is held against the reference."""
    assert {cls.__name__ for cls in filters.CLASSES} == set(CHECKS)
    assert {cls.__name__ for cls in weights.CLASSES} == set(WEIGHERS)


def test_filters_that_run_once():
    """Their answer must not change between instances; an extra spec about free memory would change."""
    assert {cls.__name__ for cls in filters.CLASSES if cls.run_filter_once_per_request} == ONCE


def mask_of(each, hosts, asked):
    each.prepare(asked, lambda: [key[1] for key in map(hosts.key, hosts.rows.tolist())])
    mask = each.mask(hosts, asked)
    return [True] * len(hosts) if mask is None else mask.tolist()


@examples(20)
@given(scene=worlds.scenes())
def test_every_filter(scene):
    """Over all hosts at once, over a few of them, and one at a time, a filter lets the same hosts through."""
    asked, hosts = scene.asked(), scene.candidates()
    some = hosts.subset(numpy.arange(len(hosts))[::2])
    for name, check in CHECKS.items():
        each = scene.filter(name)
        expected = [check(node, asked, scene.world) for node in scene.nodes]
        assert (name, expected) == (name, mask_of(each, hosts, asked))
        assert (name, expected[::2]) == (name, mask_of(each, some, asked))
        one_by_one = [each.host_passes(hosts.state(row), {"spec_obj": asked}) for row in range(len(hosts))]
        assert (name, expected) == (name, one_by_one)


#: What these say of a host depends on more than a lone host state: on other hosts, or on what time it is.
NOT_ALONE = {"ServerGroupAffinityFilter", "ComputeFilter", "FailureDomainFilter"}


@examples(10)
@given(scene=worlds.scenes())
def test_every_filter_of_a_lone_host_state(scene):
    """A host state built by hand, as in tests of nova's filters, is judged as the host in the fleet is."""
    asked, hosts = scene.asked(), scene.candidates()
    wire = {"request_spec": asked.request_spec, "instance_type": asked.flavor.to_wire()}
    properties = {**asked.filter_properties, **wire}
    for name in sorted(set(CHECKS) - NOT_ALONE):
        each = scene.filter(name)
        expected = [CHECKS[name](node, asked, scene.world) for node in scene.nodes]
        each.prepare(asked, lambda: [node.hypervisor_hostname for node in scene.nodes])
        alone = [copied(hosts.state(row)) for row in range(len(hosts))]
        assert (name, expected) == (name, [each.host_passes(state, properties) for state in alone])


def copied(state):
    names = [*DEFAULTS, *CONTAINERS]
    return HostState(state.host, state.nodename, **{name: getattr(state, name) for name in names})


@examples(20)
@given(scene=worlds.scenes(), multiplier=MULTIPLIERS)
def test_every_weigher(scene, multiplier):
    """Raw weights and multipliers are the same over all hosts at once and one at a time."""
    asked, hosts = scene.asked(), scene.candidates()
    scene.world.options["required"] = False
    for name in ("metrics_multiplier", "image_props_multiplier", "fragmentation_multiplier", "alignment_multiplier"):
        scene.world.options[name] = multiplier
    states = [hosts.state(row) for row in range(len(hosts))]
    for name, make in WEIGHERS.items():
        each, weigher = scene.weigher(name, multiplier), make(multiplier)
        raw = [float(weigher.raw(node, asked, scene.world)) for node in scene.nodes]
        over_columns = each.raw(hosts, asked).tolist() if each.applies(asked) else [0.0] * len(raw)
        assert (name, raw) == (name, over_columns)
        assert (name, raw) == (name, each.weigh_objects([WeighedHost(state) for state in states], {"spec_obj": asked}))
        multipliers = [weigher.multiplier_of(node, scene.world) for node in scene.nodes]
        assert (name, multipliers) == (name, numpy.broadcast_to(each.multiplier(hosts), len(hosts)).tolist())
        assert (name, multipliers) == (name, [each.weight_multiplier(state) for state in states])


def by_the_reference(scene, asked, alternates, chosen, weighers):
    checks = [CHECKS[name] for name in chosen]
    made = [WEIGHERS[name](multiplier) for name, multiplier in weighers.items()]
    choice = reference.choose(scene.nodes, asked, alternates, scene.world, checks, made)
    return choice.hosts, choice.weights, choice.alternates


def by_the_scheduler(scene, asked, alternates, chosen, weighers):
    made = [scene.filter(name) for name in chosen]
    for each in made:
        each.prepare(asked, lambda: [node.hypervisor_hostname for node in scene.nodes])
    pipeline = factories.pipeline(made, [scene.weigher(*each) for each in weighers.items()], alternates=alternates)
    decision = factories.decision(pipeline, scene.candidates(), asked)
    others = [[place.host for place in pick.alternates] for pick in decision.picks] if decision.complete else []
    return [pick.key[0] for pick in decision.picks], [pick.weight for pick in decision.picks], others


def outcome(decide, *arguments):
    try:
        return decide(*arguments)
    except errors.MetricNotFound as missing:
        return missing.message


#: A random set of all filters lets few hosts through: most of the time, a few that leave some.
CHOSEN = st.lists(st.sampled_from(sorted(CHECKS)), max_size=4, unique=True)


@examples(40)
@given(
    scene=worlds.scenes(),
    count=st.integers(1, 6),
    alternates=st.integers(0, 3),
    chosen=CHOSEN,
    weighers=st.dictionaries(st.sampled_from(sorted(WEIGHERS)), MULTIPLIERS, max_size=5),
)
def test_same_hosts_weights_and_alternates(scene, count, alternates, chosen, weighers):
    """Whatever the hosts, the request and the configuration, both choose the same, with the same weights."""
    scene.world.options["metrics_multiplier"] = weighers.get("MetricsWeigher", 1.0)
    scene.world.options["image_props_multiplier"] = weighers.get("ImagePropertiesWeigher", 0.0)
    scene.world.options["fragmentation_multiplier"] = weighers.get("FragmentationWeigher", 0.0)
    scene.world.options["alignment_multiplier"] = weighers.get("AlignmentWeigher", 0.0)
    arguments = (scene, scene.asked(count), alternates, chosen, weighers)
    # The reference counts its picks in the world, so it comes last.
    real = outcome(by_the_scheduler, *arguments)
    assert outcome(by_the_reference, *arguments) == real


@examples(20)
@given(scene=worlds.scenes(), count=st.integers(1, 6))
def test_the_default_filters_and_weighers(scene, count):
    """The same with the default configuration."""
    chosen = ["RetryFilter", "RamFilter", "DiskFilter", "CoreFilter", "ServerGroupAntiAffinityFilter"]
    weighers = {name: make().multiplier for name, make in WEIGHERS.items() if name != "MetricsWeigher"}
    scene.world.options["image_props_multiplier"] = 0.0
    arguments = (scene, scene.asked(count), 2, [*chosen, "ServerGroupAffinityFilter"], weighers)
    real = outcome(by_the_scheduler, *arguments)
    assert outcome(by_the_reference, *arguments) == real


HARDWARE = ["NUMATopologyFilter", "PciPassthroughFilter"]


@examples(40)
@given(
    scene=worlds.scenes(asking=worlds.HARDWARE_ASKED),
    count=st.integers(1, 5),
    chosen=st.sampled_from([HARDWARE, HARDWARE[:1], HARDWARE[1:], ["ServerGroupAntiAffinityFilter", *HARDWARE]]),
    weighers=st.dictionaries(st.sampled_from(["PCIWeigher", "RAMWeigher", "CPUWeigher"]), MULTIPLIERS),
)
def test_cells_and_devices(scene, count, chosen, weighers):
    """Instances that share cells and devices get the hosts that a search through all permutations gives them."""
    arguments = (scene, scene.asked(count), 2, chosen, weighers)
    real = outcome(by_the_scheduler, *arguments)
    assert outcome(by_the_reference, *arguments) == real
