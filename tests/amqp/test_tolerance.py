# SPDX-License-Identifier: Apache-2.0
"""A promise to survive the loss of any host, kept by real daemons."""

from __future__ import annotations

from tests.amqp.daemons import Trio, eventually
from tests.amqp.invariants import come_to_rest

#: A host has room for one such guest.
LARGE = {"vcpus": 1, "memory_mb": 30000, "root_gb": 1}


def test_the_last_empty_host_stays_empty(trio: Trio) -> None:
    """Five guests on six hosts survive the loss of any; a sixth one would not, and is refused with the reason."""
    uuids = trio.boot(flavor=LARGE, count=5)
    trio.wait_for(uuids, "active")
    assert 0 == trio.cli("tolerance", "set", "--policy", "refuse").returncode
    try:
        shown = trio.cli("tolerance", "show", "-f", "value", "-c", "verdict", "-c", "losses")
        assert (0, "safe 6\n") == (shown.returncode, shown.stdout), shown.stderr

        def refused() -> str:
            """Until the scheduler has proved the promise, the guest is placed."""
            (uuid,) = trio.boot(flavor=LARGE)
            state = trio.wait_for([uuid], "active", "error")[uuid]
            faults = trio.show(uuid)["faults"]
            trio.terminate([uuid])
            trio.wait_for([uuid], "deleted")
            return faults[0]["details"]["reason_code"] if state == "error" else ""

        assert "TOLERANCE" == eventually(refused)
    finally:
        trio.cli("tolerance", "unset")
        trio.terminate(uuids)
        come_to_rest(trio)
