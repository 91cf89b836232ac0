# SPDX-License-Identifier: Apache-2.0
"""What nova is answered: every recorded request, claims, refusals, the check of a rebuild, and casts."""

from __future__ import annotations

import copy
import json
import logging

import pytest

from fleet import errors
from fleet.context import new_context
from fleet.db.feed.feed import Changes
from fleet.rpc import deferred
from scheduler.nova import decoder
from scheduler.nova.context import NovaContextSerializer
from scheduler.nova.rebuild import RebuildCheck
from scheduler.state.shares import Schedulers
from tests.factories import uuid
from tests.unit.scheduler.nova import recordings
from tests.unit.scheduler.nova.recordings import arguments, contents, envelope, flavor, message
from tests.unit.scheduler.nova.test_claims import Answer
from tests.unit.scheduler.nova.worlds import CELL, OTHER_CELL, UUIDS, EndpointInMemory, instance_row, node_row
from tests.unit.scheduler.plugins import configuration

#: Requests that these three hosts cannot serve, and the word of the reason.
REFUSED = {
    "req_numa": "NUMATopologyFilter",
    "req_numa_image_props": "ImagePropertiesFilter",
    "req_pci": "PciPassthroughFilter",
    "req_rebuild_check": "ImagePropertiesFilter",
    "req_hint_same_host": "SameHostFilter",
}
FILTERS = [
    *["AvailabilityZoneFilter", "RamFilter", "DiskFilter", "CoreFilter", "ComputeFilter", "ComputeCapabilitiesFilter"],
    *["ImagePropertiesFilter", "SameHostFilter", "DifferentHostFilter", "ServerGroupAntiAffinityFilter"],
    *["ServerGroupAffinityFilter", "PciPassthroughFilter", "NUMATopologyFilter"],
]


@pytest.fixture
def world() -> EndpointInMemory:
    return EndpointInMemory(scheduler_default_filters=FILTERS)


def _hosts(selections) -> list[list[str]]:
    return [[each["service_host"] for each in hosts] for hosts in contents(selections)]


@pytest.mark.parametrize("name", recordings.REQUESTS)
def test_every_recorded_request_is_answered(world, name):
    """In the form that its caller wants, or with a NoValidHost that names the filter."""
    sent = message(name)["args"]
    if name in REFUSED:
        assert REFUSED[name] in world.refused(sent)
        return
    found = world.select(sent)
    wanted = len(sent.get("instance_uuids") or []) or 2  # the two recorded forms without uuids ask for two
    assert wanted == len(found)
    json.dumps(found)
    if sent.get("return_objects"):
        assert all({"cell_uuid", "limits", "allocation_request"} <= set(each) for (each, *_) in contents(found))
    else:
        assert [{"host", "nodename", "limits"}] * wanted == [set(each) for each in found]


def test_what_is_answered_is_claimed_and_booked(world):
    """For each instance on its host, with alternates that are none of the chosen hosts."""
    found = contents(world.select(message("req_group_anti_affinity_2_members")["args"]))
    first, second = ([each["service_host"] for each in hosts] for hosts in found)
    assert first[0] != second[0]
    assert not {first[0], second[0]} & {*first[1:], *second[1:]}
    uuids = message("req_group_anti_affinity_2_members")["args"]["instance_uuids"]
    assert {uuids[0]: [UUIDS[first[0]]], uuids[1]: [UUIDS[second[0]]]} == {
        consumer: list(held) for consumer, held in world.adapter.held.items()
    }
    assert 2 == world.bookings()


def test_alternates():
    """At most two with nova's default of three attempts, and none where they are not wanted."""
    world = EndpointInMemory()
    (build,), (move,) = (
        _hosts(world.select(message("req_build_1")["args"])),
        _hosts(world.select(message("req_live_migration")["args"])),
    )
    assert (3, 1) == (len(build), len(move))


