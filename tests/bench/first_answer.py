# SPDX-License-Identifier: Apache-2.0
"""Run by ``startup``: a scheduler as its daemon wires it, without a broker; prints when it had its first answer."""

from __future__ import annotations

import json
import sys
import time

from fleet import conf as fleet_conf
from fleet.context import new_context
from fleet.db.engine.database import Database
from fleet.db.feed.feed import ChangeFeed
from fleet.objects import RequestSpec
from scheduler.compute import conf as scheduler_conf
from scheduler.compute.drivers.driver_loading import build_driver


class _NoNotifier:
    def info(self, context: object, event_type: str, payload: object) -> None:
        """Drop the notification."""


def main() -> None:
    began = time.perf_counter()
    conf = fleet_conf.load_config(sys.argv[1:], prog="bench", register=[scheduler_conf.register_opts])
    database = Database(conf)
    driver = build_driver(conf, lambda: ChangeFeed(database), _NoNotifier())
    spec = {"num_instances": 1, "instance_type": {"vcpus": 1, "memory_mb": 1024, "root_gb": 10}}
    (selection,) = driver.select_destinations(new_context(), RequestSpec.from_wire(spec, {}))
    answer = {"ready_s": time.perf_counter() - began, "considered": selection.decision["considered"]}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
