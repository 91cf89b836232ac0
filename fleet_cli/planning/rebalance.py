# SPDX-License-Identifier: Apache-2.0
"""``fleet rebalance``: plans moves that free hosts, make room, balance or undo a skew, and makes them.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence, Set

from fleet.client import argument_types, connection, offers, ways
from fleet.objects import Zone
from fleet.objects.rebalance import BALANCE, ENTRY_POINTS, FREE_HOSTS, MAKE_ROOM, UNDO_SKEW, Goal, Move, Plan
from fleet_cli.base import build_arguments, command, database_command, listing
from fleet_cli.base.output import progress
from fleet_cli.planning import planning
from fleet_cli.servers.move_list import MoveList

COLUMNS = ("step", "instance", "from", "to", "vcpus", "memory_mb", "disk_gb", "way", "purpose")
#: Characters of a uuid that people see; programs get all.
_SHORT_UUID = 8
#: Lines of progress if standard error is no terminal.
_LINES = 10
#: What the planner does, at least: it reads, searches and looks at what it found.
_DOINGS = 3
_WITHIN = 10


class Rebalance(command.Lister):
    """Plan migrations that free hosts, make room for a flavor, balance the hosts, or undo a skew. With --apply, make them.

    The plan is computed on a copy of the database's contents, with the configured filters; nothing is changed. The command
    says what no plan can do better, and how far this one is from it. --apply makes the moves of a fresh plan while the
    guests run, and the filters decide once more; with --cold it switches those off that cannot move while they run. Ctrl-C
    finishes the moves under way.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--plan", action="store_true", help="Only print the plan. This is the default.")
        what.add_argument("--apply", action="store_true", help="Make the moves.")
        goal = parser.add_mutually_exclusive_group()
        goal.add_argument("--free-hosts", type=argument_types.positive, metavar="N",
                          help="Stop when N hosts are free. Default: as many as possible.")  # fmt: skip
        goal.add_argument("--balance", action="store_true", help="Make the fullest hosts less full.")
        goal.add_argument("--undo-skew", action="store_true",
                          help="After a failure: bring all hosts near the mean, with the least that moves.")  # fmt: skip
        parser.add_argument("--within", type=argument_types.positive, metavar="POINTS",
                            help="With --undo-skew: a host may use so many percent of its vcpus or memory more than the "
                            f"mean. Default: {_WITHIN}.")  # fmt: skip
        parser.add_argument("--time-limit", type=argument_types.positive, default=10, metavar="SECONDS",
                            help="Stop the search after this time. Default: %(default)s.")  # fmt: skip
        parser.add_argument("--max-moves", type=argument_types.positive, default=50, metavar="N",
                            help="Make at most N moves. Default: %(default)s.")  # fmt: skip
        parser.add_argument("--at-a-time", type=argument_types.positive, default=4, metavar="N",
                            help="With --apply: moves under way together. Default: %(default)s.")  # fmt: skip
        parser.add_argument("--cold", action="store_true",
                            help="With --apply: switch guests off that cannot move while they run.")  # fmt: skip
        parser.add_argument("--timeout", type=argument_types.positive, default=3600, metavar="SECONDS",
                            help="With --apply: begin no move after this time. Default: %(default)s.")  # fmt: skip
        room = parser.add_argument_group("make room, in place of freeing hosts")
        build_arguments.add_flavor(room, required=False)
        room.add_argument("--count", type=argument_types.positive, metavar="N",
                          help="Instances of the flavor that shall fit. Default: 1.")  # fmt: skip
        build_arguments.add_conditions(room)
        return parser

    def _require_goal(self, parsed_args: argparse.Namespace) -> None:
        """:raises connection.CommandFailed: an option is for another goal, which it would not change"""
        if parsed_args.flavor and (parsed_args.free_hosts or parsed_args.balance or parsed_args.undo_skew):
            raise connection.CommandFailed("use --flavor, --free-hosts, --balance or --undo-skew, not two of them")
        if parsed_args.within and not parsed_args.undo_skew:
            raise connection.CommandFailed("--within needs --undo-skew")
        given = [*(["--count"] if parsed_args.count else []), *build_arguments.conditions_given(parsed_args)]
        if given and not parsed_args.flavor:
            raise connection.CommandFailed(f"{given[0]} needs --flavor")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        self._require_goal(parsed_args)
        parsed_args.count = parsed_args.count or 1
        parsed_args.within = parsed_args.within or _WITHIN
        with database_command.plain_failures():
            plan, is_proved = self._plan(parsed_args)
        for line in _summary(plan, parsed_args.count if parsed_args.flavor else 0):
            listing.remark(line)
        kept = {} if plan.moves else plan.kept
        for host, reason in itertools.islice(kept.items(), _LINES):
            listing.remark(f"  {host} is kept: {reason}")
        if len(kept) > _LINES:
            listing.remark(f"  and {len(kept) - _LINES} more hosts")
        for what, reason in itertools.islice(plan.dropped.items(), _LINES):
            listing.remark(f"  {what} is left out of the plan: {reason}")
        if len(plan.dropped) > _LINES:
            listing.remark(f"  and {len(plan.dropped) - _LINES} more moves")
        if plan.ends:
            listing.remark(f"  The plan has no more moves: {plan.ends}")
        if parsed_args.flavor and plan.fits < parsed_args.count:
            listing.remark(
                "  'fleet explain', with the same flavor and conditions, says what keeps further ones out now"
            )
        obstacles = ways.obstacles(self.conductor, [each.instance_uuid for each in plan.moves])
        cold = {uuid: why for uuid, why in obstacles.items() if why}
        if parsed_args.apply and plan.moves:
            _require_live(cold, parsed_args.cold)
            self._apply(plan.moves, cold.keys(), parsed_args, is_proved)
        return COLUMNS, [_row(each, "cold" if each.instance_uuid in cold else "live") for each in plan.moves]

    def _plan(self, parsed_args: argparse.Namespace) -> tuple[Plan, bool]:
        """Return the plan, and True if its states are proved to keep a promise."""
        state = planning.state(self.app.conf, "rebalance")
        room_for = None
        if parsed_args.flavor:
            self.conductor.act_for(parsed_args.project, parsed_args.user)
            request = build_arguments.build_request(self.conductor, parsed_args)
            room_for = planning.together(self.conductor.operator.request_for(request=request), parsed_args.count)
            zone = parsed_args.availability_zone or ""
            if Zone.parse(zone).forced:
                raise connection.CommandFailed(
                    f"--availability-zone {zone} forces a host, which takes instances whatever room it has"
                )
        kind = next(kind for kind, is_it in _kinds(parsed_args) if is_it)
        goal = Goal(
            parsed_args.max_moves,
            kind,
            parsed_args.free_hosts,
            room_for,
            parsed_args.within / 100,
            float(parsed_args.time_limit),
            planning.promised(self.conductor, state, self.app.conf.default_availability_zone),
        )
        if not state.nodes:
            raise connection.CommandFailed("there are no hosts: agents have reported none")
        guests = [each.uuid for each in state.instances if each.host]
        asked = (self.app.options.verbose_level, _LINES)
        requests = planning.of_instances(self.conductor, guests, *asked, live=True)
        anew = planning.of_instances(self.conductor, guests if goal.promised else (), *asked)
        done = itertools.count(1)
        with progress.shown(_DOINGS, "steps", self.app.options.verbose_level, _LINES) as shown:
            plan: Plan = offers.load(ENTRY_POINTS)(
                *(self.app.conf, state, goal, lambda uuid: planning.known(requests, uuid)),
                lambda doing: shown.show(min(next(done), _DOINGS), doing),
                lambda uuid: planning.known(anew, uuid),
            )
        return plan, bool(goal.promised)

    def _apply(self, moves: Sequence[Move], cold: Set[str], parsed_args: argparse.Namespace, is_proved: bool) -> None:
        """:raises connection.CommandFailed: some moves were not made"""
        with progress.shown(len(moves), "moves", self.app.options.verbose_level, done="ended") as shown:
            run = MoveList(self.conductor, moves, parsed_args.at_a_time, shown.show, cold, is_proved=is_proved)
            try:
                try:
                    run.run(parsed_args.timeout)
                except KeyboardInterrupt:
                    run.stop()
                    listing.remark(
                        f"Stopping: waiting for {_moves(len(run.under_way))} under way. Ctrl-C leaves them as they are."
                    )
                    run.run(parsed_args.timeout)
            except BaseException:
                listing.remark(f"{run.done} of {_moves(len(moves))} done")
                _tell_left(run, not cold.isdisjoint(run.under_way))
                raise
        listing.remark(f"{run.done} of {_moves(len(moves))} done")
        left = {**run.failed, **dict.fromkeys(run.under_way, "is on its way: see 'fleet migration list'")}
        if left:
            reasons = [f"  {uuid}: {why}" for uuid, why in left.items()]
            others = len(moves) - run.begun
            if is_proved and others:
                reasons.append(
                    f"The next steps were not begun ({_moves(others)}): without these the promise is not proved"
                )
            raise connection.CommandFailed("\n".join([f"{len(left)} instances were not moved:", *reasons]))
        if run.done < len(moves):
            raise connection.CommandFailed(f"stopped: {len(moves) - run.done} moves were not begun")


