# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.chaos.skewed SECONDS PROGRAM ARGUMENTS``: a daemon on a machine whose wall clock is off."""

from __future__ import annotations

import importlib
import sys
import time

from fleet import clock

_MODULES = {
    "fleet-compute": "compute_agent.main",
    "fleet-conductor": "conductor_stub.main",
    "fleet-scheduler": "scheduler.main",
}


def main() -> int:
    offset, program = int(sys.argv[1]), sys.argv[2]
    true_time, true_now = time.time, clock.utcnow
    time.time = lambda: true_time() + offset
    clock.utcnow = lambda: true_now() + clock.seconds(offset)
    # Only now: what is imported from here on takes the clock as it finds it.
    return importlib.import_module(_MODULES[program]).main(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
