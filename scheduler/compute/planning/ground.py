# SPDX-License-Identifier: Apache-2.0
"""The state that plans of moves start from: the fleet as the feed shows it, and the instances on each host.

Called by the other modules that plan moves and losses.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import numpy
from oslo_config import cfg

from fleet import errors, states
from fleet.db.feed.feed import Changes
from fleet.objects import Holding, RequestSpec
from fleet.objects.feed_rows import ShownInstance
from fleet.objects.rebalance import Move
from fleet.objects.whatif import Demand
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.tolerance import amounts
from scheduler.compute.weights import BaseHostWeigher, CPUWeigher, RAMWeigher
from scheduler.engine import pipeline
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.planning.copied_fleet import CopiedFleet

#: Returns the request that places an existing instance, from its uuid.
RequestOf = Callable[[str], Demand]


@dataclasses.dataclass(frozen=True)
class Movable:
    """An instance that can be moved, and the request that places it."""

    uuid: str
    host: str
    request: RequestSpec

    @property
    def holding(self) -> Holding:
        holding = self.request.holding
        assert holding is not None, "the conductor sends it with every request of an instance"
        return holding


class Ground:
    """The fleet as the feed shows it, and the instances on each host."""

    def __init__(self, conf: cfg.ConfigOpts, state: Changes, request_of: RequestOf) -> None:
        self.state = state
        self._conf = conf
        self._request_of = request_of
        self._known: dict[str, Movable] = {}
        self._instances: dict[str, list[ShownInstance]] = collections.defaultdict(list)
        for each in state.instances:
            if each.host is not None:
                self._instances[each.host].append(each)
        self._host_of = {each.uuid: each.host for each in state.instances}

    @functools.cached_property
    def pipeline(self) -> pipeline.Pipeline:
        """The configured filters and weighers."""
        return loading.load_pipeline(self._conf)

    def copy(self, state: Changes | None = None) -> CopiedFleet:
        """Return a copy with the configured filters, and weighers that prefer the fullest host."""
        return CopiedFleet(packing(self.pipeline), state or self.state, self._conf.service_down_time, HostManager)

    def free(self, hosts: Candidates, _age: StateAge) -> numpy.ndarray:
        """Return what the configured filters see free on each host: vcpus, memory and disk in MB."""
        found: numpy.ndarray = amounts.free(self.pipeline, hosts)[hosts.present()]
        return found

    def count(self, host: str) -> int:
        return len(self._instances[host])

    def hosts(self) -> list[str]:
        """Return the hosts that have instances."""
        return [host for host, there in self._instances.items() if there]

    def why_not_emptied(self, host: str) -> str:
        """Return why a guest that runs on this host cannot be moved now; empty if all can."""
        for each in self._instances[host]:
            reason = "" if _rests(each) else _busy(each)
            if reason:
                return f"instance {each.uuid} {reason}"
        return ""

    def at_rest(self, host: str) -> set[str]:
        """Return the instances of this host whose guests do not run, as their owners want it."""
        return {each.uuid for each in self._instances[host] if _rests(each)}

    def busy(self) -> dict[str, str]:
        """Return by uuid why instances cannot be moved now."""
        every = [each for there in self._instances.values() for each in there]
        return {each.uuid: reason for each in every if (reason := _busy(each))}

    def movable(self, host: str) -> list[Movable]:
        """Return the instances of a host. The ones that the conductor no longer knows are left out."""
        found = []
        for each in self._instances[host]:
            if each.uuid not in self._known:
                try:
                    demand = self._request_of(each.uuid)
                except errors.FleetError:
                    continue
                self._known[each.uuid] = Movable(each.uuid, host, self.request(demand))
            found.append(self._known[each.uuid])
        return found

    def request(self, demand: Demand) -> RequestSpec:
        """Return a request without the places of members that this fleet shows: they move, and copies know where to.

        A member that has another place beside is being moved, so no plan moves it: both its places stay.
        """
        request = RequestSpec.from_wire(demand.request_spec, demand.filter_properties)
        if not request.group_members and not request.group_places:
            return request
        staying = {uuid for uuid, host in request.group_places if self._host_of.get(uuid) != host}
        places = frozenset(pair for pair in request.group_places if pair[0] in staying)
        told = {host for _uuid, host in request.group_places}
        shown = {self._host_of.get(uuid) for uuid in request.group_members}
        hosts = request.group_hosts.difference(told, shown).union(host for _uuid, host in places)
        return dataclasses.replace(request, group_hosts=frozenset(hosts), group_places=places)


def _busy(row: ShownInstance) -> str:
    if (row.vm_state, row.task_state) == (states.ACTIVE, None):
        return ""
    return f"is {row.vm_state} ({row.task_state or 'no task'})"


def _rests(row: ShownInstance) -> bool:
    return row.vm_state in states.AT_REST and row.task_state is None


def packing(asked: pipeline.Pipeline) -> pipeline.Pipeline:
    """Return a pipeline for plans: with the same filters, and weighers that prefer the fullest host.

    Picks have no alternates and no claim limits, which no plan reads.
    """
    weighers = cast("Sequence[BaseHostWeigher]", (RAMWeigher(-1.0), CPUWeigher(-1.0)))
    return dataclasses.replace(asked, weighers=weighers, alternates=0, claim_limits=False)


def away(instance: Movable, without: Iterable[str] = (), to: str | None = None) -> RequestSpec:
    """Return the request for another host for an instance.

    :param without: hosts that are not to be used, beside the instance's own
    :param to: the only host to be used; None: any
    """
    wanted = instance.request
    return dataclasses.replace(
        wanted,
        ignore_hosts=(*wanted.ignore_hosts, instance.host, *without),
        requested_hosts=wanted.requested_hosts if to is None else (to,),
        force_hosts=(),
        force_nodes=(),
    )


def elsewhere(fleet: CopiedFleet, instance: Movable, without: Iterable[str] = (), to: str | None = None) -> Decision:
    """Find another host for an instance, and book it; incomplete if no host passes. See :func:`away`."""
    return fleet.decide(away(instance, without, to))


def as_move(instance: Movable, destination: str, purpose: str) -> Move:
    wanted, held = instance.request, instance.holding.claimed
    return Move(
        instance_uuid=instance.uuid,
        source=instance.host,
        destination=destination,
        vcpus=held.vcpus if held else wanted.vcpus,
        memory_mb=held.memory_mb if held else wanted.memory_mb,
        disk_gb=held.disk_gb if held else wanted.root_gb + wanted.ephemeral_gb,
        purpose=purpose,
    )
