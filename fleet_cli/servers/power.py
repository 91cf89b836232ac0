# SPDX-License-Identifier: Apache-2.0
"""``fleet server stop``, ``start``, ``reboot``, ``suspend``, ``resume``, ``rebuild``, ``shelve``, ``unshelve``.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fleet import states
from fleet.client import connection, following
from fleet.client.connection import Record
from fleet.json_codec import JSONObject
from fleet.objects.answers.instances import InstanceView
from fleet_cli.base import command, several


class StopServer(command.Command):
    """Switch the guests of instances off; their hosts keep what they have claimed."""

    method = "stop_instance"
    #: The states after a task that has succeeded.
    ends: Sequence[str] = (states.STOPPED,)

    arguments: Sequence[command.Argument] = (
        command.argument("server", nargs="+", help="Name, uuid, or the beginning of one."),
        *command.WAIT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        operator, options = self.conductor.operator, self.options(parsed_args)
        #: By uuid, when the events were written that are there before the call.
        self._before: dict[str, set[str]] = {}
        meant = several.resolved(parsed_args.server, self._find)
        accepted, refused = several.ask(meant, lambda uuid: operator.call(self.method, name=uuid, **options))
        several.conclude(meant, refused, *self._failures(parsed_args, accepted))

    def _find(self, name: str) -> InstanceView:
        found = self.conductor.operator.show_instance(name=name)
        self._before[found["instance"]["uuid"]] = {each["created_at"] for each in found["events"]}
        return found["instance"]

    def _failures(self, parsed_args: argparse.Namespace, accepted: Sequence[Record]) -> list[str]:
        """Print the accepted tasks, or with --wait their ends. Return a line for the failures; an empty list if none."""
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
        event, before = states.POWER_TASKS[accepted["task_state"]], self._before[accepted["uuid"]]
        written = [each for each in found["events"] if each["created_at"] not in before]
        ended = next((each for each in reversed(written) if each["event"] == event), None)
        state = found["instance"]["vm_state"]
        reason = ""
        if ended is None:
            reason = f": the task {event} was given up"
        elif ended["result"] != "success":
            reason = f": {ended['message']}"
        elif state not in self.ends:
            reason = f": it has changed since the end of the task {event}"
        self._say(f"{accepted['name']} ({accepted['uuid']}) is {state.upper()}{reason}")
        return not reason

    def _say(self, line: str) -> None:
        print(line, file=self.app.stdout)


class StartServer(StopServer):
    """Switch the guests of instances on."""

    method = "start_instance"
    ends = (states.ACTIVE,)


class SuspendServer(StopServer):
    """Halt the guests of instances, and keep their memory."""

    method = "suspend_instance"
    ends = (states.VM_SUSPENDED,)


class ResumeServer(StopServer):
    """Let suspended guests continue."""

    method = "resume_instance"
    ends = (states.ACTIVE,)


class ShelveServer(StopServer):
    """Switch the guests of instances off for a long time. After shelved_offload_time they give their hosts back."""

    method = "shelve_instance"
    ends = (states.SHELVED, states.SHELVED_OFFLOADED)

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
    ends = (states.ACTIVE,)

    arguments = (
        command.argument("--availability-zone", help="Where to choose a host. Default: the zone of the request."),
        command.argument("--host", help="The only host to consider; it must pass the filters."),
    )

    def options(self, parsed_args: argparse.Namespace) -> JSONObject:
        named = {"availability_zone": parsed_args.availability_zone, "host": parsed_args.host}
        return {name: value for name, value in named.items() if value is not None}

    def _report(self, accepted: Record) -> bool:
        """Report the end of a task. An instance that was placed again has no power task."""
        if accepted["task_state"] in states.POWER_TASKS:
            return super()._report(accepted)
        found = self.conductor.operator.show_instance(name=accepted["uuid"])
        state = found["instance"]["vm_state"]
        good = state in self.ends
        reason = f": {found['faults'][-1]['message']}" if not good and found["faults"] else ""
        self._say(f"{accepted['name']} ({accepted['uuid']}) is {state.upper()}{reason}")
        return bool(good)


class RebootServer(StopServer):
    """End the guests of instances and start them again."""

    method = "reboot_instance"
    ends = (states.ACTIVE,)

    arguments = (
        command.argument("--hard", action="store_true", help="End the guests by force; also if STOPPED or SUSPENDED."),
    )

    def options(self, parsed_args: argparse.Namespace) -> JSONObject:
        return {"hard": True} if parsed_args.hard else {}


class RebuildServer(StopServer):
    """Make the guests of instances anew from an image, where they are. Their former disks are lost; volumes stay."""

    method = "rebuild_instance"
    ends = (states.ACTIVE, states.STOPPED)

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
