# SPDX-License-Identifier: Apache-2.0
"""``fleet boot``: requests instances, and waits for them with ``--wait``.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Sequence

from fleet import states
from fleet.client import argument_types, connection, faults, following
from fleet.client.connection import Record
from fleet.json_codec import JSONObject
from fleet_cli.base import build_arguments, command, listing
from fleet_cli.base.output import moments, progress
from fleet_cli.servers import servers

#: Seconds that a build needs when there is room for it.
_TIMEOUT_S = 600
#: Characters of a fault that stays in its row.
_SHORT_FAULT = 40
COLUMNS = ("uuid", "name", "status", "host", "fault")


class Boot(listing.Fitted, command.Lister):
    """Boot one or several instances of a flavor."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", help="Name of the instance; several get a number behind it.")
        build_arguments.add_flavor(parser, required=True)
        parser.add_argument(
            "--count",
            "--max-count",
            "--max",
            type=argument_types.positive,
            default=1,
            help="How many. Default: %(default)s.",
        )
        parser.add_argument("--min-count", "--min", type=argument_types.positive, metavar="N",
                            help="The fewest instances that are enough. If N or more, but not all, find room, those "
                            "are built and the others end in ERROR. If fewer than N do, none is built. "
                            "Default: --count.")  # fmt: skip
        build_arguments.add_conditions(parser)
        build_arguments.add_build(parser)
        parser.add_argument("--client-token", metavar="TOKEN",
                            help="A key of at most 64 characters that makes this command safe to repeat: with a token "
                            "that was used before, no instance is built, and those of the first run are shown. "
                            "Default: a new token for each run, for its own repetitions.")  # fmt: skip
        parser.add_argument("--wait", action="store_true", help="Wait until every build has ended; exit status 1 "
                            "unless all are ACTIVE, or as many as --min-count names.")  # fmt: skip
        parser.add_argument("--timeout", type=argument_types.positive, metavar="SECONDS",
                            help=f"With --wait: how long. Default: {_TIMEOUT_S}, and --wait-for-capacity.")  # fmt: skip
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._failed = False
        return super().run(parsed_args) or int(self._failed)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        if (parsed_args.min_count or 1) > parsed_args.count:
            raise connection.CommandFailed(
                f"--min-count {parsed_args.min_count} may not exceed --count {parsed_args.count}"
            )
        request = build_arguments.build_request(self.conductor, parsed_args)
        self.conductor.act_for(parsed_args.project, parsed_args.user)
        answer = self.conductor.create(request, parsed_args.client_token)
        for warning in answer.get("warnings", ()):
            print(f"Warning: {warning}", file=sys.stderr)
        accepted = answer["instances"]
        uuids = [instance["uuid"] for instance in accepted]
        if parsed_args.wait:
            timeout_s = parsed_args.timeout or _TIMEOUT_S + (parsed_args.wait_for_capacity or 0)
            self._wait(uuids, timeout_s, parsed_args.min_count or len(uuids))
        found = following.look(self.conductor, uuids)
        is_table = self.is_table(parsed_args) and not parsed_args.columns
        rows = [self._row({**instance, **found[instance["uuid"]]}, not is_table) for instance in accepted]
        if is_table:
            self.notes = _noted(rows)
        return command.table(COLUMNS, rows)

    def _wait(self, uuids: list[str], timeout_s: float, enough: int) -> None:
        active: list[str] = []

        def on_end(instance: Record) -> None:
            if instance["vm_state"] == states.ACTIVE:
                active.append(instance["uuid"])

        with progress.shown(len(uuids), "builds", self.app.options.verbose_level) as shown:
            waiting: set[str] = set()

            def on_look(under_way: list[Record]) -> None:
                new = [each for each in under_way if each.get("task_state") == states.QUEUED and not waiting]
                if new and self.app.options.verbose_level:
                    # One stands for all: their requests are the same.
                    waiting.add(new[0]["uuid"])
                    self._say_waits(new[0])
                shown.show(len(uuids) - len(under_way), progress.counted(under_way))

            try:
                late = following.follow(self.conductor, uuids, timeout_s, on_end, on_look=on_look)
            except KeyboardInterrupt:
                shown.close()
                self._interrupted(uuids)
                raise
        if late:
            self._say_late(late, timeout_s)
        self._failed = len(active) < enough

    def _say_waits(self, instance: Record) -> None:
        queued = self.conductor.operator.show_instance(name=instance["uuid"]).get("queued")
        if queued:
            until = moments.shown(queued["wait_until"])
            listing.remark(f"{instance['name']} waits for room until {until}: {queued['reason']}: {queued['message']}")

    def _interrupted(self, uuids: list[str]) -> None:
        listing.remark("Interrupted. The builds go on; see 'fleet server show':")
        for uuid in uuids:
            listing.remark(f"  {uuid}")

    def _say_late(self, late: list[str], timeout_s: float) -> None:
        listing.remark(f"After {timeout_s} s {len(late)} builds are still under way, and go on:")
        for each in following.look(self.conductor, late).values():
            where = f" on {each['host']}" if each.get("host") else ""
            attempt = f", attempt {each['attempt']}" if each.get("attempt") else ""
            listing.remark(
                f"  {each.get('name') or each['uuid']} ({each.get('task_state') or each['vm_state']}{where}{attempt})"
            )

    def _row(self, instance: JSONObject, whole: bool) -> JSONObject:
        """:param whole: for programs: the fault is the message as it is stored"""
        row = servers.summary(instance)
        if instance["vm_state"] == states.ERROR:
            shown = self.conductor.operator.show_instance(name=instance["uuid"])["faults"]
            row["fault"] = (shown[0]["message"] if whole else faults.brief(shown[0])) if shown else ""
        return row


def _noted(rows: Sequence[JSONObject]) -> list[str]:
    """Return the faults that several rows have, or that are long, each once with the number of rows. These rows then show
    the number of the note.
    """
    counts = collections.Counter(row["fault"] for row in rows if row.get("fault"))
    notes = [fault for fault, number in counts.items() if number > 1 or len(fault) > _SHORT_FAULT]
    for row in rows:
        if row.get("fault") in notes:
            row["fault"] = f"({notes.index(row['fault']) + 1})"
    return [f"{counts[fault]} instances: {fault}" if counts[fault] > 1 else fault for fault in notes]
