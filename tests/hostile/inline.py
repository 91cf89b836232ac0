# SPDX-License-Identifier: Apache-2.0
"""A transport without threads: the caller's thread handles the message, with the server's own code, before ``send`` returns.

What a message meets is real: its JSON, its signature, the guard, the endpoint, and the redaction of the answer.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg

from fleet.rpc import transport
from fleet.rpc.local import driver, hub
from fleet.rpc.server import Server

#: What agents of hosts and of backends answer. Orders, which are casts, go nowhere.
_AGENTS: Mapping[str, Any] = {
    "get_console_output": "a console",
    "describe_host": {"host": "a host"},
    "get_manageable": [],
    "get_connection": {"kind": "fake", "path": "/a/volume", "format": "raw"},
}


class InlineDriver(driver.LocalDriver):
    """A topic without a server drops casts."""

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.served: dict[str, Any] = {}

    def serve(self, servers: Iterable[object]) -> None:
        """Handle the messages to these servers, which are not started."""
        for each in servers:
            if isinstance(each, Server):
                target = each._served._target
                self.served |= {target.topic: each._served, f"{target.topic}.{target.server}": each._served}

    def _send(self, delivery: hub.Delivery, wants_reply: bool, timeout: float | None) -> dict[str, Any]:
        served = self.served.get(delivery.key)
        if served is None:
            return self._agent(delivery) if wants_reply else {}
        box = driver._ReplyBox() if wants_reply else None
        served._process_incoming([driver._Incoming(dataclasses.replace(delivery, reply_to=box))])
        return driver._wait_for_answer(box.receive, delivery, 0) if box is not None else {}

    def _agent(self, delivery: hub.Delivery) -> dict[str, Any]:
        method = json.loads(delivery.body)["message"]["method"]
        if not delivery.key.startswith(("compute.", "volume.")) or method not in _AGENTS:
            raise oslo_messaging.MessagingTimeout(f"Nobody serves {delivery.key}")
        return {"result": _AGENTS[method]}


def inline_transport(conf: cfg.ConfigOpts) -> tuple[oslo_messaging.RPCTransport, InlineDriver]:
    made = transport.get_transport(conf)
    made._driver = InlineDriver(conf, made._driver._url, conf.control_exchange, transport.ALLOWED_REMOTE_EXMODS)
    return made, made._driver
