# SPDX-License-Identifier: Apache-2.0
"""``fleet boot``: ask for instances, and wait for them if told to."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import tqdm

from fleet import states
from fleet.cli import command, following, servers

COLUMNS = ("uuid", "name", "status", "host", "fault")
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")


class Boot(command.Lister):
    """Boot one or several instances of a flavor."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", help="Name of the instance; several get a number behind it.")
        add_flavor(parser, required=True)
        parser.add_argument("--count", type=command.positive, default=1, help="How many. Default: %(default)s.")
        add_conditions(parser)
        parser.add_argument("--wait", action="store_true", help="Wait until every build has ended; exit status 1 "
                            "unless all are ACTIVE.")  # fmt: skip
        parser.add_argument("--timeout", type=command.positive, default=600, metavar="SECONDS",
                            help="With --wait: how long. Default: %(default)s.")  # fmt: skip
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._failed = False
        return super().run(parsed_args) or int(self._failed)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        accepted = self.conductor.create(build_request(parsed_args))["instances"]
        uuids = [instance["uuid"] for instance in accepted]
        if parsed_args.wait:
            self._wait(uuids, parsed_args.timeout)
        found = following.look(self.conductor, uuids)
        rows = [self._row({**instance, **found[instance["uuid"]]}) for instance in accepted]
        return command.table(COLUMNS, rows)

    def _wait(self, uuids: list[str], timeout_s: float) -> None:
        with tqdm.tqdm(total=len(uuids), unit="build", disable=self.app.options.verbose_level == 0 or None, file=sys.stderr,
                       leave=False) as bar:  # fmt: skip
            active: list[str] = []

            def on_end(instance: command.Record) -> None:
                if instance["vm_state"] == states.ACTIVE:
                    active.append(instance["uuid"])
                bar.update()

            following.follow(self.conductor, uuids, timeout_s, on_end)
        self._failed = len(active) < len(uuids)

    def _row(self, instance: dict[str, Any]) -> dict[str, Any]:
        row = servers.summary(instance)
        if instance["vm_state"] == states.ERROR:
            shown = self.conductor.operator("show_instance", name=instance["uuid"])
            row["fault"] = next((fault["message"] for fault in shown["faults"]), "")
        return row


def add_flavor(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument(
        "--flavor",
        required=required,
        type=flavor,
        help="A flavor's name, or its sizes, such as vcpus=2,memory_mb=2048,root_gb=10.",
    )


def add_conditions(parser: argparse.ArgumentParser) -> None:
    """What a request may say of the hosts it goes to."""
    parser.add_argument("--hint", type=command.pair, action="append", default=[], metavar="KEY=VALUE",
                        help="Scheduler hint; repeat for several, or for several values of one key.")  # fmt: skip
    parser.add_argument("--availability-zone", default="", metavar="ZONE[:HOST[:NODE]]",
                        help="A zone, or a host or node that is forced on the scheduler.")  # fmt: skip
    parser.add_argument("--group", default="", help="Name or uuid of a server group to join.")
    parser.add_argument("--image-property", type=command.pair, action="append", default=[], metavar="KEY=VALUE",
                        help="Property of the image; repeat for several.")  # fmt: skip


def build_request(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """The BuildRequest of a command line; commands that build nothing have no name, and one that only counts no count."""
    return {
        "name": getattr(parsed_args, "name", ""),
        "flavor": parsed_args.flavor,
        "count": getattr(parsed_args, "count", 1),
        "availability_zone": parsed_args.availability_zone,
        "scheduler_hints": hints(parsed_args.hint),
        "group": parsed_args.group,
        "image": {"properties": dict(parsed_args.image_property)},
    }


def hints(pairs: list[tuple[str, str]]) -> dict[str, str | list[str]]:
    """A key given several times becomes a list of its values."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: given[0] if len(given) == 1 else given for key, given in values.items()}


def flavor(text: str) -> str | dict[str, int]:
    """An argparse type: a flavor's name, or inline sizes."""
    if "=" not in text:
        return text
    sizes = dict(command.pair(part) for part in text.split(","))
    unknown = ", ".join(sorted(set(sizes) - set(_SIZES)))
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown}: a flavor has only {', '.join(_SIZES)}")
    return {name: command.natural(value) for name, value in sizes.items()}
