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
from tests.unit.scheduler.nova.recordings import message
from tests.unit.scheduler.nova.worlds import World, instance_row

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
    """The API database with one flavor and one request."""

    def read(self, work, *args):
        if work is api_queries.flavor:
            return {**SMALL, "extra_specs": {}} if args[0] in ("small", "42") else None
        assert work is api_queries.request_spec
        return message("req_build_1")["args"]["spec_obj"] if args[0] == uuid(1) else None


@pytest.fixture
def world() -> World:
    made = World(instances=[instance_row(1, "cmp2")])
    made.operator = NovaOperator(made.driver, FakeApi())
    return made


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


def test_unknown_names(world):
    """Are refused by name; groups are not looked up."""
    assert "Flavor none" in _refusal(world.operator.request_for, request={"flavor": "none"}).message
    assert uuid(7) in _refusal(world.operator.request_of, name=uuid(7)).message
    assert "web" in _refusal(world.operator.request_of, name="web").message
    assert "group" in _refusal(world.operator.request_for, request={"flavor": "small", "group": "g"}).message


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
        connection.Connection(conf).operator("list_instances")