class TwoCells(EndpointInMemory):
    """a1 is the best host, b1 and b2 of the other cell come next, and then a2 and a3 of the first one."""

    def __init__(self, **options):
        free = {"a1": 8192, "b1": 7168, "b2": 6144, "a2": 5120, "a3": 4096}
        cells = {name: CELL if name.startswith("a") else OTHER_CELL for name in free}
        rows = [
            node_row(name, uuid=uuid(200 + number), cell_uuid=cells[name], free_ram_mb=free[name])
            for number, name in enumerate(free)
        ]
        super().__init__(*rows, claims=False, **options)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("req_build_1", [["a1", "a2", "a3"]]),
        # nova's own anti-affinity: each one on another host; the alternates are what is left of its cell.
        ("req_group_anti_affinity_2_members", [["a1", "a2", "a3"], ["b1", "b2"]]),
    ],
)
def test_alternates_are_of_the_same_cell(name, expected):
    """nova's conductor cannot go on in another. Better hosts of other cells do not use up the two alternates."""
    assert expected == _hosts(TwoCells().select(message(name)["args"]))


@pytest.mark.parametrize(("scheduler", "expected"), [("one", [["a1", "a2", "a3"]]), ("two", [["b1", "b2"]])])
def test_alternates_of_the_same_cell_within_a_share(scheduler, expected):
    """The pick is of the scheduler's own share: a1 and b2, or the others. The alternates are of any."""
    world = TwoCells()
    world.host_manager.follow_schedulers(Schedulers(("one", "two"), scheduler))
    assert expected == _hosts(world.select(message("req_build_1")["args"]))


def test_a_refused_claim_means_the_next_host(world):
    """What the database shows as free may be taken in placement."""
    world.adapter.room[UUIDS["cmp1"]] = 0
    sent = message("req_build_3")["args"]
    hosts = [first for first, *_ in _hosts(world.select(sent))]
    assert "cmp1" not in hosts
    assert set(hosts) == {"cmp2", "cmp3"}
    assert 3 == len(world.adapter.held) == world.bookings()


def test_too_few_hosts_after_refused_claims(world):
    """Refuses the whole request; nothing stays claimed or booked, and the reason names the hosts."""
    world.adapter.room.update({UUIDS["cmp1"]: 0, UUIDS["cmp2"]: 1, UUIDS["cmp3"]: 1})
    reason = world.refused(message("req_build_3")["args"])
    assert "Placement refused claims on" in reason
    assert "cmp1" in reason
    assert ({}, 0) == ({each: held for each, held in world.adapter.held.items() if held}, world.bookings())


def test_placement_is_away(world):
    """The request is refused with a reason that says so, and nothing is booked."""
    world.adapter.down = True
    assert "Placement cannot be used now" in world.refused(message("req_build_1")["args"])
    assert 0 == world.bookings()


def test_an_answer_that_is_none_of_placement(world, caplog):
    """The request is refused with the reason, and nothing is booked. The log names what could not be given back."""
    adapter, put = world.adapter, world.adapter.put

    def claimed_once(path, body):
        answer = put(path, body)
        adapter.put = lambda _path, _body: Answer(409, {"errors": [{"code": "placement.concurrent_update"}]})
        adapter.get = lambda _path, _body: Answer(200, "<html>a proxy</html>")
        return answer

    adapter.put = claimed_once
    assert "not in placement's form" in world.refused(message("req_build_3")["args"])
    [claimed] = adapter.held
    assert (0, True) == (world.bookings(), claimed in caplog.text)


def test_without_claims():
    """The answer asks nova to claim nothing."""
    world = EndpointInMemory(claims=False)
    ((first, *_),) = contents(world.select(message("req_build_1")["args"]))
    assert ("null", None) == (first["allocation_request"], first["allocation_request_version"])


def test_instances_without_a_uuid_are_not_claimed(world):
    """Callers before 4.4 name none."""
    world.select(message("req_v43")["args"])
    assert {} == world.adapter.held


