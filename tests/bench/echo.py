# SPDX-License-Identifier: Apache-2.0
"""Run by ``select``: answers each call on topic ``echo`` with what a file says, through oslo.messaging and nothing else.

The broker settings, the executor, the number of workers and the way they are started are the scheduler's.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import oslo_messaging

from fleet import conf as fleet_conf
from fleet import service
from fleet.rpc import transport, versions
from fleet.rpc.rabbit.conf import STOCK
from scheduler.compute import conf as scheduler_conf

TOPIC = "echo"
#: Names the file with the answer.
ANSWER = "FLEET_BENCH_ANSWER"


class _Echo:
    target = oslo_messaging.Target(version=versions.CURRENT["scheduler"])

    def __init__(self, answer: list[dict[str, Any]]) -> None:
        self._answer = answer

    def select_destinations(self, context: object, request_spec: object, filter_properties: object) -> object:
        return self._answer


def main(argv: Sequence[str]) -> int:
    conf = fleet_conf.load_config(argv, prog="echo", register=[scheduler_conf.register_opts])
    answer = json.loads(pathlib.Path(os.environ[ANSWER]).read_text())

    def build(number: int) -> service.Process:
        conf.set_override("rabbit_driver", STOCK)
        rpc_transport = transport.get_transport(conf)
        target = oslo_messaging.Target(topic=TOPIC, server=conf.host)
        server = oslo_messaging.get_rpc_server(rpc_transport, target, [_Echo(answer)], executor="threading")
        return service.Process([], lambda: [server])

    return service.launch(conf, "echo", build, conf.scheduler_workers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
