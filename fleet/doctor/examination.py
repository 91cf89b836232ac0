# SPDX-License-Identifier: Apache-2.0
"""The checks of ``fleet doctor`` on broker and daemons.

``storage_examination`` has those on volumes. Called by :mod:`fleet_api.own.doctor` and :mod:`fleet_cli.health.doctor`.
"""

from __future__ import annotations

import datetime
import functools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol, cast

import oslo_messaging

from fleet import domains, errors, states
from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.client import pages
from fleet.client.calls import Calls, Record
from fleet.clock import Clock, durations, utcnow
from fleet.doctor import (
    cluster_examination,
    filter_examination,
    maintenance_examination,
    recovery_examination,
    storage_examination,
)
from fleet.objects import host_report
from fleet.objects.answers.maintenances import ShownMaintenance
from fleet.objects.answers.recoveries import RecoveriesView
from fleet.rpc import ledger_queue
from fleet.rpc.clients import OperatorCalls
from fleet.rpc.rabbit.broker import BrokerAway, Depth

#: Hosts to ask, by the number of hosts that are up.
Sample = Callable[[Sequence[str]], list[str]]

#: Messages in a queue from which on its daemons are too slow.
LONG_QUEUE = 100
#: Seconds that a build may wait for room before it is a warning.
LONG_WAIT_S = 3600
#: Seconds of a query from which on it slows every build.
SLOW_S = 0.25
#: Seconds that clocks may differ.
SKEW_S = 1.0
_TOPICS = ("conductor", "scheduler")
#: Queues that are not missed: conductors of earlier releases have none, or the fleet has no volumes.
_OPTIONAL = (ledger_queue.TOPIC, *domains.OF_VOLUMES)


class Asked(Protocol):
    """The calls that checks of daemons make; :class:`fleet.client.calls.Calls` has them."""

    @property
    def operator(self) -> OperatorCalls:
        """The calls of the contract's ``operator`` namespace."""

    @property
    def ping(self) -> Callable[[str], None]:
        """Wait for an answer from a topic."""

    @property
    def describe_host(self) -> Callable[[str], Record]:
        """Ask the agent of a host."""

    @property
    def describe_filters(self) -> Callable[[], Record]:
        """Ask the scheduler which parts of a request its filters judge."""


def broker(conductor: Calls) -> list[Finding]:
    """Check the connection to the broker, its nodes, and the length of the queues of conductors and schedulers."""
    try:
        depths = conductor.depths((*_TOPICS, *_OPTIONAL))
    except BrokerAway as away:
        return [findings.bad("broker", str(away), "Start the broker, or correct transport_url (host, user, password).")]
    if depths is None:
        return [findings.good("broker", "none: the local transport is used")]
    found = {name: depth for name, depth in depths.items() if depth is not None or name not in _OPTIONAL}
    queues = (_queue(name, depth) for name, depth in found.items())
    return [findings.good("broker", "accepts connections"), *cluster_examination.nodes(conductor.nodes()), *queues]


def _queue(topic: str, depth: Depth | None) -> Finding:
    daemon = _daemon(topic)
    if depth is None or not depth.consumers:
        waiting = f"{depth.messages} messages wait, and " if depth and depth.messages else ""
        # A warning only: the ping that follows shows whether a daemon answers.
        return findings.doubtful("queues", f"{topic}: {waiting}no daemon serves this queue", f"Start {daemon}.")
    found = f"{topic}: {depth.messages} messages wait, {depth.consumers} consumers"
    if depth.messages > LONG_QUEUE:
        return findings.doubtful("queues", found, f"Start more of {daemon}, or look in its log for what is slow.")
    return findings.good("queues", found)


def _daemon(topic: str) -> str:
    return "fleet-scheduler" if topic.endswith("scheduler") else "fleet-conductor"