@pytest.mark.parametrize(
    ("changed", "host"),
    [
        ({"requested_destination": envelope("Destination", "1.4", host="cmp2", node=None)}, "cmp2"),
        ({"requested_destination": envelope("Destination", "1.4", node="cmp3")}, "cmp3"),
        ({"force_hosts": ["cmp2"]}, "cmp2"),
        ({"availability_zone": "az1"}, "cmp1"),
        ({"ignore_hosts": ["cmp1", "cmp2"]}, "cmp3"),
        (
            {
                "requested_destination": envelope(
                    "Destination", "1.4", aggregates=["8ebb2558-8339-4309-adb6-bbbec0619d32"]
                )
            },
            "cmp1",
        ),
    ],
)
def test_where_a_request_must_go(world, changed, host):
    """By host, node, zone, aggregate, and by exclusion."""
    assert [[host]] == [hosts[:1] for hosts in _hosts(world.select(arguments(**changed)))]


_POOL = {"vendor_id": "15b3", "product_id": "101e", "dev_type": "type-VF", "remote_managed": "false", "numa_node": 0}


@pytest.mark.parametrize(
    ("pool", "spec"),
    [
        (
            {"physical_network": "physnet1"},
            {"physical_network": "physnet1", "remote_managed": "False", "dev_type": "type-VF"},
        ),
        ({"physical_network": "PhysNet1"}, {"physical_network": "physnet1", "dev_type": "type-VF"}),
        ({"physical_network": None}, {"physical_network": None, "remote_managed": "False", "dev_type": "type-VF"}),
        ({}, {"vendor_id": "15b3", "product_id": "101e", "resource_class": "CUSTOM_A", "traits": "B", "rp_uuids": "c"}),
    ],
    ids=["a port", "other letters", "a port of a tunnelled network", "a device in placement"],
)
def test_a_pci_device(pool, spec):
    """A pool stores "false" where a port asks for "False", and placement judges resource classes and traits."""
    world = EndpointInMemory(node_row("cmp1", pci_stats=json.dumps([{**_POOL, **pool, "count": 1}])))
    wanted = envelope("InstancePCIRequest", "1.4", count=1, spec=[spec], alias_name=None, request_id="r")
    asked = arguments(pci_requests=envelope("InstancePCIRequests", "1.1", requests=[wanted]))
    assert [["cmp1"]] == _hosts(world.select(asked))


def test_a_cpu_for_the_threads_of_the_emulator():
    """Only cmp3 has three free CPUs in one cell, and the second server finds none."""

    def host(name, size, **more):
        cells = [{"id": each, "cpuset": [], "pcpuset": [*range(each * size, (each + 1) * size)]} for each in range(2)]
        topology = {"cells": [{**each, "memory": 4096} for each in cells]}
        return node_row(name, numa_topology=json.dumps(topology), **more)

    world = EndpointInMemory(host("cmp1", 2), host("cmp2", 2), host("cmp3", 4, free_ram_mb=4096), claims=False)
    cells = [{"id": 0, "cpuset": [], "pcpuset": [0, 1], "memory": 512, "pagesize": None, "cpu_policy": "dedicated"}]
    asked = arguments(numa_topology={"cells": cells, "emulator_threads_policy": "isolate"}, flavor=flavor(vcpus=2))
    for number in range(2):
        asked["instance_uuids"] = [uuid(number)]
        assert [["cmp3"]] == _hosts(world.select(asked))
    asked["instance_uuids"] = [uuid(3)]
    assert "NUMATopologyFilter" in world.refused(asked)


