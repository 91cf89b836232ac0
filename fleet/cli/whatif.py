# SPDX-License-Identifier: Apache-2.0
"""``fleet whatif``: places requests, or hosts' instances, on a hypothetical fleet."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from fleet import errors
from fleet.cli import (
    build_arguments,
    command,
    database_command,
    explain,
    planning,
    progress,
    trace_arguments,
    utilization,
)
from fleet.client import argument_types, connection
from fleet.db.feed import Changes
from fleet.objects.whatif import ENTRY_POINTS, RATIOS, Change, Demand

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
_SHOWN: Mapping[str, Any] = {
    "refused_by_reason": explain.Counts,
    "refused_by_size": explain.Counts,
    "unplaced": explain.Lines,
    "over_time": utilization.Samples,
}
#: Lines of progress if standard error is no terminal.
_LINES = 20
#: Each additional host takes memory in this program.
_MOST_HOSTS = 100_000


class WhatIf(command.Lister):
    """Show how requests would be placed on a changed fleet, and on the present one.

    The command reads the database once and decides on that copy, with the configured filters and weighers. Nothing is
    booked, built or written. The requests come from a trace (--trace), or are instances of a flavor (--flavor, --count).
    With neither, they are the instances of the hosts that --without-host takes away. A host that is down stays down.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        change = parser.add_argument_group("the changed fleet")
        change.add_argument("--without-host", action="append", default=[], metavar="HOST",
                            help="Take this host away, with its instances; repeat for several.")  # fmt: skip
        change.add_argument("--without-filter", action="append", default=[], metavar="FILTER",
                            help="Do not use this filter; repeat for several.")  # fmt: skip
        change.add_argument("--ratio", type=ratio, action="append", default=[], metavar="cpu|ram|disk=NUMBER",
                            help="Set the allocation ratio of every host; repeat for several.")  # fmt: skip
        change.add_argument("--more-hosts", type=more_hosts, default=0, metavar="N",
                            help=f"Add this many empty hosts, at most {_MOST_HOSTS}; needs --like.")  # fmt: skip
        change.add_argument("--like", default="", metavar="HOST", help="The host that --more-hosts copies.")
        demand = parser.add_argument_group("the requests")
        build_arguments.add_flavor(demand, required=False)
        demand.add_argument("--count", type=argument_types.positive, default=1, metavar="N",
                            help="Instances of the flavor, each a request of its own. Default: %(default)s.")  # fmt: skip
        build_arguments.add_conditions(demand)
        trace_arguments.add_trace(demand)
        utilization.add_plot(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        change = _change(parsed_args)
        utilization.check(parsed_args.plot)
        with database_command.plain_failures():
            state = planning.state(self.app.conf, "whatif")
            _require_known(change, {node.host for node in state.nodes})
            demands, moved = self._demands(parsed_args, state, change)
            if not demands:
                raise connection.CommandFailed(
                    "nothing is asked: give --trace or --flavor, or --without-host with a host that has instances"
                )
            figures = {"what if": self._run(state, change, demands)}
            if not moved:  # instances that are on a host have no other place now
                figures = {"now": self._run(state, Change(), demands), **figures}
        utilization.draw(parsed_args.plot, figures)
        return ("figure", *figures), [(name, *(_value(each, name) for each in figures.values())) for name in FIGURES]

    def _demands(
        self, parsed_args: argparse.Namespace, state: Changes, change: Change
    ) -> tuple[Sequence[Demand], bool]:
        """Return the requests, and True if their instances are on the removed hosts now."""
        if parsed_args.trace:
            return list(_of_trace(parsed_args)), False
        if parsed_args.flavor:
            self.conductor.act_for(parsed_args.project, parsed_args.user)
            request = build_arguments.build_request(self.conductor, parsed_args)
            asked = self.conductor.operator("request_for", request=request)
            return planning.one_by_one(asked, parsed_args.count), False
        gone = set(change.without_hosts)
        moving = [each.uuid for each in state.instances if each.host in gone]
        return [planning.of_instance(self.conductor, uuid_) for uuid_ in moving], True

    def _run(self, state: Changes, change: Change, demands: Sequence[Demand]) -> dict[str, Any]:
        (entry,) = metadata.entry_points(group=ENTRY_POINTS)
        done = itertools.count(1)
        with progress.shown(len(demands), "requests", self.app.options.verbose_level, _LINES) as shown:
            return entry.load()(self.app.conf, state, change, demands, lambda _one: shown.show(next(done), ""))


def ratio(text: str) -> tuple[str, float]:
    """An argparse type: ``cpu=4``."""
    resource, value = argument_types.pair(text)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if resource not in RATIOS or not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(RATIOS)}, '=' and a number above 0, got {text!r}")
    return resource, number


def more_hosts(text: str) -> int:
    """An argparse type: a number of additional hosts."""
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_HOSTS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {_MOST_HOSTS}, got {text!r}")
    return int(text)


def _change(parsed_args: argparse.Namespace) -> Change:
    if bool(parsed_args.more_hosts) != bool(parsed_args.like):
        raise connection.CommandFailed("--more-hosts and --like go together")
    if parsed_args.trace and parsed_args.flavor:
        raise connection.CommandFailed("give --trace or --flavor, not both")
    return Change(
        without_hosts=parsed_args.without_host,
        ratios=dict(parsed_args.ratio),
        without_filters=parsed_args.without_filter,
        more_hosts=parsed_args.more_hosts,
        like=parsed_args.like,
    )


def _require_known(change: Change, hosts: set[str]) -> None:
    """:raises errors.NotFound: a host to remove or to copy does not exist"""
    for host in (*change.without_hosts, *([change.like] if change.like else [])):
        if host not in hosts:
            raise errors.NotFound(kind="Host", name=host)


def _of_trace(parsed_args: argparse.Namespace) -> Iterator[Demand]:
    requests, flavors = trace_arguments.read_trace(parsed_args)
    for each in requests:
        name = f"trace-{each.flavor}"
        spec = {"instance_type": {**flavors[each.flavor], "name": name}, "num_instances": each.count}
        yield Demand({**spec, **planning.named(each.count)}, {}, each.lifetimes_s, each.at_s, name)


def _value(figures: Mapping[str, Any], name: str) -> Any:
    value = figures.get(name)
    return _SHOWN[name](value) if name in _SHOWN else value
