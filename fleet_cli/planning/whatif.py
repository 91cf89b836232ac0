# SPDX-License-Identifier: Apache-2.0
"""``fleet whatif``: places requests, or hosts' instances, on a hypothetical fleet.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

from fleet import errors
from fleet.client import argument_types, connection, offers
from fleet.db.feed.feed import Shown
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects.whatif import ENTRY_POINTS, RATIOS, VOLUME_RATIO, Change, Demand
from fleet_cli.base import build_arguments, command, database_command
from fleet_cli.base.output import progress
from fleet_cli.hosts import utilization
from fleet_cli.planning import explain, trace_arguments
from fleet_cli.planning.whatif_domains import Domain, Instances, Volumes

_SHOWN: JSONMapping = {
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

    With --volumes or --volume, hosts are storage backends, machine@backend, and the requests are volumes.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        change = parser.add_argument_group("the changed fleet")
        change.add_argument("--without-host", action="append", default=[], metavar="HOST",
                            help="Take this host away, with its instances; repeat for several.")  # fmt: skip
        change.add_argument("--lose", action="append", default=[], metavar="HOST|KEY=VALUE",
                            help="Lose this host, or all hosts with this label: their instances are placed first, then the "
                                 "requests; repeat for several.")  # fmt: skip
        change.add_argument("--without-filter", action="append", default=[], metavar="FILTER",
                            help="Do not use this filter; repeat for several.")  # fmt: skip
        change.add_argument("--ratio", type=ratio, action="append", default=[], metavar="cpu|ram|disk=NUMBER",
                            help="Set the allocation ratio of every host; repeat for several. volume=NUMBER sets the "
                                 "over-subscription ratio of every pool.")  # fmt: skip
        change.add_argument("--more-hosts", type=more_hosts, default=0, metavar="N",
                            help=f"Add this many empty hosts, at most {_MOST_HOSTS}; needs --like.")  # fmt: skip
        change.add_argument("--like", default="", metavar="HOST", help="The host that --more-hosts copies.")
        demand = parser.add_argument_group("the requests")
        build_arguments.add_flavor(demand, required=False)
        explain.add_volume(demand)
        demand.add_argument("--count", type=argument_types.positive, default=1, metavar="N",
                            help="Instances of the flavor, or volumes, each a request of its own. "
                                 "Default: %(default)s.")  # fmt: skip
        build_arguments.add_conditions(demand)
        trace_arguments.add_trace(demand)
        trace_arguments.add_volumes(demand, "Volumes: the trace is one of them, or they are those of the backends that "
                                            "--without-host takes away.")  # fmt: skip
        utilization.add_plot(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        planned = Volumes if parsed_args.volumes or parsed_args.volume else Instances
        domain = planned(self.conductor, self.app.conf)
        change = _change(parsed_args, domain)
        utilization.check(parsed_args.plot)
        with database_command.plain_failures():
            state = domain.state()
            _require_known(change, {node.host for node in state.nodes})
            restored: Sequence[Demand] = ()
            if parsed_args.lose:
                loss = domain.lost(parsed_args.lose, state)
                gone = dataclasses.replace(change, without_hosts=[*change.without_hosts, *loss.hosts])
                demands, moved = domain.demands(parsed_args, state, gone)
                restored, change = () if moved else domain.restored(state, loss.hosts, demands), gone
            else:
                demands, moved = domain.demands(parsed_args, state, change)
            if not demands:
                raise connection.CommandFailed(domain.nothing)
            figures = {"what if": self._run(domain, state, change, [*restored, *demands])}
            if not moved:  # what is on a removed host has no other place now
                figures = {"now": self._run(domain, state, Change(), demands), **figures}
        utilization.draw(parsed_args.plot, figures)
        rows = [(name, *(_value(each, name) for each in figures.values())) for name in domain.figures]
        return ("figure", *figures), rows

    def _run(self, domain: Domain, state: Shown, change: Change, demands: Sequence[Demand]) -> JSONObject:
        done = itertools.count(1)
        with progress.shown(len(demands), "requests", self.app.options.verbose_level, _LINES) as shown:
            return offers.load(ENTRY_POINTS, domain.entry)(
                self.app.conf, state, change, demands, lambda _one: shown.show(next(done), "")
            )


def ratio(text: str) -> tuple[str, float]:
    """An argparse type: ``cpu=4``."""
    resource, value = argument_types.pair(text)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    known = (*RATIOS, VOLUME_RATIO)
    if resource not in known or not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(known)}, '=' and a number above 0, got {text!r}")
    return resource, number


def more_hosts(text: str) -> int:
    """An argparse type: a number of additional hosts."""
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_HOSTS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {_MOST_HOSTS}, got {text!r}")
    return int(text)


def _change(parsed_args: argparse.Namespace, domain: Domain) -> Change:
    if bool(parsed_args.more_hosts) != bool(parsed_args.like):
        raise connection.CommandFailed("--more-hosts and --like go together")
    if parsed_args.trace and parsed_args.flavor:
        raise connection.CommandFailed("give --trace or --flavor, not both")
    if parsed_args.volume and (parsed_args.trace or parsed_args.flavor):
        raise connection.CommandFailed("--volume goes neither with --trace nor with --flavor")
    if parsed_args.lose:
        domain.require_loss()
    for name, _number in parsed_args.ratio:
        if name not in domain.ratios:
            raise connection.CommandFailed(f"--ratio {name} is not one of {', '.join(domain.ratios)}")
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


def _value(figures: Mapping[str, object], name: str) -> object:
    value = figures.get(name)
    return _SHOWN[name](value) if name in _SHOWN else value
