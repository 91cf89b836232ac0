# SPDX-License-Identifier: Apache-2.0
"""What is done to a cloud with either scheduler, and how it ends, in words: the rows of the table in docs/nova.md."""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Callable

from tests.nova import arrangements
from tests.nova.calls import eventually
from tests.nova.cloud import HOSTS, Cloud

_HOST = "OS-EXT-SRV-ATTR:host"
#: Title → what is played: the ending of each scenario with one scheduler.
SCENARIOS: dict[str, Callable[[Cloud], str]] = {}

#: The feed reads aggregates at most so often; the casts about them may come later than a boot.
_AGGREGATES_S = 5.0
_GOLD = {"resources1__CUSTOM_GOLD": "1"}


def _scenario(title: str) -> Callable[[Callable[[Cloud], str]], Callable[[Cloud], str]]:
    def add(play: Callable[[Cloud], str]) -> Callable[[Cloud], str]:
        SCENARIOS[title] = play
        return play

    return add


@_scenario("The resource provider of one host is deleted, its service is up: 4 servers")
def _no_provider(cloud: Cloud) -> str:
    with arrangements.without_provider(cloud, HOSTS[0]):
        return _boots(cloud, "small", 4)


@_scenario("Ratio of VCPU 32 in placement, 4 in the node's column: 6 servers of 8 vcpus to this host")
def _ratio(cloud: Cloud) -> str:
    with arrangements.ratio(cloud, HOSTS[0], "VCPU", 32.0):
        return _boots(cloud, "wide", 6, host=HOSTS[0])


@_scenario("Two of three hosts are filled by allocations that only placement knows: 4 servers")
def _filled(cloud: Cloud) -> str:
    with arrangements.filled(cloud, *HOSTS[:2], MEMORY_MB=7680):
        return _boots(cloud, "small", 4, told=True)


@_scenario("The same on all hosts: 1 server")
def _full(cloud: Cloud) -> str:
    with arrangements.filled(cloud, *HOSTS, MEMORY_MB=7680):
        return _boots(cloud, "small", 1)


@_scenario("`resources:DISK_GB=0`, and the disks of all hosts are full: 2 servers")
def _no_disk(cloud: Cloud) -> str:
    with arrangements.filled(cloud, *HOSTS, DISK_GB=1028), arrangements.flavor(cloud, resources__DISK_GB="0") as wanted:
        return _boots(cloud, wanted, 2)


@_scenario("The disks of all hosts are full, and a provider shares its disk with two of them: 2 servers")
def _shared(cloud: Cloud) -> str:
    with (
        arrangements.filled(cloud, *HOSTS, DISK_GB=1028),
        arrangements.shared_disk(cloud, 100, *HOSTS[:2]),
        arrangements.flavor(cloud) as wanted,
    ):
        return _boots(cloud, wanted, 2, holding=True)


@_scenario("`resources1:CUSTOM_GOLD=1`, and one nested provider has one: 2 servers, one after the other")
def _nested(cloud: Cloud) -> str:
    with arrangements.nested(cloud, HOSTS[1], gold=1), arrangements.flavor(cloud, **_GOLD) as wanted:
        return "; ".join(_boots(cloud, wanted, 1, holding=True, keep=True) for _server in range(2))


@_scenario("Two groups of CUSTOM_GOLD with `group_policy=isolate`, on a host with two nested providers: 1 server")
def _isolated(cloud: Cloud) -> str:
    specs = {**_GOLD, "resources2__CUSTOM_GOLD": "1", "group_policy": "isolate"}
    with arrangements.nested(cloud, HOSTS[2], gold=2, silver=2), arrangements.flavor(cloud, **specs) as wanted:
        return _boots(cloud, wanted, 1, holding=True)


@_scenario("The same on a host with one nested provider that has two")
def _not_isolated(cloud: Cloud) -> str:
    specs = {**_GOLD, "resources2__CUSTOM_GOLD": "1", "group_policy": "isolate"}
    with arrangements.nested(cloud, HOSTS[2], gold=2), arrangements.flavor(cloud, **specs) as wanted:
        return _boots(cloud, wanted, 1)


@_scenario("A required trait that one host has: 2 servers")
def _required(cloud: Cloud) -> str:
    with (
        arrangements.trait(cloud, "CUSTOM_FAST", HOSTS[1]),
        arrangements.flavor(cloud, trait__CUSTOM_FAST="required") as wanted,
    ):
        return _boots(cloud, wanted, 2, told=True)


@_scenario("A forbidden trait that two hosts have: 2 servers")
def _forbidden(cloud: Cloud) -> str:
    with (
        arrangements.trait(cloud, "CUSTOM_FAST", *HOSTS[:2]),
        arrangements.flavor(cloud, trait__CUSTOM_FAST="forbidden") as wanted,
    ):
        return _boots(cloud, wanted, 2, told=True)


@_scenario("A required trait that placement does not know: 1 server")
def _unknown(cloud: Cloud) -> str:
    with arrangements.flavor(cloud, trait__CUSTOM_NOWHERE="required") as wanted:
        return _boots(cloud, wanted, 1)


@_scenario("Dedicated CPUs, and no host has PCPU: 1 server")
def _dedicated(cloud: Cloud) -> str:
    with arrangements.flavor(cloud, hw__cpu_policy="dedicated") as wanted:
        return _boots(cloud, wanted, 1)


@_scenario("Packed virtqueues, and no host has the trait: 1 server")
def _packed(cloud: Cloud) -> str:
    with arrangements.flavor(cloud, hw__virtio_packed_ring="true") as wanted:
        return _boots(cloud, wanted, 1)


