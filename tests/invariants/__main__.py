# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.invariants DATABASE_URL``: exit status 1 and a line for each violation."""

from __future__ import annotations

import sys

from tests.invariants import moment
from tests.invariants.ledger import Ledger, open_engine


def main(argv: list[str]) -> int:
    if len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    ledger = Ledger.read(open_engine(argv[0]))
    wrong = [f"{number}: {line}" for number, check in moment.CHECKS for line in check(ledger)]
    print("\n".join(wrong) or f"{len(ledger.instances)} instances on {len(ledger.nodes)} nodes: all holds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