def daemons(conductor: Asked, sample: Sample, clock: Clock = utcnow) -> list[Finding]:
    """Check the answers of a conductor, a scheduler and agents."""
    found = [ping(conductor, "conductor")]
    if found[0].level:
        return [*found, ping(conductor, "scheduler")]
    asked_at = clock()
    answer = _asked(functools.partial(_examined, conductor))
    if isinstance(answer, Finding):
        return [*found, answer, ping(conductor, "scheduler")]
    offset_s = _offset_s(answer, asked_at, clock()) if isinstance(answer, dict) else 0.0
    if not isinstance(answer, dict):
        fix = "Read the conductor's log: most likely its database is away."
        found.append(ping(conductor, "scheduler"))
        return [*found, findings.bad("database", f"the conductor cannot examine it: {answer}", fix)]
    services = _asked(lambda: pages.services(conductor.operator))
    if not isinstance(services, list):
        return [*found, *_database(answer), *_ledger(answer), _not_listed("services", services)]
    found += [ping(conductor, topic) for topic in _served(services)]
    up = [each["host"] for each in services if each["binary"] == "fleet-compute" and each["state"] == "up"]
    found += [
        *_database(answer),
        *cluster_examination.replication(answer.get("replication")),
        *_ledger(answer),
    ]
    listed = _asked(lambda: conductor.operator.list_maintenances())
    # Conductors of volumes only have none.
    maintenances = listed if isinstance(listed, list) else []
    running = [each["uuid"] for each in maintenances if each["ended_at"] is None]
    shown = [_asked(functools.partial(conductor.operator.show_maintenance, name=uuid)) for uuid in running]
    at_work = maintenance_examination.hosts_at_work(
        [cast("ShownMaintenance", each) for each in shown if isinstance(each, dict)], services
    )
    found += [
        *_services(services, at_work),
        *_simulated(services),
        *maintenance_examination.examine(maintenances),
    ]
    recoveries = _asked(lambda: conductor.operator.list_recoveries())
    if isinstance(recoveries, dict):
        found += recovery_examination.examine(
            cast("RecoveriesView", recoveries), datetime.datetime.fromisoformat(answer["now"])
        )
    if "scheduler" in _served(services) and not any(each.level for each in found if each.check == "scheduler"):
        found += filter_examination.examine(conductor.describe_filters)
    backends = [each for each in services if each["binary"] == "fleet-volume"]
    if backends:
        pools = _asked(lambda: conductor.operator.list_pools())
        if isinstance(pools, list):
            found += storage_examination.examine(backends, pools, answer.get("volumes"))
        else:
            found.append(_not_listed("pools", pools))
    found += [*_clocks(services), *_agents(conductor, sample(up), len(up), offset_s, clock)]
    return found


def _examined(conductor: Asked) -> object:
    """Return the conductor's answer. A conductor of another fleet gives a finding: its database is not this fleet's."""
    try:
        return conductor.operator.examine()
    except errors.ForeignLedger as foreign:
        fix = "Set transport_url to a virtual host of this fleet alone, or control_exchange as its conductors have it."
        return findings.bad("conductor", foreign.message, fix)


def _not_listed(what: str, why: object) -> Finding:
    fix = "Look at the load of the conductors and of the database, or give the command more time: --timeout."
    return findings.bad(what, f"the conductor does not list them: {why}", fix)


def _served(services: Sequence[Record]) -> list[str]:
    """The topics that must answer besides the conductor's, by the agents that the fleet has."""
    agents = {each["binary"] for each in services} & {"fleet-compute", "fleet-volume"}
    machines = ["scheduler"] if agents != {"fleet-volume"} else []
    return [*machines, *(domains.OF_VOLUMES if "fleet-volume" in agents else ())]


def ping(conductor: Asked, topic: str) -> Finding:
    began = time.monotonic()
    failure = _asked(lambda: conductor.ping(topic))
    if failure is None:
        return findings.good(topic, f"answered after {(time.monotonic() - began) * 1000:.0f} ms")
    option = {
        domains.VOLUME_CONDUCTOR: " One of them must have volume in conductor_domains.",
        domains.VOLUME_SCHEDULER: " One of them must have volume in scheduler_domains.",
    }
    fix = f"Start {_daemon(topic)}, or read its log.{option.get(topic, '')}"
    return findings.bad(topic, f"no answer: {failure}", fix)