def test_cells_near_the_networks_of_a_server():
    """The host with room beside its cards is chosen, and nova-compute gets the networks back, to fit the cells again."""

    def host(name, free_mb, **more):
        cells = [
            {
                "id": number,
                "cpuset": [2 * number, 2 * number + 1],
                "memory": 4096,
                "memory_usage": 4096 - free,
                "network_metadata": envelope("NetworkMetadata", physnets=physnets, tunneled=False),
            }
            for number, (physnets, free) in enumerate([([], 4096), (["physnet1"], free_mb)])
        ]
        topology = envelope("NUMATopology", "1.2", cells=[envelope("NUMACell", "1.5", **each) for each in cells])
        return node_row(name, numa_topology=json.dumps(topology), **more)

    world = EndpointInMemory(host("cmp1", 256), host("cmp2", 4096, free_ram_mb=4096))
    networks = envelope("NetworkMetadata", physnets=["physnet1"], tunneled=False)
    cell = {"id": 0, "cpuset": [0], "memory": 512}
    asked = arguments(numa_topology={"cells": [cell]}, network_metadata=networks)
    (((chosen, *others),)) = world.select(asked)
    assert ("cmp2", []) == (chosen["nova_object.data"]["service_host"], others)
    limits = chosen["nova_object.data"]["limits"]["nova_object.data"]["numa_topology"]
    assert ("NUMATopologyLimits", "1.1") == (limits["nova_object.name"], limits["nova_object.version"])
    assert networks == limits["nova_object.data"]["network_metadata"]
    del asked["spec_obj"]["nova_object.data"]["network_metadata"]
    asked["instance_uuids"] = [uuid(7)]
    found = contents(world.select(asked))[0][0]
    assert ("cmp1", {"cpu_allocation_ratio", "ram_allocation_ratio"}) == (
        found["service_host"],
        set(found["limits"]["numa_topology"]),
    )


@pytest.mark.parametrize(
    ("cpus", "is_chosen"),
    [
        ({"cpuset": [], "pcpuset": [0, 1, 2, 3], "siblings": [[0, 1], [2, 3]]}, False),
        ({"cpuset": [0, 1, 2, 3], "pcpuset": [0, 1, 2, 3], "siblings": [[0, 1], [2, 3]]}, True),
        ({"cpuset": [], "pcpuset": [0, 1, 2, 3], "siblings": [[0], [1], [2], [3]]}, True),
        ({"cpuset": [], "pcpuset": [0, 1, 2, 3], "siblings": []}, True),
    ],
    ids=["hyperthreading", "hyperthreading with vcpu_pin_set", "one thread a core", "no siblings are known"],
)
def test_isolated_threads(cpus, is_chosen):
    """nova-compute refuses them on cores of several threads, unless all CPUs are for both kinds of vcpus."""
    row = node_row("cmp1", numa_topology=json.dumps({"cells": [{"id": 0, "memory": 4096, **cpus}]}))
    world = EndpointInMemory(row, claims=False)
    cell = {"id": 0, "cpuset": [], "pcpuset": [0], "memory": 512, "cpu_policy": "dedicated"}
    asked = arguments(numa_topology={"cells": [{**cell, "cpu_thread_policy": "isolate"}]})
    if is_chosen:
        assert [["cmp1"]] == _hosts(world.select(asked))
    else:
        assert "IsolatedThreadsFilter 1" in world.refused(asked)
        assert [["cmp1"]] == _hosts(world.select(arguments(numa_topology={"cells": [cell]})))


def test_a_zone_for_hosts_without_one(world):
    """Is nova's default zone, and the answer names it."""
    (found,) = contents(world.select(arguments(availability_zone="nova")))
    assert {("cmp2", "nova"), ("cmp3", "nova")} == {(each["service_host"], each["availability_zone"]) for each in found}


def test_a_forced_host_outside_the_requested_zone(world):
    """Is refused, as by placement; in its zone it is chosen."""
    assert "RequestedZoneFilter 1" in world.refused(arguments(availability_zone="az1", force_hosts=["cmp2"]))
    assert [["cmp1"]] == _hosts(world.select(arguments(availability_zone="az1", force_hosts=["cmp1"])))


def test_a_move_stays_in_its_cell(world):
    """A host of another cell is no candidate."""
    moved = envelope("Destination", "1.4", cell=envelope("CellMapping", "1.1", uuid=OTHER_CELL))
    assert "RequestedDestinationFilter 3" in world.refused(arguments(requested_destination=moved))


