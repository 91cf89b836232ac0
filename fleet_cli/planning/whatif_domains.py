# SPDX-License-Identifier: Apache-2.0
"""The domains of ``fleet whatif``: instances on hosts, or volumes on pools.

Called by :mod:`fleet_cli.planning.whatif`.
"""

from __future__ import annotations

import abc
import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar, cast

from oslo_config import cfg

from fleet.client import connection
from fleet.client.calls import Calls
from fleet.db.feed.feed import Changes, Shown
from fleet.objects import Flavor
from fleet.objects.feed_rows import ShownPool, ShownVolume
from fleet.objects.survival import Loss
from fleet.objects.whatif import OF_INSTANCES, OF_VOLUMES, RATIOS, VOLUME_RATIO, Change, Demand
from fleet_cli.base import build_arguments
from fleet_cli.planning import lost, planning, trace_arguments, volume_demands

#: The figures in the order of the output; ``-f json`` has all of them (docs/whatif.md).
FIGURES = (
    "hosts",
    "requests",
    "requests_placed",
    "instances",
    "placed",
    "refused",
    "refused_by_reason",
    "refused_by_size",
    "vcpu_hours_asked",
    "vcpu_hours_placed",
    "hosts_in_use",
    "hosts_empty_on_average",
    "stranded_vcpus",
    "stranded_memory_mb",
    "largest_that_fits",
    "vcpus_used",
    "memory_mb_used",
    "disk_gb_used",
    "unplaced",
    "decision_ms",
    "over_time",
)
#: The same for volumes.
VOLUME_FIGURES = (
    "pools",
    "volumes",
    "placed",
    "refused",
    "refused_by_reason",
    "refused_by_size",
    "gb_hours_asked",
    "gb_hours_placed",
    "pools_in_use",
    "provisioned_gb",
    "largest_thin",
    "largest_thick",
    "unplaced",
    "decision_ms",
    "over_time",
)


class Domain(abc.ABC):
    """One domain of a plan. ``demands`` also returns whether what they ask for is on the removed hosts now."""

    entry: ClassVar[str]
    figures: ClassVar[Sequence[str]]
    ratios: ClassVar[Sequence[str]]
    #: Error message if there are no requests.
    nothing: ClassVar[str]

    def __init__(self, conductor: Calls, conf: cfg.ConfigOpts) -> None:
        self._conductor, self._conf = conductor, conf

    @abc.abstractmethod
    def state(self) -> Shown: ...

    @abc.abstractmethod
    def demands(
        self, parsed_args: argparse.Namespace, state: Shown, change: Change
    ) -> tuple[Sequence[Demand], bool]: ...

    def require_loss(self) -> None:
        """:raises connection.CommandFailed: what is on a lost place is not placed again"""
        raise connection.CommandFailed("--lose is for hosts with instances")

    def lost(self, targets: Sequence[str], state: Shown) -> Loss:
        """Return the loss of these hosts, after :meth:`require_loss`."""
        raise NotImplementedError

    def restored(self, state: Shown, hosts: Sequence[str], demands: Sequence[Demand]) -> Sequence[Demand]:
        """Return the requests that place again what is on lost hosts, at the time of the first of ``demands``."""
        raise NotImplementedError


class Instances(Domain):
    entry, figures, ratios = OF_INSTANCES, FIGURES, RATIOS
    nothing = "nothing is asked: give --trace or --flavor, or --without-host with a host that has instances"

    def state(self) -> Changes:
        return planning.state(self._conf, "whatif")

    def demands(self, parsed_args: argparse.Namespace, state: Shown, change: Change) -> tuple[Sequence[Demand], bool]:
        if parsed_args.trace:
            return list(_of_trace(parsed_args)), False
        if parsed_args.flavor:
            self._conductor.act_for(parsed_args.project, parsed_args.user)
            request = build_arguments.build_request(self._conductor, parsed_args)
            asked = self._conductor.operator.request_for(request=request)
            return planning.one_by_one(asked, parsed_args.count), False
        return self._of_hosts(state, change.without_hosts), True

    def require_loss(self) -> None:
        """Instances are placed again."""

    def lost(self, targets: Sequence[str], state: Shown) -> Loss:
        # The state is the one that this domain has read.
        (loss,) = lost.losses(targets, None, cast("Changes", state))
        return loss

    def restored(self, state: Shown, hosts: Sequence[str], demands: Sequence[Demand]) -> Sequence[Demand]:
        began_s = demands[0].at_s if demands else 0.0
        return [dataclasses.replace(each, at_s=began_s) for each in self._of_hosts(state, hosts)]

    def _of_hosts(self, state: Shown, hosts: Sequence[str]) -> list[Demand]:
        """Return requests for what is on these hosts, the largest first."""
        gone = set(hosts)
        moving = [each.uuid for each in state.instances if each.host in gone]
        return sorted((planning.of_instance(self._conductor, uuid_) for uuid_ in moving), key=_size, reverse=True)


class Volumes(Domain):
    entry, figures, ratios = OF_VOLUMES, VOLUME_FIGURES, (VOLUME_RATIO,)
    nothing = "nothing is asked: give --trace or --volume, or --without-host with a backend that has volumes"

    def state(self) -> Changes[ShownPool, ShownVolume]:
        return planning.pools(self._conf, "whatif")

    def demands(self, parsed_args: argparse.Namespace, state: Shown, change: Change) -> tuple[Sequence[Demand], bool]:
        trace_arguments.require_volumes(parsed_args)
        if parsed_args.trace:
            return volume_demands.of_trace(self._conductor, parsed_args), False
        if parsed_args.volume:
            return volume_demands.of_size(self._conductor, parsed_args), False
        return volume_demands.of_backends(self._conf, change.without_hosts), True


def _size(demand: Demand) -> tuple[int, int]:
    flavor = Flavor.from_wire(demand.request_spec["instance_type"])
    return flavor.memory_mb, flavor.vcpus


def _of_trace(parsed_args: argparse.Namespace) -> Iterator[Demand]:
    requests, flavors = trace_arguments.read_trace(parsed_args)
    for each in requests:
        name = f"trace-{each.flavor}"
        spec = {"instance_type": {**flavors[each.flavor], "name": name}, "num_instances": each.count}
        yield Demand({**spec, **planning.named(each.count)}, {}, each.lifetimes_s, each.at_s, name)
