# SPDX-License-Identifier: Apache-2.0
"""``fleet server stop``, ``start``, ``reboot``, ``suspend``, ``resume``, ``rebuild``, ``shelve``, ``unshelve``.

:mod:`fleet_cli.command_list` names the commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fleet import states
from fleet.client import connection, following
from fleet.client.connection import Record
from fleet.json_codec import JSONObject
from fleet_cli.base import command, several


class StopServer(command.Command):
    """Switch the guests of instances off; their hosts keep what they have claimed."""

    method = "stop_instance"

    arguments: Sequence[command.Argument] = (
        command.argument("server", nargs="+", help="Name, uuid, or the beginning of one."),
        *command.WAIT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        operator, options = self.conductor.operator, self.options(parsed_args)
        meant = several.resolved(parsed_args.server, lambda name: operator.show_instance(name=name)["instance"])
        accepted, refused = several.ask(meant, lambda uuid: operator.call(self.method, name=uuid, **options))
        several.conclude(meant, refused, *self._failures(parsed_args, accepted))

    def _failures(self, parsed_args: argparse.Namespace, accepted: Sequence[Record]) -> list[str]:
        """Print what was accepted, and with --wait how it has ended; return what did not succeed."""
        if not parsed_args.wait:
            for each in accepted:
                self._say(f"{each['name']} ({each['uuid']}): {each['task_state']}")
            return []
        late = following.power(self.conductor, [each["uuid"] for each in accepted], parsed_args.timeout)
        if late:
            return [f"not ended within {parsed_args.timeout} s: {len(late)} of {len(accepted)}"]
        if not all([self._report(each) for each in accepted]):
            return ["not all succeeded; 'fleet trace SERVER' shows why"]
        return []

    def options(self, parsed_args: argparse.Namespace) -> JSONObject:
        """Return the arguments of the method, besides the name."""
        return {}

    def _report(self, accepted: Record) -> bool:
        """Print how the task has ended; return True if it has succeeded."""
        found = self.conductor.operator.show_instance(name=accepted["uuid"])
        event = states.POWER_TASKS[accepted["task_state"]]
        ended = next((each for each in reversed(found["events"]) if each["event"] == event), None)
        good = ended is not None and ended["result"] == "success"
        reason = f": {ended['message']}" if ended is not None and not good else ""
        state = found["instance"]["vm_state"].upper()
        self._say(f"{accepted['name']} ({accepted['uuid']}) is {state}{reason}")
        return good

    def _say(self, line: str) -> None:
        print(line, file=self.app.stdout)


class StartServer(StopServer):
    """Switch the guests of instances on."""

    method = "start_instance"


class SuspendServer(StopServer):
    """Halt the guests of instances, and keep their memory."""

    method = "suspend_instance"


class ResumeServer(StopServer):
    """Let suspended guests continue."""

    method = "resume_instance"


class ShelveServer(StopServer):
    """Switch the guests of instances off for a long time. After shelved_offload_time they give their hosts back."""

    method = "shelve_instance"

    arguments = (
        command.argument(
            "--offload", action="store_true", help="Give the hosts back now, of instances that are SHELVED."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.offload:
            self.method = "shelve_offload_instance"
        super().take_action(parsed_args)


class UnshelveServer(StopServer):
    """Let shelved instances run again: where they are, or on a host that the scheduler chooses."""

    method = "unshelve_instance"

    arguments = (
        command.argument("--availability-zone", help="Where to choose a host. Default: the zone of the request."),
        command.argument("--host", help="The only host to consider; it must pass the filters."),
    )

    def options(self, parsed_args: argparse.Namespace) -> JSONObject:
        named = {"availability_zone": parsed_args.availability_zone, "host": parsed_args.host}
        return {name: value for name, value in named.items() if value is not None}

    def _report(self, accepted: Record) -> bool:
        """One that was placed again has no power task."""
        if accepted["task_state"] in states.POWER_TASKS:
            return super()._report(accepted)
        found = self.conductor.operator.show_instance(name=accepted["uuid"])
        state = found["instance"]["vm_state"]
        good = state == states.ACTIVE
        reason = f": {found['faults'][-1]['message']}" if not good and found["faults"] else ""
        self._say(f"{accepted['name']} ({accepted['uuid']}) is {state.upper()}{reason}")
        return bool(good)


class RebootServer(StopServer):
    """End the guests of instances and start them again."""

    method = "reboot_instance"

    arguments = (
        command.argument("--hard", action="store_true", help="End the guests by force; also if STOPPED or SUSPENDED."),
    )

    def options(self, parsed_args: argparse.Namespace) -> JSONObject:
        return {"hard": True} if parsed_args.hard else {}


class RebuildServer(StopServer):
    """Make the guests of instances anew from an image, where they are. Their former disks are lost; volumes stay."""

    method = "rebuild_instance"

    arguments = (
        command.argument("--image", help="Name or uuid of the image. Default: the one that each has."),
        command.argument("--name", help="A new name, of a single instance."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.name and len(parsed_args.server) > 1:
            raise connection.CommandFailed("--name is for a single instance")
        super().take_action(parsed_args)

    def options(self, parsed_args: argparse.Namespace) -> JSONObject:
        image = {"image": parsed_args.image} if parsed_args.image else {}
        changes = {"changes": {"name": parsed_args.name}} if parsed_args.name else {}
        return {"request": {**image, **changes}}