def _asked(ask: Callable[[], object]) -> object:
    """Return the answer, or the reason why there is none, in words."""
    try:
        return ask()
    except errors.FleetError as refusal:
        return refusal.message
    except oslo_messaging.RemoteError as broken:
        return f"{broken.exc_type}: {str(broken.value).splitlines()[0] if broken.value else ''}"
    except oslo_messaging.MessageUndeliverable:
        return "it has no queue on the broker"
    except oslo_messaging.MessagingException as lost:
        return "the call timed out" if isinstance(lost, oslo_messaging.MessagingTimeout) else str(lost)


def _database(answer: Record) -> Iterator[Finding]:
    said = answer["database"]
    found = f"{said['engine']} answers the conductor on {answer['host']} after {said['took_s'] * 1000:.1f} ms"
    if said["took_s"] > SLOW_S:
        yield findings.doubtful("database", found, "Look at the database's load and its network.")
    else:
        yield findings.good("database", found)
    if said["version"] != said["expected"]:
        text = f"the database is at {said['version']}, the conductor needs {said['expected']}"
        yield findings.bad("schema", text, "Run 'fleet-manage db sync', and restart the daemons.")
    else:
        yield findings.good("schema", f"the database is at version {said['version']}")


def _ledger(answer: Record) -> Iterator[Finding]:
    if answer["overdue"]:
        fix = "No conductor sweeps: read their logs; see 'fleet-manage audit'."
        yield findings.bad("builds", f"{answer['overdue']} steps are overdue, and no conductor has acted on them", fix)
    else:
        yield findings.good("builds", "no step is overdue")
    yield from _waiting(answer.get("queued"))
    # An earlier conductor names all.
    numbers = answer.get("numbers") or {}
    if answer["orphans"]:
        each = [f"{one['host']}:{one['node']} ({one['memory_mb']} MB)" for one in answer["orphans"]]
        fix = "Look at the guests on these hosts ('Orphan' in the agent's log); remove those that are not needed."
        yield findings.doubtful(
            "orphans", f"guests that are not in the ledger run on {findings.few(each, numbers.get('orphans'))}", fix
        )
    else:
        yield findings.good("orphans", "no host runs a guest that is not in the ledger")
    down = answer.get("down", ())
    if down:
        each = [f"{one['name']} on {one['host']} ({states.POWER_NAMES.get(one['power_state'])})" for one in down]
        fix = "See 'fleet server show'; start the guest on its host, evacuate or delete it, or set lost_guest_action."
        number = numbers.get("down", len(down))
        yield findings.bad("guests", f"{number} instances have no running guest: {findings.few(each, number)}", fix)
    else:
        yield findings.good("guests", "every active instance has a running guest, by its host's last report")
    yield from _unreadable(answer.get("unreadable"))
    if answer["ahead"]:
        named = findings.few(answer["ahead"], numbers.get("ahead"))
        text = f"by the clock of {answer['host']} the heartbeats of these lie in the future: {named}"
        yield findings.bad("clocks", text, "Conductors' clocks differ: run a time service on them all.")


def _unreadable(found: Record | None) -> Iterator[Finding]:
    """Check for rows that cannot be read. :param found: None from an older conductor"""
    if found is None:
        return
    rows = found["rows"]
    if rows:
        each = [f"{one['column']} of {one['table']} {one['name'] or one['key']} ({one['problem']})" for one in rows]
        fix = "They count as empty. Delete these instances, volumes or records; hosts and pools are reported again."
        yield findings.bad("rows", f"stored values cannot be read: {findings.few(each)}", fix)
    elif found["complete"]:
        yield findings.good("rows", "every stored value can be read")
    else:
        yield findings.good("rows", "every stored value that was read in time can be read; see 'fleet-manage audit'")


def _waiting(queued: Record | None) -> Iterator[Finding]:
    """Check for builds that wait for room. :param queued: None from an older conductor"""
    if queued is None:
        return
    if not queued["number"]:
        yield findings.good("queue", "no build waits for room")
        return
    text = f"{queued['number']} builds wait for room, the oldest for {durations.shown(queued['oldest_s'])}"
    if queued["oldest_s"] > LONG_WAIT_S:
        yield findings.doubtful("queue", text, "See what they lack in 'fleet queue list'; add hosts, or free room.")
    else:
        yield findings.good("queue", text)


