# SPDX-License-Identifier: Apache-2.0
"""A program that calls itself once through the broker, as daemons do, and prints the result."""

from __future__ import annotations

import sys

import oslo_messaging

from fleet import conf as fleet_conf
from fleet.rpc import server, transport
from fleet.service import probes


def main() -> int:
    conf = fleet_conf.load_config(sys.argv[1:], prog="tls-echo")
    broker = transport.get_transport(conf)
    reachable = probes.broker_reachable(conf)
    print("reachable" if reachable else "not reachable")
    echo = server.get_server(broker, "echo", "here", [])
    if reachable:  # it would wait for ever
        echo.start()
    try:
        probes.through_broker(conf, broker, "echo", "here")()
        print("answered")
    except oslo_messaging.MessagingException as refused:
        print("no answer:", type(refused).__name__, file=sys.stderr)
        print("no answer")
    if reachable:
        echo.stop()
        echo.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
