# SPDX-License-Identifier: Apache-2.0
"""A driver of one's own works in nova's form and in ours; a class that cannot work is refused at start, by name."""

from __future__ import annotations

import itertools

import pytest

from fleet import errors
from fleet.context import new_context
from scheduler.compute import filters as filter_package
from scheduler.compute import weights as weight_package
from scheduler.compute.domain.host_state import HostState
from scheduler.compute.drivers import driver_loading, loading
from scheduler.compute.drivers.driver_loading import build_driver
from tests.factories import changes, node, request, uuid
from tests.unit.scheduler.own_drivers import CountingHostManager
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_host_manager import FakeFeed
from tests.unit.scheduler.test_manager import FakeNotifier, Scheduler

HERE = "tests.unit.scheduler.own_drivers"
NODES = (node("a", memory_mb=4096), node("b", memory_mb=8192), node("c", memory_mb=512))


def scheduler(driver, *nodes, **options):
    chosen = {"scheduler_default_filters": ["RamFilter"], **options}
    made = Scheduler(*(nodes or NODES), scheduler_driver=f"{HERE}.{driver}", **chosen)
    made.host_manager.load_plugins = lambda: loading.load_plugins(configuration(**chosen))
    return made


def hosts(answer):
    return [each["host"] for each in answer]


def test_novas_constructor_and_signature():
    """The driver finds its host manager set, gets dicts and answers with dicts."""
    made = scheduler("NovaDriver")
    assert made.host_manager is made.driver.driver.made_with
    (first,) = made.select(request({"memory_mb": 1024}))
    assert ("b", "b", {"memory_mb": 8192.0}, []) == (
        first["host"], first["nodename"], first["limits"], first["alternates"],
    )  # fmt: skip


def test_its_picks_are_booked():
    """Its picks are subtracted from the hosts until the database shows them."""
    made = scheduler("NovaDriver")
    asked = request({"memory_mb": 3000})
    chosen = [hosts(made.select(asked, instance_uuids=[uuid(number)]))[0] for number in (1, 2, 3)]
    assert ["b", "a", "b"] == chosen
    assert "found none" in made.refused(asked, instance_uuids=[uuid(4)]).message
    assert ["a"] == hosts(made.select(asked, instance_uuids=[uuid(2)])), "its own booking does not count"


def test_its_refusal_is_an_answer():
    """NoValidHost reaches the caller as it was raised."""
    assert "my driver found none" in scheduler("NovaDriver").refused(request({"memory_mb": 10**6})).message


def test_filters_by_name():
    """``filter_class_names`` names filters of scheduler_available_filters in place of the default ones."""
    busy = node("a", io_workload=99)
    assert ["b"] == hosts(scheduler("OneFilterDriver", busy, node("b")).select(request()))


def test_an_unknown_filter_name():
    """The error is that of the option: it names what is not there."""
    made = scheduler("NovaDriver")
    states = made.host_manager.get_all_host_states()
    with pytest.raises(errors.FilterNotFound, match="NoSuchFilter"):
        made.host_manager.get_filtered_hosts(states, properties(), filter_class_names=["RamFilter", "NoSuchFilter"])


@pytest.mark.parametrize("name", ["LoggingFilterScheduler", "OurFilterScheduler"])
def test_a_subclass_of_the_filter_scheduler(name):
    """With nova's signature it gets dicts from super(), with ours selections."""
    assert ["b", "a"] == hosts(scheduler(name).select(request({"memory_mb": 64}, count=2)))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "answered None, where a list of 1 dict"),
        ([], "answered \\[\\], where a list of 1 dict"),
        (["a"], "answered 'a' as answer.0, where a dict is wanted"),
        ([{"nodename": "a"}], "answer.0.host"),
        ([{"host": 5, "nodename": "a", "limits": {}}], "answer.0.host"),
    ],
)
def test_an_answer_that_cannot_be_used(answer, problem):
    """It gives a typed error that names the driver."""
    refused = scheduler("WrongAnswer").refused(request(instance={"answer": answer}))
    assert isinstance(refused, errors.PluginFailed)
    with pytest.raises(errors.PluginFailed, match=f"Driver WrongAnswer failed: .*{problem}"):
        raise refused


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (f"{HERE}.NotADriver", "is not a subclass of scheduler.compute.drivers.driver.Scheduler"),
        (f"{HERE}.Unfinished", "does not define select_destinations"),
        (f"{HERE}.WrongSignature", "takes neither"),
        (f"{HERE}.WrongConstructor", "constructor"),
        (f"{HERE}.Nothing", "has no attribute 'Nothing'"),
        ("tests.unit.scheduler.broken_plugin.Driver", "importing it raised RuntimeError: no licence"),
        ("tests.unit.scheduler.nova_plugin.Old", "import from scheduler.filters"),
    ],
)
def test_a_class_that_is_no_driver(name, reason):
    """It is refused with one line that has its name."""
    with pytest.raises(errors.ClassNotFound) as refused:
        driver_loading.load_driver_class(configuration(scheduler_driver=name))
    assert name in refused.value.message
    assert reason in refused.value.message
    assert "\n" not in refused.value.message


