# SPDX-License-Identifier: Apache-2.0
"""Requests that the commands of an operator make from nova's records, and what is answered to them."""

from __future__ import annotations

import pytest
from oslo_config import cfg
from oslo_messaging.rpc import dispatcher

from fleet import errors
from fleet.client import connection
from fleet.context import new_context
from fleet.db.nova import api_queries
from fleet.rpc import nova_broker
from scheduler.nova.operator import NovaOperator
from tests.factories import uuid
from tests.unit.scheduler.nova.recordings import arguments, envelope
from tests.unit.scheduler.nova.test_claims import Answer
from tests.unit.scheduler.nova.worlds import UUIDS, EndpointInMemory, instance_row

SMALL = {
    "id": 1,
    "name": "small",
    "flavorid": "42",
    "vcpus": 1,
    "memory_mb": 512,
    "root_gb": 1,
    "ephemeral_gb": 0,
    "swap": 0,
}


class FakeApi:
    """The API database with one flavor, one request, and a group of servers 1 and 2."""

    def __init__(self, **specs: str) -> None:
        self.extra_specs = specs
        self.policy = "anti-affinity"
        self.in_group = False

    def read(self, work, *args):
        if work is api_queries.flavor:
            return {**SMALL, "extra_specs": self.extra_specs} if args[0] in ("small", "42") else None
        if work is api_queries.group:
            rules = {"max_server_per_host": "1"}
            return api_queries.Group(uuid(9), [self.policy], rules, [uuid(1), uuid(2)]) if args[0] == "web" else None
        assert work is api_queries.request_spec
        if args[0] != uuid(1):
            return None
        stored = envelope("InstanceGroup", uuid="web", policy=self.policy) if self.in_group else None
        return arguments(**({"instance_group": stored, "scheduler_hints": {}} if stored else HINTED))["spec_obj"]


HINTED = {"scheduler_hints": {"requested_host": ["cmp1"]}}


@pytest.fixture
def world() -> EndpointInMemory:
    made = EndpointInMemory(instances=[instance_row(1, "cmp2"), instance_row(2, "cmp3")])
    made.api = FakeApi()
    made.operator = NovaOperator(made.driver, made.api)
    return made


def _explained(world, **asked):
    return [each["host"] for each in world.endpoint.explain(new_context(), **asked)["scores"]]


def _refusal(call, **arguments) -> errors.FleetError:
    with pytest.raises(dispatcher.ExpectedException) as refused:
        call(new_context(), **arguments)
    return refused.value.exc_info[1]


def test_explain_by_flavor(world):
    """The whole way of the command: a request by the flavor's name, then what would be answered."""
    request = {"flavor": "small", "count": 2, "availability_zone": "az1"}
    asked = world.operator.request_for(new_context("p1", "u1"), request=request)
    found = world.endpoint.explain(new_context(), **asked, best=3)
    assert [("cmp1", "cmp1")] * 2 == [(each["host"], each["nodename"]) for each in found["picks"]]
    assert 0 == world.bookings()


def test_explain_by_server(world):
    """Its own room counts as free, and its stored hints count."""
    asked = world.operator.request_of(new_context(), name=uuid(1))
    assert ({"requested_host": "cmp1"}, "cmp2", 512) == (
        asked["filter_properties"]["scheduler_hints"],
        asked["request_spec"]["holding"]["host"],
        asked["request_spec"]["holding"]["claimed"]["memory_mb"],
    )
    found = world.endpoint.explain(new_context(), **asked)
    assert 1 == found["placed"]


def test_capacity(world):
    """8 GB a host, and the servers that are there count as the database shows them: 16 of 512 MB on each of 3 hosts."""
    asked = world.operator.request_for(new_context(), request={"flavor": "42"})
    assert 48 == world.endpoint.capacity(new_context(), **asked, group_by="zone")["fits"]


def test_a_group(world):
    """Of new servers: the hosts of its members are not taken."""
    asked = world.operator.request_for(new_context(), request={"flavor": "small", "group": "web"})
    assert ["cmp1"] == _explained(world, **asked)
    world.api.policy = "affinity"
    asked = world.operator.request_for(new_context(), request={"flavor": "small", "group": "web"})
    assert {"cmp2", "cmp3"} == set(_explained(world, **asked))


def test_the_group_of_a_server(world):
    """The host of another member is not taken; the server's own is."""
    world.api.in_group = True
    asked = world.operator.request_of(new_context(), name=uuid(1))
    assert {"cmp1", "cmp2"} == set(_explained(world, **asked))


def test_traits(world):
    """Of a flavor: only compute nodes that have them are shown; placement is asked."""
    world.api.extra_specs = {"trait:HW_CPU_X86_AVX2": "required"}
    world.adapter.get = lambda path, _body: Answer(200, {"resource_providers": [{"uuid": UUIDS["cmp3"]}]})
    asked = world.operator.request_for(new_context(), request={"flavor": "small"})
    assert ["cmp3"] == _explained(world, **asked)
    assert ("GET", "/resource_providers?required=HW_CPU_X86_AVX2") in world.adapter.calls


def test_unknown_names(world):
    """Are refused by name."""
    assert "Flavor none" in _refusal(world.operator.request_for, request={"flavor": "none"}).message
    assert uuid(7) in _refusal(world.operator.request_of, name=uuid(7)).message
    assert "web" in _refusal(world.operator.request_of, name="web").message
    assert "Server group g" in _refusal(world.operator.request_for, request={"flavor": "small", "group": "g"}).message


def test_hosts(world):
    """Those that are up."""
    world.host_manager.poll()
    assert ["cmp1", "cmp2", "cmp3"] == [each["host"] for each in world.operator.list_hosts(new_context())]


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    made = cfg.ConfigOpts()
    nova_broker.register_opts(made)
    made.register_opt(cfg.StrOpt("rabbit_driver"))
    made([])
    return made


def test_the_commands_use_novas_broker(conf):
    """If the configuration is that of a nova; otherwise nothing changes."""
    nova_broker.use(conf)
    assert "transport_url" not in conf
    conf.set_override("transport_url", "rabbit://nova@broker/", "nova")
    nova_broker.use(conf)
    assert ("rabbit://nova@broker/", "nova", "stock") == (conf.transport_url, conf.control_exchange, conf.rabbit_driver)


def test_other_commands_are_not_sent_to_nova(conf):
    """Its conductor would not understand them."""
    conf.set_override("transport_url", "rabbit://nova@broker/", "nova")
    with pytest.raises(connection.CommandFailed, match="use nova's own commands"):
        connection.Connection(conf).ask("list_instances")