def _tell_left(run: MoveList, cold: bool) -> None:
    """:param cold: some of the moves wait to be confirmed"""
    for uuid, why in run.failed.items():
        listing.remark(f"  {uuid}: {why}")
    confirm = "; when they are finished, 'fleet server resize confirm'" if cold else ""
    listing.remark(f"{_moves(len(run.under_way))} left under way: see 'fleet migration list'{confirm}")


def _moves(count: int) -> str:
    return "1 move" if count == 1 else f"{count} moves"


def _kinds(parsed_args: argparse.Namespace) -> list[tuple[str, bool]]:
    return [
        (MAKE_ROOM, bool(parsed_args.flavor)),
        (BALANCE, parsed_args.balance),
        (UNDO_SKEW, parsed_args.undo_skew),
        (FREE_HOSTS, True),
    ]


def _summary(plan: Plan, wanted: int) -> list[str]:
    memory_mb, disk_gb = (sum(getattr(each, name) for each in plan.moves) for name in ("memory_mb", "disk_gb"))
    steps = max((each.step for each in plan.moves), default=0)
    told = f"{_moves(len(plan.moves))} in {steps} {'step' if steps == 1 else 'steps'}"
    if not plan.moves:
        told = f"All {wanted} fit now: there is nothing to move" if wanted and plan.fits == wanted else "No moves"
    else:
        told += f": {memory_mb} MB of memory and {disk_gb} GB of disk change hosts"
    stay = "1 instance" if plan.staying == 1 else f"{plan.staying} instances"
    return [*(f"{str(each)[0].upper()}{str(each)[1:]}" for each in plan.measures),
            *([f"Any plan: any that leaves {stay} where others' rules want them"] if plan.staying else []),
            f"{told}; {plan.empty_before} of {plan.hosts} hosts are empty now"]  # fmt: skip


def _require_live(cold: Mapping[str, str], allowed: bool) -> None:
    """:raises connection.CommandFailed: some guests must be switched off, which is not allowed; nothing has moved"""
    if cold and not allowed:
        lines = [f"  {uuid} {why}" for uuid, why in itertools.islice(cold.items(), _LINES)]
        count = (
            "1 guest cannot move while it runs" if len(cold) == 1 else f"{len(cold)} guests cannot move while they run"
        )
        raise connection.CommandFailed("\n".join([f"{count}; --cold switches off for the moves:", *lines]))


def _row(move: Move, way: str) -> tuple:
    return (
        move.step,
        listing.Uuid(move.instance_uuid, _SHORT_UUID),
        move.source,
        move.destination,
        move.vcpus,
        move.memory_mb,
        move.disk_gb,
        way,
        move.purpose,
    )