def test_a_host_manager_of_ones_own():
    """``scheduler_host_manager`` takes a subclass, nova's path of the default, or its short name."""
    made = build_driver(
        configuration(scheduler_host_manager=f"{HERE}.CountingHostManager", scheduler_default_filters=["RamFilter"]),
        lambda: FakeFeed(changes(NODES, generation=1, full=True)),
        FakeNotifier(),
        elapsed_s=lambda: 7.0,
    )
    assert isinstance(made.host_manager, CountingHostManager)
    assert 7.0 == made.host_manager.elapsed_s()
    states = made.host_manager.get_all_host_states()
    assert (["a", "b", "c"], 1) == ([state.host for state in states], made.host_manager.copies)
    assert ["a", "b"] == names(made.host_manager.get_filtered_hosts(states, properties({"memory_mb": 600})))
    for name in ("host_manager", "nova.scheduler.host_manager.HostManager"):
        assert driver_loading.load_host_manager_class(configuration(scheduler_host_manager=name))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (f"{HERE}.NotADriver", "is not a subclass of scheduler.compute.drivers.host_manager.HostManager"),
        (f"{HERE}.LonelyHostManager", "must take the arguments of scheduler.host_manager.HostManager"),
    ],
)
def test_a_class_that_is_no_host_manager(name, reason):
    """It is refused with one line."""
    with pytest.raises(errors.ClassNotFound, match=reason):
        driver_loading.load_host_manager_class(configuration(scheduler_host_manager=name))


def test_a_list_does_not_change():
    """Host states are a copy: what the database shows later is in the next list."""
    made = scheduler("NovaDriver")
    (before, *_others) = made.host_manager.get_all_host_states()
    made.feed.batches.append(changes([node("a", memory_mb=64)], generation=2))
    (after, *_others) = made.host_manager.get_all_host_states()
    assert (4096, 64) == (before.free_ram_mb, after.free_ram_mb)


def test_what_the_request_excludes_is_not_filtered():
    """``ignore_hosts`` counts, and forced hosts pass every filter."""
    made = scheduler("NovaDriver").host_manager
    states = made.get_all_host_states()
    assert ["a"] == names(made.get_filtered_hosts(states, {**properties(), "ignore_hosts": ["b", "C"]}))
    forced = {**properties({"memory_mb": 10**6}), "force_hosts": ["c"]}
    assert ["c"] == names(made.get_filtered_hosts(states, forced))


def test_host_states_made_by_hand():
    """Filtering and weighing take them as well, one by one."""
    made = scheduler("NovaDriver").host_manager
    states = [
        HostState(name, name, free_ram_mb=free, total_usable_ram_mb=4096) for name, free in (("x", 512), ("y", 4096))
    ]
    assert ["y"] == names(made.get_filtered_hosts(states, properties({"memory_mb": 3000})))
    assert ["y", "x"] == [each.obj.host for each in made.get_weighed_hosts(states, properties())]


def test_the_lists_are_judged_as_the_engine_judges():
    """The order and the weights of get_weighed_hosts are those of a decision's score table."""
    made = scheduler("NovaDriver")
    passed = made.host_manager.get_filtered_hosts(made.host_manager.get_all_host_states(), properties())
    weighed = made.host_manager.get_weighed_hosts(passed, properties())
    ours = Scheduler(*NODES, scheduler_default_filters=["RamFilter"]).manager.explain(
        new_context(), request_spec=request().request_spec, filter_properties={}, best=3
    )
    assert [(each["host"], each["weight"]) for each in ours["scores"]] == [
        (one.obj.host, one.weight) for one in weighed
    ]


def test_a_list_in_another_order():
    """A driver may list hosts in any order: their weights are the same, and equal hosts stay in that order."""
    made = scheduler("NovaDriver").host_manager
    states = made.get_all_host_states()

    def weights(listed):
        return {one.obj.host: one.weight for one in made.get_weighed_hosts(listed, properties())}

    expected = weights(states)
    assert len(set(expected.values())) > 1
    assert [expected] * 6 == [weights(each) for each in itertools.permutations(states)]
    assert expected == weights([*states, states[0]])


def test_handlers():
    """Nova's handlers filter and weigh lists; ``normalize`` brings raw weights to 0..1."""
    handler = filter_package.HostFilterHandler()
    (ram,) = handler.get_matching_classes(["nova.scheduler.filters.ram_filter.RamFilter"])
    assert set(filter_package.CLASSES) == set(handler.get_all_classes())
    states = [
        HostState(name, name, free_ram_mb=free, total_usable_ram_mb=8192) for name, free in (("x", 512), ("y", 8192))
    ]
    wanted = properties({"memory_mb": 6000})
    assert ["y"] == names(handler.get_filtered_objects([ram()], states, wanted))
    weigher = weight_package.HostWeightHandler()
    (cls,) = weigher.get_matching_classes(["scheduler.weights.ram.RAMWeigher"])
    weighed = weigher.get_weighed_objects([cls(2.0)], states, wanted)
    # 512 and 8192 MB on a scale that begins at 0.
    assert [("y", 2.0), ("x", 0.125)] == [(one.obj.host, one.weight) for one in weighed]


def test_weights_below_a_bound():
    """The weigher counts free memory below 0 as 0, so hosts that are all overcommitted weigh 0 at any multiplier."""
    states = [HostState(name, name, free_ram_mb=free) for name, free in (("x", -900), ("y", -10))]
    weighed = weight_package.HostWeightHandler().get_weighed_objects(
        [weight_package.RAMWeigher(3.0)], states, properties()
    )
    assert [("x", 0.0), ("y", 0.0)] == [(one.obj.host, one.weight) for one in weighed]


@pytest.mark.parametrize(
    ("raw", "bounds", "expected"),
    [
        ([], (), []),
        ([1, 2, 3], (), [0, 0.5, 1]),
        ([2, 2], (), [0, 0]),
        ([1, 2, 3], (0, 10), [0.1, 0.2, 0.3]),
    ],
)
def test_normalize(raw, bounds, expected):
    """(weight - lowest) / (highest - lowest); 0 if the bounds are equal."""
    assert expected == pytest.approx(weight_package.normalize(raw, *bounds))


def names(states):
    return [state.host for state in states]


def properties(sizes=None):
    asked = request(sizes)
    return {"request_spec": dict(asked.request_spec), "instance_type": asked.request_spec["instance_type"]}
