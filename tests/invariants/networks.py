# SPDX-License-Identifier: Apache-2.0
"""What holds for addresses at every instant, judged by the database alone."""

from __future__ import annotations

import collections
import ipaddress
from collections.abc import Iterator

from tests.invariants.ledger import Ledger


def addresses_are_held_once(ledger: Ledger) -> Iterator[str]:
    """I17: on a bridge an address has one instance, which lives; its row shows what the table has, and nothing else.

    A build that has failed holds addresses as long as a host may still have its guest.
    """
    networks = {row["uuid"]: row for row in ledger.networks}
    holders: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    claims: dict[str, set[tuple[str, str, str]]] = collections.defaultdict(set)
    for row in ledger.addresses:
        network, address = networks[row["network_uuid"]], ipaddress.IPv4Address(row["number"])
        holders[network["bridge"], str(address)].append(row["instance_uuid"])
        claims[row["instance_uuid"]].add((network["uuid"], str(address), row["mac"]))
        if address not in ipaddress.IPv4Network(network["subnet"]):
            yield f"{row['instance_uuid']} has {address}, which is not in {network['subnet']} of {network['name']}"
    for (bridge, text), uuids in holders.items():
        if len(uuids) > 1:
            yield f"{text} on {bridge} is held by {', '.join(sorted(uuids))}"
    holding = {
        row["uuid"]
        for row in ledger.live
        if row["vm_state"] != "error" or row["host"] is not None or ledger.host_of_left_guest(row) is not None
    }
    for uuid in sorted(claims.keys() - holding):
        yield f"{uuid} has addresses, and is not there"
    for row in ledger.live:
        shown = {(each["network"], each["address"], each["mac"]) for each in ledger.interfaces(row)}
        if shown != claims[row["uuid"]]:
            yield f"{row['uuid']} shows {sorted(shown)}, claimed are {sorted(claims[row['uuid']])}"
