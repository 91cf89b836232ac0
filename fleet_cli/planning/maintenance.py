# SPDX-License-Identifier: Apache-2.0
"""``fleet maintenance plan`` and ``run``: waves of hosts that can be empty together, and their maintenance.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import shlex
from collections.abc import Mapping, Sequence

from fleet import states
from fleet.client import argument_types, connection, offers, pages, ways
from fleet.objects.answers.hosts import AggregateView, HostView
from fleet.objects.maintenance import MOST_HOSTS
from fleet.objects.waves import ENTRY_POINTS, WavesGoal, WavesPlan
from fleet_cli.base import command, database_command, listing
from fleet_cli.base.output import progress
from fleet_cli.hosts import maintenance
from fleet_cli.planning import planning

COLUMNS = ("wave", "host", "guests", "memory_mb", "live", "cold")
_MOVE_COLUMNS = ("wave", "instance", "from", "to", "memory_mb", "disk_gb", "way")
#: Lines of progress if standard error is no terminal.
_LINES = 10
#: Characters of a uuid that people see; programs get all.
_SHORT_UUID = 8
#: Characters of why a host is left out.
_LONGEST = 255


class _Command(command.Lister):
    """Options of both commands, and the plan."""

    arguments: Sequence[command.Argument] = (
        command.repeated(
            "--hosts",
            required=True,
            metavar="WHICH",
            help="The hosts: an aggregate (its name or uuid), a label such as rack=r7, or names with commas between. May be "
            "repeated.",
        ),
        command.argument(
            "--at-a-time",
            type=argument_types.positive,
            default=10,
            metavar="N",
            help="The most hosts of a wave. Default: %(default)s.",
        ),
        command.argument(
            "--cold", action="store_true", help="Switch guests off for their moves that cannot move while they run."
        ),
    )

    def planned(self, parsed_args: argparse.Namespace) -> tuple[WavesPlan, Mapping[str, str]]:
        """Return the plan, and by guest why it cannot move while it runs."""
        named = hosts_named(
            parsed_args.hosts, pages.hosts(self.conductor.operator), self.conductor.operator.list_aggregates()
        )
        taken = self._taken()
        hosts = [host for host in named if host not in taken]
        with database_command.plain_failures():
            state = planning.state(self.app.conf, "maintenance")
            there = [each for each in state.instances if each.host in set(hosts)]
            guests = [each.uuid for each in there]
            promised = planning.promised(self.conductor, state, self.app.conf.default_availability_zone)
            asked = (self.app.options.verbose_level, _LINES)
            requests = planning.of_instances(self.conductor, guests, *asked, live=True)
            everybody = [each.uuid for each in state.instances if each.host and promised]
            anew = planning.of_instances(self.conductor, everybody, *asked)
            done = itertools.count(1)
            with progress.shown(len(hosts), "hosts", self.app.options.verbose_level, _LINES, "planned") as shown:
                plan: WavesPlan = offers.load(ENTRY_POINTS)(
                    *(self.app.conf, state, WavesGoal(hosts, parsed_args.at_a_time, promised)),
                    *(lambda uuid: planning.known(requests, uuid), lambda host: shown.show(next(done), host)),
                    lambda uuid: planning.known(anew, uuid),
                )
        obstacles = ways.obstacles(self.conductor, [each.uuid for each in there if each.vm_state not in states.AT_REST])
        others = {host: f"is in the maintenance {taken[host]}" for host in named if host in taken}
        plan = dataclasses.replace(plan, stuck={**others, **plan.stuck})
        return plan, {uuid: why for uuid, why in obstacles.items() if why}

    def _taken(self) -> dict[str, str]:
        """Return by host the name of the maintenance that it is in."""
        found = {}
        for each in self.conductor.operator.list_maintenances():
            if each["ended_at"] is None:
                shown = self.conductor.operator.show_maintenance(name=each["uuid"])
                found.update({host["host"]: each["name"] for host in shown["hosts"] if host["ended_at"] is None})
        return found

    def tell(self, plan: WavesPlan, cold: Mapping[str, str], allowed: bool) -> None:
        hosts, moves = sum(len(each.hosts) for each in plan.waves), [move for each in plan.waves for move in each.moves]
        moved = len({each.instance_uuid for each in moves})
        each = f", {len(moves) / moved:.2f} for each of {_counted(moved, 'guest')}" if moved else ""
        counted = f"{hosts} of {hosts + len(plan.stuck)} hosts" if plan.stuck else _counted(hosts, "host")
        fewest = f"no plan for them has fewer than {plan.bound}"
        bound = f" ({fewest})" if plan.waves else ""
        in_waves = f"{counted} in {_counted(len(plan.waves), 'wave')}{bound}"
        listing.remark(f"{in_waves}; {_counted(len(moves), 'move')}{each}")
        for host, why in plan.stuck.items():
            listing.remark(f"  {host} is left out: {why}")
        for uuid, why in itertools.islice(cold.items(), _LINES):
            listing.remark(f"  {uuid} {'is switched off for its move' if allowed else 'holds its host up'}: it {why}")
        if len(cold) > _LINES:
            listing.remark(f"  and {_counted(len(cold) - _LINES, 'more guest')}")


def hosts_named(wanted: Sequence[str], known: Sequence[HostView], aggregates: Sequence[AggregateView]) -> list[str]:
    """Return the hosts that ``--hosts`` names, each once.

    :raises connection.CommandFailed: there is no such host, aggregate or label, a name has two meanings, or too many hosts
    """
    labels = {each["host"]: each.get("labels") or {} for each in known}
    members = {each[by]: each["hosts"] for by in ("name", "uuid") for each in aggregates}
    found: list[str] = []
    for each in wanted:
        key, _, value = each.partition("=")
        if each in members and each in labels:
            raise connection.CommandFailed(
                f"--hosts: {each} is a host and an aggregate: '{each},' is the host, its uuid is the aggregate"
            )
        if each in members:
            hosts = [host for host in members[each] if host in labels]
            if not hosts:
                raise connection.CommandFailed(f"--hosts: no host is in the aggregate {each}")
        elif value:
            hosts = [host for host, its_labels in labels.items() if its_labels.get(key) == value]
        else:
            hosts = [name.strip() for name in each.split(",") if name.strip()]
        unknown = [host for host in hosts if host not in labels]
        if unknown or not hosts:
            raise connection.CommandFailed(f"--hosts: there is no host, aggregate or label {(unknown or [each])[0]}")
        found += hosts
    found = list(dict.fromkeys(found))
    if len(found) > MOST_HOSTS:
        raise connection.CommandFailed(f"--hosts: {len(found)} hosts, at most {MOST_HOSTS} are allowed at a time")
    return found


class PlanMaintenance(_Command):
    """Plan waves of hosts that can be empty together, under all filters. Nothing is changed.

    A guest moves to a host that has had its turn, or that is not among --hosts, where there is room: so it moves once.
    """

    arguments = (
        command.argument("--moves", action="store_true", help="List the moves of the guests in place of the hosts."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        plan, cold = self.planned(parsed_args)
        self.tell(plan, cold, parsed_args.cold)
        return (_MOVE_COLUMNS, _moves(plan, cold)) if parsed_args.moves else (COLUMNS, _rows(plan, cold))


class RunMaintenance(_Command):
    """Plan waves as 'fleet maintenance plan' does, and begin them.

    Conductors drain each host, run the hook, wait until its agent is back, and go on with the next wave, also without this
    command. Without --hook do the work on each host that is empty, and start its agent anew.
    """

    arguments = (
        command.argument("--name", help="Default: maintenance-, and the time."),
        command.argument(
            "--hook", metavar="NAME", help="The command for each host that is empty: a name of [maintenance] hooks."
        ),
        command.argument(
            "--wanted-release", metavar="VERSION", help="A host is done only when its agent has this release."
        ),
        command.argument(
            "--moves-at-a-time",
            type=argument_types.positive,
            default=4,
            metavar="N",
            help="Moves under way together. Default: %(default)s.",
        ),
        command.WAIT_FOR_THE_END,
        command.argument(
            "--timeout",
            type=argument_types.positive,
            metavar="SECONDS",
            help="With --wait: how long. Default: until it has ended.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        plan, cold = self.planned(parsed_args)
        self.tell(plan, cold, parsed_args.cold)
        if not plan.waves:
            raise connection.CommandFailed("no host can be emptied; nothing was begun")
        name = parsed_args.name or f"maintenance-{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}"
        wanted = {
            "name": name,
            "waves": [list(each.hosts) for each in plan.waves],
            "destinations": _destinations(plan),
            "hook": parsed_args.hook,
            "wanted_release": parsed_args.wanted_release,
            "cold": parsed_args.cold,
            "moves_at_a_time": parsed_args.moves_at_a_time,
        }
        left_out = {host: why[:_LONGEST] for host, why in plan.stuck.items()}
        self.conductor.operator.create_maintenance(wanted, left_out=left_out)
        listing.remark(f"{name} has begun: 'fleet maintenance show {shlex.quote(name)}'")
        if parsed_args.wait:
            self._follow(name, parsed_args.timeout, sum(len(each.hosts) for each in plan.waves))
        return COLUMNS, _rows(plan, cold)

    def _follow(self, name: str, timeout_s: float | None, hosts: int) -> None:
        with progress.shown(hosts, "hosts", self.app.options.verbose_level) as shown:
            try:
                found = maintenance.follow(self.conductor, name, timeout_s, lambda *now: shown.show_of(*now))
            except KeyboardInterrupt:
                shown.close()
                listing.remark(f"Interrupted. {name} goes on: 'fleet maintenance show {shlex.quote(name)}'")
                raise
        skipped = found["maintenance"]["hosts"].get("skipped", 0)
        left_out = f"{_counted(skipped, 'host')} {'was' if skipped == 1 else 'were'}"
        if skipped or found["maintenance"]["status"] != "ended":
            raise connection.CommandFailed(f"{name} is {found['maintenance']['status']}; {left_out} left out")


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _moves(plan: WavesPlan, cold: Mapping[str, str]) -> list[tuple]:
    return [
        (
            *(number, listing.Uuid(move.instance_uuid, _SHORT_UUID), move.source, move.destination),
            *(move.memory_mb, move.disk_gb, "cold" if move.instance_uuid in cold else "live"),
        )
        for number, wave in enumerate(plan.waves, 1)
        for move in wave.moves
    ]


def _destinations(plan: WavesPlan) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for each in plan.waves:
        for move in each.moves:
            found.setdefault(move.source, {})[move.instance_uuid] = move.destination
    return found


def _rows(plan: WavesPlan, cold: Mapping[str, str]) -> list[tuple]:
    rows = []
    for number, wave in enumerate(plan.waves, 1):
        for host in wave.hosts:
            moves = [each for each in wave.moves if each.source == host]
            off = sum(each.instance_uuid in cold for each in moves)
            memory_mb = sum(each.memory_mb for each in moves)
            rows.append((number, host, len(moves), memory_mb, len(moves) - off, off))
    return rows