def _services(services: Sequence[Record], at_work: Collection[str]) -> Iterator[Finding]:
    """:param at_work: hosts on which a maintenance works: their agents may be away, and then wait for a report"""
    others = [each for each in services if each["host"] not in at_work]
    down = [f"{each['binary']} on {each['host']}" for each in others if each["state"] != "up"]
    sick = [
        f"{each['host']} ({each['disabled_reason']})"
        for each in others
        if (each["disabled_reason"] or "").startswith(host_report.AUTO)
    ]
    if down:
        fix = "Start them, or see 'fleet service list'."
        if any(each["binary"] == "fleet-compute" and each["state"] != "up" for each in others):
            fix += (
                " If a host is down for good, move its instances: 'fleet recovery start HOST'; or 'fleet service force-down "
                "HOST', then 'fleet server evacuate --host HOST'."
            )
        yield findings.doubtful("services", f"{len(down)} of {len(services)} are down: {findings.few(down)}", fix)
    if sick:
        fix = "Correct what the reason names: the agent enables its host again by itself."
        yield findings.doubtful("services", f"hosts that take no builds: {findings.few(sick)}", fix)
    if not down and not sick:
        but = f", or in a maintenance: {findings.few(sorted(at_work))}" if at_work else ""
        yield findings.good("services", f"all {len(services)} are up{but}")


def _clocks(services: Sequence[Record]) -> Iterator[Finding]:
    """Check for daemons that report a wrong clock, by machine and not by host."""
    wrong = {
        f"{each['binary']} on {each.get('hostname') or each['host']} by {each['clock_skew_s']:+.0f} s"
        for each in services
        if each.get("clock_skew_s")
    }
    if wrong:
        fix = "Run a time service there. Until then it is not ready, and takes no sweeps and no evacuations."
        yield findings.bad("clocks", f"off the database's clock: {findings.few(sorted(wrong))}", fix)


def _simulated(services: Sequence[Record]) -> Iterator[Finding]:
    hosts = [each["host"] for each in services if each.get("driver") == host_report.SIMULATED]
    if hosts:
        text = f"{len(hosts)} hosts are simulated, and their instances do not really run: {findings.few(hosts)}"
        fix = "Set compute_driver = local there, unless this fleet is a trial."
        yield findings.doubtful("driver", text, fix)


def _agents(
    conductor: Asked, hosts: Sequence[str], up: int, conductor_offset_s: float, clock: Clock
) -> Iterator[Finding]:
    """Check the clocks and queues of ``hosts``, out of ``up``."""
    if not hosts:
        return
    asked = f"{len(hosts)} of {up} agents asked"
    silent, skewed = [], []
    for host in hosts:
        began = clock()
        answer = _asked(lambda host=host: conductor.describe_host(host))  # type: ignore[misc]
        if not isinstance(answer, dict):
            silent.append(f"{host} ({answer})")
            continue
        skew_s = _offset_s(answer, began, clock()) - conductor_offset_s
        if abs(skew_s) > SKEW_S:
            skewed.append(f"{host} by {skew_s:+.1f} s")
    if silent:
        fix = "Its heartbeats arrive, its orders do not: read the agent's log, restart it."
        yield findings.bad("agents", f"no answer from {findings.few(silent)}", fix)
    else:
        yield findings.good("agents", f"{asked}, all answer")
    if skewed:
        fix = "Run a time service there: times in that host's log are wrong by as much."
        yield findings.doubtful("clocks", f"clocks differ from the database's: {findings.few(skewed)}", fix)
    else:
        yield findings.good("clocks", f"{asked}, all within {SKEW_S:.0f} s of the database")


def _offset_s(answer: Record, asked_at: datetime.datetime, answered_at: datetime.datetime) -> float:
    """Return the seconds that the other clock is ahead of this one."""
    theirs = datetime.datetime.fromisoformat(answer["now"]) if answer.get("now") else answered_at
    return (theirs - asked_at).total_seconds() - (answered_at - asked_at).total_seconds() / 2
