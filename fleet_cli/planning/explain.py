# SPDX-License-Identifier: Apache-2.0
"""``fleet explain``: where an instance or a volume would be placed, or why nowhere.

Nothing is booked. Called by the modules beside it.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Mapping, Sequence

from cliff import columns

from fleet.client import argument_types, connection, faults
from fleet.client.calls import Calls
from fleet.client.connection import Record
from fleet.json_codec import JSONObject
from fleet.objects.answers.decisions import KeptDecision
from fleet.objects.answers.instances import SchedulingRequest
from fleet_cli.base import build_arguments, command

#: The fields of the answer in the order of the output; ``-f json`` has all of them (docs/explain.md).
FIELDS = (
    "summary",
    "reason_code",
    "reason",
    "requested",
    "considered",
    "placed",
    "filters",
    "dropped",
    "silent",
    "nearest",
    "picks",
    "scores",
    "share",
    "remarks",
    "state",
)


#: Options for hosts that are for pools as well.
_OF_VOLUMES = ("--hint", "--availability-zone", "--project", "--user")
#: Those of a decision that was kept.
KEPT_FIELDS = (
    *("at", "scheduler", "outcome", "reason_code", "reason", "requested", "considered", "placed"),
    *("filters", "nearest", "picks", "share", "remarks", "state", "earlier", "silent"),
)


class Explain(command.ShowOne):
    """Show where an instance or a volume would be placed now and why, or why nothing can take it. Nothing is booked.

    Name an existing server, or describe a new one with --flavor, or a new volume with --volume. With --request, show what
    was decided then.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", nargs="?", help="Name or uuid of an instance: as if it were placed anew.")
        build_arguments.add_flavor(parser, required=False)
        add_volume(parser)
        parser.add_argument("--request", metavar="ID", help="Id of a request, such as req-…: what schedulers decided "
                            "for it, as far as they have kept it ([decisions] file).")  # fmt: skip
        parser.add_argument("--count", type=argument_types.positive, default=1, help="How many. Default: %(default)s.")
        build_arguments.add_conditions(parser)
        parser.add_argument("--best", type=argument_types.positive, default=5, metavar="N",
                            help="Hosts in the score table. Default: %(default)s.")  # fmt: skip
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        if parsed_args.request:
            now = parsed_args.server or parsed_args.flavor or parsed_args.volume or parsed_args.volume_type
            if now or _count_given(parsed_args) or build_arguments.conditions_given(parsed_args):
                raise connection.CommandFailed("name a request, or what is to be explained as of now")
            return KEPT_FIELDS, shown(kept(self.conductor, parsed_args.request), KEPT_FIELDS, _COLUMNS)
        if parsed_args.volume:
            if _count_given(parsed_args):
                raise connection.CommandFailed("--count needs --flavor: one volume is explained")
            answer = self.conductor.explain_volume(volume_asked(self.conductor, parsed_args), parsed_args.best)
        else:
            answer = self.conductor.explain(asked(self.conductor, parsed_args), parsed_args.best)
        return FIELDS, shown(answer, FIELDS, _COLUMNS)


def asked(conductor: Calls, parsed_args: argparse.Namespace) -> SchedulingRequest:
    """Return the request for the scheduler. :raises connection.CommandFailed: neither or both ways were used"""
    server = getattr(parsed_args, "server", None)
    if bool(server) == bool(parsed_args.flavor):
        raise connection.CommandFailed("name a server, or use --flavor")
    if parsed_args.volume_type:
        raise connection.CommandFailed("--volume-type needs --volume")
    if server:
        given = [*_count_given(parsed_args), *build_arguments.conditions_given(parsed_args)]
        if given:
            raise connection.CommandFailed(f"{given[0]} needs --flavor: a server is placed as it was requested")
        return conductor.operator.request_of(name=server)
    conductor.act_for(parsed_args.project, parsed_args.user)
    return conductor.operator.request_for(request=build_arguments.build_request(conductor, parsed_args))


def _count_given(parsed_args: argparse.Namespace) -> list[str]:
    return ["--count"] if getattr(parsed_args, "count", 1) != 1 else []


def kept(conductor: Calls, request_id: str) -> JSONObject:
    """Return the newest decision of a request, by the names of :data:`KEPT_FIELDS`, and those before it in a line each.

    :raises connection.CommandFailed: none is kept
    """
    found = conductor.operator.list_decisions(request_id)
    if not found["decisions"]:
        silent = "".join(f"; scheduler {host} does not answer" for host in found["silent"])
        raise connection.CommandFailed(f"no decision of request {request_id} is kept{silent}")
    *earlier, newest = found["decisions"]
    return {
        **newest["details"],
        **newest,
        "at": _moment(newest["at"]),
        "reason": newest.get("message"),
        "earlier": [_line(each) for each in earlier],
        "silent": found["silent"],
    }


def _line(made: KeptDecision) -> str:
    hosts = ", ".join(dict.fromkeys(pick["host"] for pick in made.get("picks", ())))
    return f"{_moment(made['at'])} {made['outcome']} {hosts or made.get('message', '')}".rstrip()


def _moment(epoch_s: float) -> str:
    return datetime.datetime.fromtimestamp(epoch_s, datetime.UTC).isoformat(sep=" ", timespec="seconds")


