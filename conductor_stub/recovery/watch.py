# SPDX-License-Identifier: Apache-2.0
"""Finds the hosts that are down for their time, and notices when so many are silent that the network must be to blame.

:mod:`conductor_stub.recovery.keeper` calls it in each round.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence

from oslo_utils import uuidutils

from conductor_stub.recovery import fencing, order
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import errors, failpoints
from fleet.clock import seconds
from fleet.db.engine.database import Connection, Transaction
from fleet.db.hosts import aggregates, failure_domains
from fleet.db.operations import arrivals, maintenances, recoveries, silence
from fleet.db.operations.silence import FLEET, Agent
from fleet.db.tables.operations.recovery import RecoveryDomainRow
from fleet.objects import Aggregate

#: Key of an aggregate's metadata, and its values.
METADATA, ON, OFF = "recovery", "on", "off"
#: Seconds without a look of any conductor, after which the waits begin anew: hosts may have been silent in the gap, for
#: want of a conductor that hears them. After half of a wait that is shorter.
GAP_S = 60
#: So long after a recovery it is found out that its fence has lied.
_FOUND_OUT = seconds(24 * 3600)
#: A look begins so many recoveries at most, and the next looks begin the others: ``recovery pause`` waits until a look ends.
_MOST_BEGUN = 50
#: The labels of so many hosts are asked for by name; of more, those of all hosts are read.
_MOST_NAMED = 5000


@dataclasses.dataclass(frozen=True)
class Watch:
    """The result of one look at all hosts.

    :param begun: hosts by the uuid of their new recovery
    :param hosts: of domains of the fleet in which too many are silent
    :param domains: those domains, with their silent and all their hosts
    :param lied: hosts that have reported although their fences had succeeded
    """

    begun: Mapping[str, str] = dataclasses.field(default_factory=dict)
    hosts: Collection[str] = ()
    domains: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    paused: bool = False
    lied: Sequence[str] = ()

    def stops(self, host: str) -> bool:
        """Return True if too many hosts are silent in the fleet, or in the domain of the host."""
        return FLEET in self.domains or host in self.hosts


@dataclasses.dataclass(frozen=True)
class _Domain:
    """The number of silent hosts, and of the hosts that count (``silence.Agent.counts``).

    :param hosts: all hosts of the domain; those of the fleet are not read
    """

    silent: int
    counted: int
    hosts: Collection[str] = ()


def is_used(connection: Connection, settings: RecoverySettings) -> bool:
    """Return True if a host may have to be recovered."""
    on = any(each[METADATA] == ON for each in aggregates.metadata_under(connection, METADATA).values())
    return settings.enabled or on or recoveries.any_open(connection)


@failpoints.commits("conductor.recovery_look")
def look(
    tx: Transaction,
    settings: RecoverySettings,
    racks: Mapping[str, Collection[str]],
    down_time_s: float,
    now: datetime.datetime,
) -> Watch:
    """Count the silent hosts of the fleet and of each domain that has some, and begin the recoveries that are due.

    :param racks: the hosts of each domain
    """
    fleet = silence.lock_fleet(tx, now)
    known = silence.domains(tx)
    down = silence.down_agents(tx, now, down_time_s)
    members = _domains(tx, down, settings.domain_label if down else None, racks)
    stopped: dict[str, tuple[int, int]] = {}
    wait_s = max(settings.wait_time_s, down_time_s)
    calm_since = now if now - fleet.looked_at > seconds(min(GAP_S, wait_s / 2)) else fleet.calm_since
    since = {}
    for name, domain in members.items():
        counts = (domain.silent, domain.counted)
        if domain.silent > max(1, settings.largest_share * domain.counted):
            stopped[name] = counts
        since[name] = _note(tx, name, known.get(name), calm_since, now, counts, name in stopped)
    silence.forget_domains(tx, known.keys() - members.keys() - {FLEET})
    of_host = {host: name for name, domain in members.items() for host in domain.hosts}
    seen = Watch({}, {host for name in stopped for host in members[name].hosts}, stopped, fleet.paused)
    if fleet.paused:
        return seen
    covered = _covered(aggregates.having(tx, METADATA)) if down else {}
    due = {}
    for each in down:
        calm = max(since[FLEET], since.get(of_host.get(each.host, FLEET), since[FLEET]))
        if covered.get(each.host, settings.enabled) and not seen.stops(each.host) and _is_due(each, calm, now, wait_s):
            due[each.host] = each
    is_open = recoveries.open_hosts(tx)
    lied = {host: row for host, row in recoveries.not_off(tx, now - _FOUND_OUT).items() if host not in is_open}
    for row in lied.values():
        fencing.reopen(tx, row, fencing.LIED, now)
    # A maintenance may switch off what it has emptied.
    wanted = recoveries.with_guests(tx, due)
    # Only of the others: on a large ledger this is a long question.
    wanted |= arrivals.numbers(tx, due.keys() - wanted - is_open).keys()
    wanted -= is_open | lied.keys() | maintenances.taken_hosts(tx, now)
    begun = {}
    for host in sorted(wanted & due.keys())[:_MOST_BEGUN]:
        begun[begin(tx, host, now, due[host].last_seen_up)] = host
    return dataclasses.replace(seen, begun=begun, lied=sorted(lied))


def begin(
    tx: Transaction, host: str, now: datetime.datetime, silent_since: datetime.datetime | None, asked: bool = False
) -> str:
    """Write a recovery with its guests; return its uuid. :raises errors.Conflict: it has none, and none may run there"""
    guests = order.in_order(recoveries.guests_on(tx, host))
    coming = arrivals.numbers(tx, [host]).get(host)
    if not guests and coming is None:
        raise errors.Conflict(kind="Host", name=host, reason="has no guests that can be evacuated")
    uuid = uuidutils.generate_uuid()
    recoveries.begin(tx, uuid, host, guests, now, silent_since, asked)
    last = f"last heartbeat {silent_since:%Y-%m-%d %H:%M:%S} UTC" if silent_since else "its agent was stopped"
    who = "an operator has asked for it" if asked else "by itself"
    also = f", and {' and '.join(coming.told())}" if coming else ""
    recoveries.add_step(tx, uuid, "begun", f"{len(guests)} guests{also}; {last}; {who}", now)
    return uuid


def _is_due(agent: Agent, calm_since: datetime.datetime, now: datetime.datetime, wait_s: float) -> bool:
    if agent.forced_down:
        return True
    if agent.last_seen_up is None:
        # Its agent was stopped, as for an upgrade: its guests run on.
        return False
    return now - max(agent.last_seen_up, calm_since) >= seconds(wait_s)


def _domains(
    tx: Transaction, down: Sequence[Agent], label: str | None, racks: Mapping[str, Collection[str]]
) -> dict[str, _Domain]:
    """Return the fleet, without its hosts, and the domains of ``label`` that have hosts which are down."""
    silent = {each.host for each in down if each.counts}
    found = {FLEET: _Domain(len(silent), silence.counted(tx))}
    if label is not None:
        names = {each.host for each in down} if len(down) <= _MOST_NAMED else None
        known = failure_domains.of_hosts(tx, label, names)
        of_host = {each.host: known.get(each.host) for each in down}
        uncounted = silence.uncounted(tx)
        for name in sorted({value for value in of_host.values() if value}):
            hosts = {each for each in racks.get(name, ()) if of_host.get(each, name) == name}
            hosts |= {host for host, value in of_host.items() if value == name}
            found[name] = _Domain(len(hosts & silent), len(hosts - uncounted), hosts)
    return found


def _note(
    tx: Transaction,
    name: str,
    row: RecoveryDomainRow | None,
    calm_since: datetime.datetime,
    now: datetime.datetime,
    counted: tuple[int, int],
    is_stopped: bool,
) -> datetime.datetime:
    """Store the counts of hosts; return the time since when the domain is calm.

    The row of the fleet has the time of the look. That of a rack, of which a fleet may have thousands, is written if it
    changes.
    """
    silent, hosts = counted
    since = now if is_stopped else max(row.calm_since, calm_since) if row else calm_since
    values = {"silent": silent, "hosts": hosts, "stopped": is_stopped, "calm_since": since}
    if name == FLEET or row is None or any(getattr(row, column) != value for column, value in values.items()):
        silence.note_domain(tx, name, row is None, looked_at=now, **values)
    return since


def _covered(known: Sequence[Aggregate]) -> dict[str, bool]:
    """Return whether a host is recovered, by host of an aggregate with the key ``recovery`` in its metadata."""
    found: dict[str, bool] = {}
    for aggregate in known:
        wanted = aggregate.metadata.get(METADATA)
        if wanted in (ON, OFF):
            for host in aggregate.hosts:
                found[host] = found.get(host, True) and wanted == ON
    return found
