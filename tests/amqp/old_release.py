# SPDX-License-Identifier: Apache-2.0
"""A daemon of the release before: it serves and sends the former versions, and does not know the newer methods."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from fleet.db.hosts.heartbeats import Heartbeat
from fleet.rpc import versions

SERVICES = {"conductor": "conductor_stub", "scheduler": "scheduler", "compute": "compute_agent"}
#: Before anything else is imported: options and endpoints are made of it.
versions.CURRENT.update(scheduler="4.1", conductor="1.0", compute="1.0")
versions.spoken = lambda topic: {}  # type: ignore[assignment]
#: Arguments that came later.
UNKNOWN = {"alarms", "idle", "rpc_version", "release", "spawn_within_s"}


def main() -> int:
    from fleet import errors
    from fleet.rpc.trust import admission

    check = admission._check

    def checked(message: dict[str, Any], size: int | None) -> None:
        check(message, size)
        unknown = UNKNOWN & set(message.get("args", {}))
        # What is sent in a version that this release does not serve is refused for that.
        if unknown and message.get("version") == "1.0":
            raise errors.InvalidInput(field="message.args", reason=f"{sorted(unknown)} came with a later release")

    admission._check = checked
    _forget_the_ledger_queue()
    _forget_versions()
    return importlib.import_module(f"{SERVICES[sys.argv[1]]}.main").main(sys.argv[2:])


class _Nothing:
    """A server of no queue."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def wait(self) -> None: ...


def _forget_the_ledger_queue() -> None:
    """A conductor of that release takes its one queue."""
    from fleet.rpc import ledger_queue, server

    get_server = server.get_server

    def got(transport: Any, topic: str, *arguments: Any, **options: Any) -> Any:
        return _Nothing() if topic == ledger_queue.TOPIC else get_server(transport, topic, *arguments, **options)

    server.get_server = got


def _forget_versions() -> None:
    """A conductor of that release answers a heartbeat without them."""
    from conductor_stub.agents.manager import ConductorManager
    from fleet.rpc.endpoint import endpoint

    def report_state(self: Any, context: Any, binary: str, hosts: list[str], incarnation: str) -> dict[str, Any]:
        return {"superseded": list(self._api.report_state(Heartbeat(binary, hosts, incarnation)).superseded)}

    ConductorManager.report_state = endpoint(report_state)  # type: ignore[method-assign]
