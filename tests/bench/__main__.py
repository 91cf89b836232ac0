# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench [PART …]``."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from collections.abc import Callable

from tests.bench import (
    agents,
    api,
    balancers,
    builds,
    commits,
    conflicts,
    decision,
    domains,
    figures,
    kept_decisions,
    maintenance,
    memory,
    nova_feed,
    nova_scheduler,
    nova_shadow,
    packing,
    pools,
    reassignment,
    rebalance,
    select,
    startup,
    survival,
    transport,
    volumes,
    waiting,
    waves,
)

PARTS: dict[str, Callable[[], None]] = {
    "decision": decision.run,
    "decisions": kept_decisions.run,
    "domains": domains.run,
    "maintenance": maintenance.run,
    "memory": memory.run,
    "startup": startup.run,
    "survival": survival.run,
    "transport": transport.run,
    "select": select.run,
    "balancers": balancers.run,
    "builds": builds.run,
    "commits": commits.run,
    "agents": agents.run,
    "api": api.run,
    "conflicts": conflicts.run,
    "packing": packing.run,
    "pools": pools.run,
    "reassignment": reassignment.run,
    "rebalance": rebalance.run,
    "volumes": volumes.run,
    "waiting": waiting.run,
    "waves": waves.run,
    "nova-feed": nova_feed.run,
    "nova": nova_scheduler.run,
    "nova-shadow": nova_shadow.run,
}
#: Take a quarter of an hour each: only when they are asked for.
LONG = ("agents", "maintenance")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Prints figures as JSON lines.")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"Of {', '.join(PARTS)}. Default: all but {', '.join(LONG)}."
    )
    wanted = parser.parse_args().parts or [name for name in PARTS if name not in LONG]
    unknown = sorted(set(wanted) - set(PARTS))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}")
    # The daemons that are measured end with this program, however it is told to.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))
    figures.report("machine", cpus=os.cpu_count(), machine=platform.machine(), python=platform.python_version())
    for name in wanted:
        PARTS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
