# SPDX-License-Identifier: Apache-2.0
"""Reads the hosts and guests of an aggregate, with their loads.

``guests_load`` says what a load is. ``trying`` calls this for each round.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence

from conductor_stub.balance import guests_load
from conductor_stub.balance.deciding import Guest, Host
from conductor_stub.moves import ways
from conductor_stub.steps.balance_settings import BalanceSettings
from fleet import states
from fleet.clock import seconds
from fleet.db.catalog import groups
from fleet.db.engine.database import Connection
from fleet.db.hosts import aggregates, guest_loads, hosts, labels, services
from fleet.db.instances import instances
from fleet.db.operations import balances
from fleet.db.tables.instances import RequestedInstance
from fleet.objects import group_rule
from fleet.objects.group_rule import GroupRule

#: By policy of a group that prefers something, whether its members should be together.
_SOFT = {"soft-affinity": True, "soft-anti-affinity": False}


@dataclasses.dataclass(frozen=True)
class Preference:
    """A soft rule of a group.

    :param is_more: a host is the better the more of the crowd is there; otherwise the less
    :param crowd: the members by host, or by the value of the label
    :param own: by member, its part of the crowd
    :param domain_of: values of the label by host
    :param label: "": the rule is about hosts themselves
    :param is_of_hosts: the crowd is not the members, but the values that the rule names
    """

    is_more: bool
    crowd: collections.Counter[str]
    own: Mapping[str, collections.Counter[str]]
    domain_of: Mapping[str, str] = dataclasses.field(default_factory=dict)
    label: str = ""
    is_of_hosts: bool = False

    def number(self, member: str, host: str) -> int:
        """Return how much of the crowd is there without a member. A host without the label is in no domain."""
        domain = self.domain_of.get(host) if self.label else host
        if domain is None:
            return 0
        return self.crowd[domain] - self.own.get(member, collections.Counter())[domain]

    def reason(self, host: str) -> str:
        """Return the objection to a move to this host; it is the end of a sentence about the guest."""
        if self.is_of_hosts:
            return f"would leave a host whose {self.label} its group prefers"
        if self.is_more:
            there = f" in its {self.label}" if self.label else ""
            return f"would leave members of its group{there}, which prefers them together"
        there = f"in {self.label} {self.domain_of.get(host)}" if self.label else f"on {host}"
        return f"would join a member of its group {there}, which prefers them apart"


@dataclasses.dataclass(frozen=True)
class Seen:
    """:param measured: hosts whose load is measured
    :param held_up: why no guest should move now; ""
    :param preferring: by guest of a group with soft rules, what they prefer
    """

    hosts: Sequence[Host]
    guests: Sequence[Guest]
    measured: int
    held_up: str
    preferring: Mapping[str, Sequence[Preference]]


def read(
    connection: Connection, aggregate: str, settings: BalanceSettings, now: datetime.datetime, down_time_s: float
) -> Seen:
    """:raises errors.NotFound: there is no such aggregate"""
    names = set(aggregates.named(connection, aggregate).hosts)
    nodes = hosts.of_hosts(connection, names)
    several = {host for host, number in collections.Counter(each.host for each in nodes).items() if number > 1}
    agents = services.of_hosts(connection, services.COMPUTE, names)
    up = {host for host in names if host in agents and services.is_up(agents[host], now, down_time_s)}
    takes = {host for host in up if not agents[host].disabled} - several
    rows_of = instances.on_hosts(connection, sorted(up))
    rows = [row for there in rows_of.values() for row in there]
    reported = guest_loads.of_hosts(connection, up - several, now - seconds(guests_load.FRESH_S))
    loads = {host: guests_load.believable(rows_of[host], there) for host, there in reported.items()}
    changed = balances.changed_since(connection, names, now - seconds(guests_load.SETTLED_S))
    found, measured = [], 0
    busy: dict[str, tuple[float, float]] = {}
    for node in nodes:
        if node.host not in up or node.host in several:
            continue
        host, is_measured = guests_load.of_host(node, node.host in takes, loads.get(node.host, {}), now)
        if is_measured and host.name in changed:
            host = dataclasses.replace(host, known_at=changed[host.name] + seconds(guests_load.SETTLED_S))
        found.append(host)
        measured += is_measured
        busy.update(guests_load.of_guests(host, rows_of[host.name], loads.get(host.name, {})))
    since = now - seconds(settings.cooldown_s)
    lately = balances.moved_since(connection, names, since) | balances.failed_since(connection, aggregate, since)
    way = ways.of_rows(connection, rows, names)
    guests = [
        _guest(
            row,
            busy.get(row.uuid, (0.0, 0.0)),
            way.obstacle(row),
            row.uuid in lately,
            way.takers(row),
            row.uuid in loads.get(str(row.host), {}),
        )
        for row in rows
    ]
    held_up = "the aggregate has no hosts"
    if names:
        held_up = balances.holding_up(connection, names, aggregate, now, down_time_s)
    return Seen(found, guests, measured, held_up, _preferring(connection, rows, names))


def _guest(
    row: RequestedInstance,
    load: tuple[float, float],
    obstacle: str,
    lately: bool,
    takers: frozenset[str],
    measured: bool,
) -> Guest:
    stays = obstacle
    if (row.vm_state, row.task_state) != (states.ACTIVE, None):
        stays = f"is {row.vm_state.upper()} ({row.task_state or 'no task'})"
    elif row.locked_by:
        stays = "is locked"
    elif lately:
        stays = "has moved within its cooldown, or could not"
    held = row.claimed_vcpus, row.claimed_memory_mb, row.claimed_disk_gb
    return Guest(row.uuid, row.name, str(row.host), *held, *load, stays, takers, measured, row.group_uuid or "")


def _preferring(
    connection: Connection, rows: Sequence[RequestedInstance], names: Collection[str]
) -> dict[str, list[Preference]]:
    """Return, by guest, what the soft rules of its group prefer. :param names: hosts to which guests may move"""
    wanted = sorted({row.group_uuid for row in rows if row.group_uuid})
    groups_of = [group for uuid in wanted if (group := groups.of_row(connection, uuid)) is not None]
    rules_of = {group.uuid: [rule for rule in groups.rules_of(group) if not rule.is_hard] for group in groups_of}
    soft = [group.uuid for group in groups_of if group.policy in _SOFT or rules_of[group.uuid]]
    members_of = groups.members_of(connection, soft)
    there = {each.host for members in members_of.values() for each in members if each.host}
    known = labels.of_hosts(connection, there | set(names)) if any(rules_of.values()) else {}
    found: dict[str, list[Preference]] = collections.defaultdict(list)
    for group in groups_of:
        members = members_of.get(group.uuid, [])
        places = [(each.uuid, each.host) for each in members if each.host]
        rules = [_of_rule(rule, places, known) for rule in rules_of[group.uuid]]
        if group.policy in _SOFT:
            rules.insert(0, _of_members(_SOFT[group.policy], places))
        for uuid in {each.uuid for each in members}:
            found[uuid] += rules
    return found


def _of_members(
    is_more: bool,
    places: Collection[tuple[str, str]],
    domain_of: Mapping[str, str] | None = None,
    label: str = "",
) -> Preference:
    """:param places: uuid and host of members, or uuid and value of the label"""
    own: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for uuid, domain in places:
        own[uuid][domain] += 1
    crowd = collections.Counter(domain for _uuid, domain in places)
    return Preference(is_more, crowd, own, domain_of or {}, label)


def _of_rule(rule: GroupRule, places: Sequence[tuple[str, str]], known: Mapping[str, Mapping[str, str]]) -> Preference:
    """:param places: uuid and host of the members. :param known: labels by host"""
    domain_of = {host: each[rule.label] for host, each in known.items() if each.get(rule.label)}
    if rule.policy == group_rule.SHOULD:
        liked = collections.Counter(dict.fromkeys(rule.values, 1))
        return Preference(True, liked, {}, domain_of, rule.label, is_of_hosts=True)
    # A member that moves inside a domain is one member of it.
    there = {(uuid, domain_of[host]) for uuid, host in places if host in domain_of}
    return _of_members(rule.kind == group_rule.AFFINITY, there, domain_of, rule.label)


def soft_refusal(seen: Seen, guest: Guest, host: str) -> str:
    """Return why a soft rule of the guest's group is against the move: it would be kept less well than now."""
    for each in seen.preferring.get(guest.uuid, ()):
        now, then = each.number(guest.uuid, guest.host), each.number(guest.uuid, host)
        if (then < now) if each.is_more else (then > now):
            return f"{guest.name} {each.reason(host)}"
    return ""