@_scenario(
    "Two hosts are in an aggregate that is isolated by a trait (`enable_isolated_aggregate_filtering`): 3 servers"
)
def _aggregate(cloud: Cloud) -> str:
    with (
        arrangements.trait(cloud, "CUSTOM_APART", *HOSTS[:2]),
        arrangements.aggregate(cloud, {"trait:CUSTOM_APART": "required"}, *HOSTS[:2]),
        arrangements.flavor(cloud) as wanted,
    ):
        _caught_up(cloud, _AGGREGATES_S)
        return _boots(cloud, wanted, 3, told=True)


@_scenario("One host is in an aggregate of the project (`limit_tenants_to_placement_aggregate`): 3 servers")
def _tenant(cloud: Cloud) -> str:
    with arrangements.aggregate(cloud, {"filter_tenant_id": "p1"}, HOSTS[2]), arrangements.flavor(cloud) as wanted:
        _caught_up(cloud, _AGGREGATES_S)
        return _boots(cloud, wanted, 3, told=True)


@_scenario("A zone with one host: 2 servers")
def _zone(cloud: Cloud) -> str:
    with arrangements.aggregate(cloud, {"availability_zone": "north"}, HOSTS[1]), arrangements.flavor(cloud) as wanted:
        _caught_up(cloud, _AGGREGATES_S)
        return _boots(cloud, wanted, 2, told=True, availability_zone="north")


@_scenario("A forced host whose service is disabled: 1 server")
def _disabled(cloud: Cloud) -> str:
    with arrangements.disabled(cloud, HOSTS[0]), arrangements.flavor(cloud) as wanted:
        return _boots(cloud, wanted, 1, availability_zone=f"nova:{HOSTS[0]}")


@_scenario("Two hosts are disabled: 3 servers")
def _two_disabled(cloud: Cloud) -> str:
    with (
        arrangements.disabled(cloud, HOSTS[0]),
        arrangements.disabled(cloud, HOSTS[1]),
        arrangements.flavor(cloud) as wanted,
    ):
        return _boots(cloud, wanted, 3, told=True)


@_scenario("A group of 3 with anti-affinity, in one request, and a fourth member")
def _apart(cloud: Cloud) -> str:
    group = cloud.api("POST", "/os-server-groups", {"server_group": {"name": "apart", "policy": "anti-affinity"}})
    hints = {"group": group["server_group"]["id"]}
    with arrangements.flavor(cloud) as wanted:
        _caught_up(cloud)
        cloud.boot("member", wanted, hints, min_count=3, max_count=3)
        eventually(lambda: 3 == len(cloud.servers()))
        together = _ended(cloud, [each["id"] for each in cloud.servers()], told=True)
        return f"{together}; {_ended(cloud, [cloud.boot('fourth', wanted, hints)])}"


@_scenario("A resize that is reverted")
def _resize(cloud: Cloud) -> str:
    number = cloud.boot("grows", "small")
    before = cloud.settled(number)[_HOST]
    _act(cloud, number, {"resize": {"flavorRef": "medium"}})
    resized = cloud.settled(number)
    moved = "on another host" if resized[_HOST] != before else "on its host"
    _act(cloud, number, {"revertResize": None})
    back = eventually(lambda: (each := cloud.server(number))["status"] == "ACTIVE" and each)
    eventually(lambda: 1 == len(cloud.held().get(number, {})))
    return f"{resized['status']} {moved}, then {back['status']} {'back' if back[_HOST] == before else 'elsewhere'}"


@_scenario("A live migration without a destination")
def _live(cloud: Cloud) -> str:
    number = cloud.boot("lives", "small")
    before = cloud.settled(number)[_HOST]
    _act(cloud, number, {"os-migrateLive": {"host": None, "block_migration": "auto"}})
    eventually(lambda: cloud.server(number)[_HOST] != before)
    ended = cloud.settled(number)["status"]
    eventually(lambda: 1 == len(cloud.held().get(number, {})))
    return f"{ended} on another host"


def _act(cloud: Cloud, number: str, body: dict[str, object]) -> None:
    cloud.api("POST", f"/servers/{number}/action", body)


def _boots(
    cloud: Cloud, wanted: str, count: int, told: bool = False, holding: bool = False, keep: bool = False, **more: str
) -> str:
    """Boot some servers at once, and say how they end.

    :param told: as ``holding``, of :func:`_ended`
    :param keep: do not delete the servers
    """
    _caught_up(cloud)
    boot = functools.partial(cloud.boot, "scenario", wanted, **more)
    ended = _ended(cloud, [boot() for _server in range(count)], told, holding)
    if not keep:
        cloud.delete_all()
    return ended


def _ended(cloud: Cloud, numbers: list[str], told: bool = False, holding: bool = False) -> str:
    """Return the count of each status.

    :param told: with the hosts
    :param holding: with the kinds of resources, if they are of other providers than the host
    """
    found = [cloud.settled(number) for number in numbers]
    counts = collections.Counter(each["status"] for each in found)
    words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    hosts = sorted({each[_HOST] for each in found if each[_HOST]})
    if told and hosts:
        words += f" on {', '.join(hosts)}"
    if holding:
        names = {each["uuid"]: each["name"] for each in cloud.providers()}
        held = [cloud.held(names).get(number, {}) for number in numbers]
        others = {(names[uuid], name) for each in held for uuid, of in each.items() for name in of}
        elsewhere = sorted(f"{name} of {where}" for where, name in others if where not in HOSTS)
        words += f", {', '.join(elsewhere)}" if elsewhere else ""
    return words


def _caught_up(cloud: Cloud, after_s: float = 0.0) -> None:
    """Wait until the scheduler of this project, if it runs, has read the databases once more.

    :param after_s: aggregates are read at most so often, in seconds
    """
    asked_at = time.time() + after_s
    if cloud.has_fleet:
        eventually(lambda: cloud.read_at() > asked_at)
