# SPDX-License-Identifier: Apache-2.0
"""Failure domains of a fleet, read from its whole state as the change feed reports it.

Commands that plan on a copy of the fleet read them.
"""

from __future__ import annotations

import collections

from fleet import stored_json
from fleet.db.feed.feed import Changes
from fleet.json_codec import JSONObject
from fleet.objects import host_labels


def labels_of(state: Changes) -> dict[str, dict[str, str]]:
    """The labels of each host."""
    found = {}
    for node in state.nodes:
        stats, administered = (_read(text) for text in (node.stats, node.labels))
        found[node.host] = host_labels.effective(stats.get(host_labels.LABELS), administered)
    return found


def domains(state: Changes) -> dict[tuple[str, str], list[str]]:
    """Return the hosts by key and value of their labels, and of the metadata of their aggregates."""
    found: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for host, labels in labels_of(state).items():
        for pair in labels.items():
            found[pair].add(host)
    for aggregate in state.aggregates:
        for pair in aggregate.metadata.items():
            found[pair] |= set(aggregate.hosts)
    return {pair: sorted(hosts) for pair, hosts in found.items()}


def value_of(state: Changes, key: str) -> dict[str, str]:
    """Return the value of a key by host: that of its label, or else the smallest in the metadata of its aggregates."""
    found: dict[str, str] = {}
    for (name, value), hosts in sorted(domains(state).items(), reverse=True):
        if name == key:
            found.update(dict.fromkeys(hosts, value))
    for host, labels in labels_of(state).items():
        if key in labels:
            found[host] = labels[key]
    return found


def _read(text: str | None) -> JSONObject:
    """An object as the change feed reports it; empty if there is none, or if it cannot be read."""
    found = stored_json.read(text) if text else None
    return found if isinstance(found, dict) else {}