def add_volume(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the arguments that describe a new volume."""
    parser.add_argument("--volume", type=argument_types.positive, metavar="GIB",
                        help="A new volume of this size in GiB, in place of a server.")  # fmt: skip
    parser.add_argument("--volume-type", metavar="TYPE", help="With --volume: a type of 'fleet volume type list'.")


def volume_asked(conductor: Calls, parsed_args: argparse.Namespace) -> JSONObject:
    """Return the request for a new volume.

    :raises connection.CommandFailed: a server is named too, an option is for servers, or there is no such type
    """
    if getattr(parsed_args, "server", None) or parsed_args.flavor:
        raise connection.CommandFailed("name a server, or use --flavor, or use --volume")
    given = build_arguments.conditions_given(parsed_args)
    of_servers = [option for option in given if option not in _OF_VOLUMES]
    if of_servers:
        raise connection.CommandFailed(f"{of_servers[0]} needs --flavor: a volume has no such condition")
    conductor.act_for(parsed_args.project, parsed_args.user)
    named = parsed_args.volume_type
    types = [each for each in conductor.operator.list_volume_types() if each["name"] == named] if named else []
    if named and not types:
        raise connection.CommandFailed(f"no volume type is named {named}; see 'fleet volume type list'")
    properties = {
        "size": parsed_args.volume,
        "availability_zone": parsed_args.availability_zone or None,
        "project_id": parsed_args.project,
        "user_id": parsed_args.user,
    }
    spec = {"volume_properties": properties, "volume_type": types[0] if types else None, "operation": "create_volume"}
    hints = build_arguments.hints(parsed_args.hint)
    return {"request_spec": spec, "filter_properties": {"scheduler_hints": hints}}


def shown(
    answer: Record, names: Sequence[str], kinds: Mapping[str, type[columns.FormattableColumn]]
) -> tuple[object, ...]:
    """Return the values of these fields for cliff."""
    values = ((name, answer.get(name)) for name in names)
    return tuple(
        Absent(None) if value is None else kinds[name](value) if name in kinds else value for name, value in values
    )


class Filters(columns.FormattableColumn):
    """The filter table."""

    def human_readable(self) -> str:
        return "\n".join(faults.filter_lines(self._value))


class State(columns.FormattableColumn):
    """The age of the scheduler's state."""

    def human_readable(self) -> str:
        return "\n".join(faults.state_lines(self._value))


class Absent(columns.FormattableColumn):
    """No value; null for programs."""

    def human_readable(self) -> str:
        return ""


class Lines(columns.FormattableColumn):
    """Sentences, each on a line."""

    def human_readable(self) -> str:
        return "\n".join(self._value)


class Counts(columns.FormattableColumn):
    """Names and numbers, each on a line."""

    def human_readable(self) -> str:
        return "\n".join(f"{name} {count}" for name, count in self._value.items())


class _Nearest(columns.FormattableColumn):
    """The nearest misses, with numbers."""

    def human_readable(self) -> str:
        return "\n".join(miss["text"] for miss in self._value)


class _Picks(columns.FormattableColumn):
    """The host of each instance."""

    def human_readable(self) -> str:
        return "\n".join(f"{place(pick)}  weight {pick['weight']:.3f}" for pick in self._value)


def is_pool(found: Record) -> bool:
    """Return True for a pool: only names of storage backends have an @."""
    return "@" in found["host"]


def place(found: Record) -> str:
    """Return ``host:node``, or the location of a pool."""
    return f"{found['host']}{'#' if is_pool(found) else ':'}{found['nodename']}"


class _Scores(columns.FormattableColumn):
    """The score table: a block per host, a line per weigher."""

    def human_readable(self) -> str:
        width = max((len(part["name"]) for host in self._value for part in host["weighers"]), default=0)
        return "\n".join(line for host in self._value for line in _score_lines(host, width))


def _score_lines(host: Record, width: int) -> list[str]:
    lines = [f"{place(host)}  weight {host['weight']:.3f}"]
    for part in host["weighers"]:
        lines.append(
            f"  {part['name']:{width}}  raw {_figure(part['raw'])}  normalised {part['normalised']:.3f}"
            f"  x {_figure(part['multiplier'])}  = {part['contribution']:.3f}"
        )
        lines += [
            f"    {term['shape']}: {term['before']} -> {term['after']} fit, {term['share']:.1%} of what is asked for"
            for term in part.get("terms", ())
        ]
    return lines


def _figure(value: float) -> str:
    """Return a number with all digits of its whole part, for two hosts may differ in the last one."""
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:g}"


class _Share(columns.FormattableColumn):
    """The use that the scheduler made of its own share of the hosts."""

    def human_readable(self) -> str:
        line = f"{self._value['passed']} of the scheduler's own {self._value['hosts']} hosts passed"
        beyond = self._value["beyond"]
        return f"{line}; {beyond} instance(s) would go past them" if beyond else line


_COLUMNS: dict[str, type[columns.FormattableColumn]] = {
    "filters": Filters,
    "dropped": Counts,
    "nearest": _Nearest,
    "picks": _Picks,
    "scores": _Scores,
    "share": _Share,
    "remarks": Lines,
    "earlier": Lines,
    "state": State,
}
