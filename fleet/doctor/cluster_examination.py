# SPDX-License-Identifier: Apache-2.0
"""The checks of ``fleet doctor`` on clusters: the nodes of the broker, and the copies of the database.

Called by :mod:`fleet.doctor.examination`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.client.calls import Record
from fleet.rpc.rabbit.broker import Node

#: Seconds that a standby may lag. Its promotion takes at least as long.
LAG_S = 10.0
#: Share of the time in which a Galera cluster waits for its slowest node.
PAUSED = 0.1
#: Nodes of a Galera cluster that survive the loss of one.
GALERA_NODES = 3


def nodes(found: Sequence[Node]) -> Iterator[Finding]:
    """Check the nodes of ``transport_url``, if it names several."""
    if len(found) < 2:
        return
    away = [f"{each.address} ({each.problem})" for each in found if each.problem]
    clusters = sorted({each.cluster for each in found if each.cluster})
    if away:
        text = f"{len(away)} of {len(found)} nodes accept no connection: {findings.few(away)}"
        yield findings.doubtful(
            "broker", text, "Start them: without a majority of its nodes a cluster accepts nothing."
        )
    else:
        yield findings.good("broker", f"all {len(found)} nodes accept connections")
    if len(clusters) > 1:
        text = f"the nodes of transport_url are of different clusters: {findings.few(clusters)}"
        yield findings.bad("broker", text, "Join them to one cluster: daemons on different clusters do not meet.")


def replication(found: Record | None) -> Iterator[Finding]:
    """Check the copies of the database. :param found: None without any, or from an older conductor"""
    if found is None:
        return
    yield from _galera(found) if "size" in found else _postgresql(found["required"], found["standbys"])


def _postgresql(required: int, standbys: Sequence[Record]) -> Iterator[Finding]:
    if standbys and all(each["state"] is None for each in standbys):
        text = f"{len(standbys)} standbys, of which this user may not see the state"
        yield findings.good("replication", f"{text} (GRANT pg_monitor TO the user of [database] connection)")
        return
    confirming = [each for each in standbys if each["sync_state"] in ("sync", "quorum")]
    slow = [
        f"{each['name']} ({each['state']}, {each['lag_s'] or 0:.0f} s behind)"
        for each in standbys
        if each["state"] != "streaming" or (each["lag_s"] or 0) > LAG_S
    ]
    if len(confirming) < required:
        text = f"{required} standbys must confirm each commit, and {len(confirming)} are connected: every commit waits"
        yield findings.bad("replication", text, "Start the standbys, or take them out of synchronous_standby_names.")
    elif required and len(confirming) == required:
        text = f"{len(confirming)} standbys are connected, and {required} must confirm each commit"
        fix = "Add a standby: the loss of one stops every commit."
        yield findings.doubtful("replication", text, fix)
    elif not slow:
        how = f"{required} of {len(confirming)} confirm each commit" if required else "no commit waits for them"
        yield findings.good("replication", f"{len(standbys)} standbys: {how}")
    if slow:
        fix = "Look at its log, its disk and its network: after a promotion, the new primary first applies the rest."
        yield findings.doubtful("replication", f"standbys lag: {findings.few(slow)}", fix)


def _galera(found: Record) -> Iterator[Finding]:
    text = f"{found['size']} nodes of Galera, this one is {found['state']}, in a component that is {found['status']}"
    if found["status"] != "Primary":
        yield findings.bad("replication", text, "It accepts nothing: start the other nodes, or bootstrap the cluster.")
    elif found["state"] != "Synced":
        yield findings.doubtful("replication", text, "Send the fleet to another node until this one is synced.")
    elif found["size"] < GALERA_NODES or found["size"] % 2 == 0:
        fix = "Run three or five nodes: an even number, cut in half, has no majority."
        yield findings.doubtful("replication", text, fix)
    elif found["paused"] > PAUSED:
        text = f"the cluster waits for its slowest node {found['paused']:.0%} of the time"
        yield findings.doubtful("replication", text, "Look at the load and the disk of the nodes (wsrep_flow_control).")
    else:
        yield findings.good("replication", text)