def test_traits(world):
    """Placement says which hosts have them: here cmp1."""
    world.adapter.get = lambda path, body: type(
        "A", (), {"status_code": 200, "json": lambda self: {"resource_providers": [{"uuid": UUIDS["cmp1"]}]}}
    )()
    sent = arguments(flavor=flavor(extra_specs={"trait:HW_A": "required"}))
    assert [["cmp1"]] == _hosts(world.select(sent))


def test_the_check_of_a_rebuild():
    """Filters that judge an image run on the instance's own host, which may be full; nothing is claimed or booked."""
    world = EndpointInMemory(*(node_row(host, free_ram_mb=0) for host in UUIDS))
    sent = message("req_rebuild_check")["args"]
    assert "ImagePropertiesFilter" in world.refused(sent)
    sent["spec_obj"]["nova_object.data"]["image"]["nova_object.data"]["properties"] = envelope("ImageMetaProps", "1.44")
    ((found,),) = contents(world.select(sent))
    assert ("cmp1", "null", None) == tuple(
        found[name] for name in ("service_host", "allocation_request", "allocation_request_version")
    )
    assert ({}, 0) == (world.adapter.held, world.bookings())


def test_the_check_of_a_rebuild_follows_the_options(tmp_path):
    """At SIGHUP, as every other decision does."""
    file = tmp_path / "fleet.conf"
    file.write_text("[DEFAULT]\nscheduler_default_filters = IsolatedHostsFilter\n")
    conf, world = configuration(file), EndpointInMemory()
    check, asked = RebuildCheck(conf, world.host_manager), decoder.decode(message("req_rebuild_check")["args"]).request
    assert ["cmp1"] == [each.host for each in check.check(new_context(), asked)]
    file.write_text(f"{file.read_text()}isolated_hosts = cmp1\n")
    conf.mutate_config_files()
    with pytest.raises(errors.NoValidHost, match="IsolatedHostsFilter"):
        check.check(new_context(), asked)


def test_a_booking_outlives_the_row_without_a_host(world):
    """nova creates the row after the answer; the claim on the host confirms it."""
    sent = message("req_build_1")["args"]
    ((host, *_),) = _hosts(world.select(sent))
    number = sent["instance_uuids"][0]

    def show(**fields):
        world.feed.batches.append(
            Changes(world.host_manager._cache.generation + 1, instances=[instance_row(1, **{"uuid": number, **fields})])
        )
        world.host_manager.poll()
        return world.bookings()

    assert 1 == show(host=None, vm_state="building", task_state="scheduling")
    assert 0 == show(host=host, vm_state="building", task_state="spawning")


def test_a_member_that_is_being_unshelved_is_on_its_host():
    """Its row has the host from the claim on, and the state shelved_offloaded until its guest runs."""
    sent = message("req_group_anti_affinity")["args"]
    group = sent["spec_obj"]["nova_object.data"]["instance_group"]["nova_object.data"]
    group["members"], group["hosts"] = [uuid(5), *sent["instance_uuids"]], []

    def chosen(**fields):
        row = instance_row(5, **{"host": "cmp1", "vm_state": "shelved_offloaded", **fields})
        nodes = (node_row("cmp1"), *(node_row(host, free_ram_mb=4096) for host in ("cmp2", "cmp3")))
        ((host, *_),) = _hosts(EndpointInMemory(*nodes, instances=[row]).select(copy.deepcopy(sent)))
        return host

    assert "cmp2" == chosen(task_state="spawning")
    assert "cmp2" == chosen(vm_state="active")
    assert "cmp1" == chosen(host=None)


def test_a_failed_build_releases_its_booking(world):
    """The row is in state error."""
    sent = message("req_build_1")["args"]
    world.select(sent)
    row = instance_row(1, None, uuid=sent["instance_uuids"][0], vm_state="error")
    world.feed.batches.append(Changes(world.host_manager._cache.generation + 1, instances=[row]))
    world.host_manager.poll()
    assert 0 == world.bookings()


