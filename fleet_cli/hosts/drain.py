# SPDX-License-Identifier: Apache-2.0
"""``fleet host drain``: stops new builds on a host, and with ``--move`` moves its instances away.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fleet.client import argument_types, connection, following, pages
from fleet.client.connection import Record
from fleet_cli.base import command, listing
from fleet_cli.base.output import progress
from fleet_cli.hosts import emptying

_AT_A_TIME = 4


class DrainHost(command.Command):
    """Place nothing new on a host, and wait until builds that are on their way to it have ended.

    With --move its instances then go to other hosts while they run. One that cannot stays, unless --cold is given: it is
    then switched off, moved and started again. If the host is down at the start, all are built again elsewhere; if it falls
    silent later, nothing more is begun. After an interruption, run the same command again.
    """

    arguments = (
        command.argument("host"),
        command.argument(
            "--reason", type=str, default="draining", help="Shown by 'fleet service list'. Default: %(default)s."
        ),
        command.argument(
            "--timeout",
            type=argument_types.positive,
            default=600,
            metavar="SECONDS",
            help="How long to wait. Default: 600.",
        ),
        command.argument("--move", action="store_true", help="Move the instances away."),
        command.argument(
            "--cold", action="store_true", help="With --move: switch those off that cannot move while they run."
        ),
        command.argument(
            "--at-a-time",
            type=argument_types.positive,
            metavar="N",
            help=f"With --move: moves under way together. Default: {_AT_A_TIME}.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        host = parsed_args.host
        if not parsed_args.move and (parsed_args.cold or parsed_args.at_a_time):
            raise connection.CommandFailed(f"{'--cold' if parsed_args.cold else '--at-a-time'} needs --move")
        self.conductor.operator.update_service(
            host=host, binary="fleet-compute", disabled=True, reason=parsed_args.reason
        )
        self._say(f"{host} is disabled: {parsed_args.reason}")
        left = following.drain(self.conductor, host, parsed_args.timeout, self._waiting, moving=parsed_args.move)
        if left:
            raise connection.CommandFailed(
                f"{host} is disabled, but not idle after {parsed_args.timeout} s: "
                + ", ".join(f"{each['name']} ({each['task_state'] or each['vm_state']})" for each in left)
            )
        if parsed_args.move:
            self._move(parsed_args)
        staying = pages.brief_instances(self.conductor.operator, {"host": host})
        self._say(f"{host} is idle; {len(staying)} instances stay on it")
        self._say(f"To let it take builds again: fleet host enable {host}")

    def _move(self, parsed_args: argparse.Namespace) -> None:
        """:raises connection.CommandFailed: some instances are left"""
        host = parsed_args.host
        evacuates = emptying.is_down(self.conductor, host)
        there = len(pages.brief_instances(self.conductor.operator, {"host": host}))
        with progress.shown(there, "moves", self.app.options.verbose_level) as shown:
            run = emptying.Emptying(
                self.conductor,
                host,
                evacuates,
                parsed_args.at_a_time or _AT_A_TIME,
                lambda *now: shown.show_of(*now),
                parsed_args.cold,
            )
            if evacuates:
                self._say(f"{host} is down: {_instances(run.movable())} will be rebuilt on other hosts (evacuated)")
            else:
                self._announce(run.obstacles(), parsed_args.cold)
            try:
                result = run.run(parsed_args.timeout)
            except KeyboardInterrupt:
                shown.close()
                listing.remark(
                    f"Interrupted. Moves that have begun go on; 'fleet host drain {host} --move' takes them up."
                )
                raise
        self._say(f"{_have(result.gone)} left {host}")
        if result.left:
            reasons = [f"  {uuid}: {why}" for uuid, why in result.left.items()]
            stopped = [result.stopped] if result.stopped else []
            raise connection.CommandFailed(
                "\n".join([f"{_have(len(result.left))} not left {host}:", *reasons, *stopped])
            )

    def _announce(self, obstacles: Sequence[tuple[str, str]], cold: bool) -> None:
        """Say which guest goes which way, before any goes. :param obstacles: those of the run"""
        live = [name for name, why in obstacles if not why]
        if live:
            self._say(f"{_instances(len(live))} to move live")
        for name, why in obstacles:
            if why:
                self._say(f"{name} {'moves switched off' if cold else 'stays'}: it {why}")

    def _waiting(self, under_way: Sequence[Record], coming: int) -> None:
        said = [progress.counted(under_way)] if under_way else []
        said += [f"{coming} may still arrive"] if coming else []
        if said:
            self._say(f"waiting: {', '.join(said)}")

    def _say(self, line: str) -> None:
        print(line, file=self.app.stdout, flush=True)


def _have(count: int) -> str:
    return "1 instance has" if count == 1 else f"{count} instances have"


def _instances(count: int) -> str:
    return "1 instance" if count == 1 else f"{count} instances"
