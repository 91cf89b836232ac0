# SPDX-License-Identifier: Apache-2.0
"""Hosts as a tree of their failure domains, with sums: ``fleet host list --tree``.

Called by :mod:`fleet_cli.hosts.hosts`.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

from fleet import errors
from fleet.client.connection import Record

#: Stands for the hosts without a label.
WITHOUT = "none"
_STEP = "  "


def labels_of(hosts: Sequence[Record], named: Sequence[str]) -> Sequence[str]:
    """Return the labels from the root of the tree on: those named, or all, the one with the fewest values first.

    :raises errors.NotFound: no host has a label that is named
    """
    values: dict[str, set[str]] = collections.defaultdict(set)
    for host in hosts:
        for key, value in (host.get("labels") or {}).items():
            values[key].add(value)
    for key in named:
        if key not in values:
            raise errors.NotFound(kind="Host with label", name=key)
    return named or sorted(values, key=lambda key: (len(values[key]), key))


def lines(hosts: Sequence[Record], labels: Sequence[str], depth: int = 0) -> Iterator[tuple[str, Sequence[Record]]]:
    """Yield a text and the hosts below it for each domain and each host, in the order of a tree."""
    if depth == len(labels):
        for host in hosts:
            name = host["host"] if host["node"] == host["host"] else f"{host['host']}:{host['node']}"
            yield f"{_STEP * depth}{name}", [host]
        return
    key = labels[depth]
    domains: dict[str, list[Record]] = collections.defaultdict(list)
    for host in hosts:
        domains[(host.get("labels") or {}).get(key, "")].append(host)
    for value in sorted(domains, key=lambda value: (not value, value)):
        yield f"{_STEP * depth}{key}={value or WITHOUT}", domains[value]
        yield from lines(domains[value], labels, depth + 1)