@pytest.mark.parametrize("sent", [{}, {"spec_obj": 7}, arguments(flavor=None), arguments(ignore_hosts=[1]),
                                  arguments(requested_resources=7)])  # fmt: skip
def test_malformed_requests(world, sent, caplog):
    """Are refused in a line, without a traceback."""
    assert "MISCONFIGURED" in world.refused(sent)
    assert "Traceback" not in caplog.text


def test_no_secret_gets_out(world, caplog):
    """Neither a user's token nor a cell's passwords reach the log, whatever becomes of the request."""
    caplog.set_level(logging.DEBUG)
    secret = "planted-secret"
    cell = envelope("CellMapping", "1.1", uuid=CELL, transport_url=secret, database_connection=secret)
    context = NovaContextSerializer().deserialize_context(
        {"auth_token": secret, "service_catalog": [{"name": secret}], "user_id": "u1", "request_id": "req-1"}
    )
    assert secret not in json.dumps(context.to_dict())
    for changed in ({}, {"flavor": flavor(memory_mb=10**6)}, {"flavor": flavor(vcpus=-1)}):
        sent = arguments(requested_destination=envelope("Destination", "1.4", cell=cell), **changed)
        with deferred.replying():
            try:
                answer = world.endpoint.select_destinations(context, **sent)
            except Exception as failure:
                answer = repr(getattr(failure, "exc_info", failure))
            assert secret not in json.dumps(answer)
    assert secret not in caplog.text
    assert "Placed 1 instance" in caplog.text


def test_casts(world):
    """Aggregates and instances count at once."""
    world.host_manager.poll()
    context = new_context()
    world.endpoint.update_aggregates(context, **message("cast_update_aggregates")["args"])
    world.endpoint.update_instance_info(context, **message("cast_update_instance_info")["args"])
    known = message("cast_sync_instance_info")["args"]["instance_uuids"]
    assert set(known) == world.host_manager.hint(lambda cache: cache.confirmed_on("cmp3"))
    world.endpoint.sync_instance_info(context, **message("cast_sync_instance_info")["args"])
    world.endpoint.delete_instance_info(context, **message("cast_delete_instance_info")["args"])
    assert set() == world.host_manager.hint(lambda cache: cache.confirmed_on("cmp3"))
    world.endpoint.delete_aggregate(context, **message("cast_delete_aggregate")["args"])


@pytest.mark.parametrize(
    ("method", "sent"),
    [
        ("update_aggregates", {"aggregates": [{"nova_object.data": {"id": "x"}}]}),
        ("update_aggregates", {"aggregates": "no JSON"}),
        ("delete_aggregate", {"aggregate": ""}),
        ("update_instance_info", {"host_name": "cmp1", "instance_info": "no JSON"}),
    ],
)
def test_a_malformed_cast(world, caplog, method, sent):
    """Is ignored with one line."""
    world.host_manager.poll()
    getattr(world.endpoint, method)(new_context(), **sent)
    assert "A cast is not understood" in caplog.text


def test_one_warning_a_minute_while_placement_is_away(caplog):
    """Requests are refused. One line a minute warns the operator, however many requests there are."""
    world = EndpointInMemory()
    world.adapter.down = True
    for _request in range(3):
        assert "Placement cannot be used now" in world.refused(arguments())
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert 1 == len([each for each in warned if "Requests are refused meanwhile" in each])


def test_a_zone_without_a_filter_for_it():
    """nova's own list of filters has none: zones hold all the same."""
    world = EndpointInMemory(scheduler_default_filters=["ComputeFilter", "ImagePropertiesFilter"])
    ((chosen, *_others),) = world.select(arguments(availability_zone="az1"))
    assert "cmp1" == chosen["nova_object.data"]["service_host"]
    assert "RequestedZoneFilter" in world.refused(arguments(availability_zone="az2"))
