# SPDX-License-Identifier: Apache-2.0
"""``fleet group``: server groups, whose instances should share a host, or should not.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import typing
from collections.abc import Iterable, Sequence

from fleet import errors
from fleet.client import argument_types, connection
from fleet.client.connection import Record
from fleet.json_codec import JSONObject
from fleet.objects import group_rule, instance_group
from fleet_cli.base import command, confirmation, listing

COLUMNS = ("name", "uuid", "policy", "max_server_per_host", "rules", "project_id", "members")
_GROUP = command.argument("group", help="Name or uuid.")
#: Names of a rule that stand for whole numbers.
_NUMBERS = ("max_members", "max_skew")
_RULE_NAMES = ("policy", "label", *_NUMBERS, "value")
_POLICIES = [each for each in typing.get_args(instance_group.Policy) if each != instance_group.NONE]


def _rule(text: str) -> dict[str, object]:
    """An argparse type: ``policy=POLICY,label=KEY[,max_skew=N][,max_members=N][,value=VALUE …]``."""
    rule: JSONObject = {}
    for part in text.split(","):
        name, value = argument_types.pair(part)
        if name not in _RULE_NAMES:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(_RULE_NAMES)}")
        if name == "value":
            rule.setdefault("values", []).append(value)
        else:
            rule[name] = argument_types.positive(value) if name in _NUMBERS else value
    try:
        group_rule.parse([rule], "rule")
    except errors.InvalidInput as wrong:
        raise argparse.ArgumentTypeError(wrong.message) from None
    return rule


_RULES = command.argument(
    "--rule",
    dest="rules",
    type=_rule,
    action="append",
    metavar="policy=POLICY,label=KEY,…",
    help="A rule over a label of hosts; repeat for several. Policies: affinity, anti-affinity (max_members=N in one domain, "
    "default 1), spread (max_skew=N, default 1), each also with soft- in front as a preference; must, should and must-not "
    "(value=VALUE, may be repeated). Examples: policy=spread,label=rack  policy=must,label=license,value=gold",
)


def _with_rules(record: Record) -> Record:
    return {**record, "rules": [str(rule) for rule in group_rule.parse(record.get("rules"))]}


class ListGroups(listing.List):
    """List the server groups with their members."""

    things = "server groups"
    brief = ("name", "uuid", "policy", "per_host", "rules", "members", "hosts")
    whole = COLUMNS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return map(_with_rules, self.conductor.operator.list_groups())

    def columns(self, found: Sequence[Record]) -> Sequence[str]:
        return [name for name in self.brief if name != "rules" or any(each["rules"] for each in found)]

    def shortened(self, record: Record) -> Record:
        counted = {"per_host": record["max_server_per_host"], "members": len(record["members"])}
        return {**record, **counted, "hosts": listing.some(record.get("hosts") or ())}


class CreateGroup(command.ShowOne):
    """Create a server group; boot into it with 'fleet boot --group'."""

    arguments = (
        command.argument("name"),
        command.argument("--policy", choices=_POLICIES, help="Policy over hosts; may be left out if there is a rule."),
        command.argument(
            "--max-server-per-host",
            type=argument_types.positive,
            default=1,
            metavar="N",
            help="With anti-affinity: how many members one host may have. Default: %(default)s.",
        ),
        _RULES,
        command.argument(
            "--project", metavar="ID", help="Project that the group belongs to. Default: none; only operators see it."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        if not parsed_args.policy and not parsed_args.rules:
            raise connection.CommandFailed("use --policy, or --rule, or both")
        _require_anti_affinity(parsed_args.policy or instance_group.NONE, parsed_args.max_server_per_host)
        self.conductor.act_for(parsed_args.project, None)
        rules = {"rules": parsed_args.rules} if parsed_args.rules else {}
        created = self.conductor.operator.create_group(
            name=parsed_args.name,
            policy=parsed_args.policy or instance_group.NONE,
            max_server_per_host=parsed_args.max_server_per_host,
            **rules,
        )
        return command.one(COLUMNS, _with_rules(created))


def _require_anti_affinity(policy: str, most: int | None) -> None:
    """:raises connection.CommandFailed: the number of members of a host would be stored, and would have no effect"""
    if most not in (None, 1) and policy != instance_group.ANTI_AFFINITY:
        raise connection.CommandFailed(f"--max-server-per-host needs the policy anti-affinity, not {policy}")


class ShowGroup(command.ShowOne):
    """Show a server group with its members and their hosts."""

    arguments = (_GROUP,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.show_group(name=parsed_args.group)
        return command.one((*COLUMNS, "hosts"), _with_rules(found))


class SetGroup(command.ShowOne):
    """Change a server group; its policy and rules only while it has no members."""

    arguments = (
        _GROUP,
        command.argument("--name", help="A new name."),
        command.argument(
            "--policy", choices=typing.get_args(instance_group.Policy), help="Policy over hosts, or none."
        ),
        _RULES,
        command.argument(
            "--max-server-per-host", type=argument_types.positive, metavar="N", help="Members that one host may have."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        wanted = {
            "new_name": parsed_args.name,
            "policy": parsed_args.policy,
            "max_server_per_host": parsed_args.max_server_per_host,
        }
        if parsed_args.rules:
            wanted["rules"] = parsed_args.rules
        if all(value is None for value in wanted.values()):
            raise connection.CommandFailed("nothing to change: use --name, --policy, --rule or --max-server-per-host")
        if parsed_args.policy:
            _require_anti_affinity(parsed_args.policy, parsed_args.max_server_per_host)
        return command.one(COLUMNS, _with_rules(self.conductor.operator.update_group(name=parsed_args.group, **wanted)))


class DeleteGroup(command.Command):
    """Delete a server group. Its members stay where they are, and its policy does not bind them any more."""

    arguments = (
        _GROUP,
        command.argument("--yes", "-y", action="store_true", help="Do not ask, also if the group has members."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        name = parsed_args.group
        if not parsed_args.yes:
            found = self.conductor.operator.show_group(name=name)
            name = found["uuid"]
            if count := len(found["members"]):
                what = f"the group {found['name']} with {count} member{'s' * (count != 1)}"
                confirmation.ask(f"this would delete {what}", f"Delete {what}?", "nothing is deleted")
        self.conductor.operator.delete_group(name=name)
