# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.chaos.skewed SECONDS ARGUMENTS``: fleet-compute on a machine whose wall clock is off."""

from __future__ import annotations

import sys
import time

from fleet import clock


def main() -> int:
    offset = int(sys.argv[1])
    true_time, true_now = time.time, clock.utcnow
    time.time = lambda: true_time() + offset
    clock.utcnow = lambda: true_now() + clock.seconds(offset)
    # Only now: what is imported from here on takes the clock as it finds it.
    from compute_agent.main import main as agent

    return agent(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
