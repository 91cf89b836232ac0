# SPDX-License-Identifier: Apache-2.0
"""``fence.py DIRECTORY HOST``: the fence of the chaos. The file ORDER says how it ends: ``off``, ``fail``, ``hang`` or
``late`` (it succeeds after its deadline). JOURNAL has a line for each run.
"""

from __future__ import annotations

import pathlib
import sys
import time

ORDER, JOURNAL = "fence.order", "fence.journal"


def main() -> int:
    directory, host = pathlib.Path(sys.argv[1]), sys.argv[2]
    order = directory / ORDER
    what = order.read_text().strip() if order.exists() else "fail"
    with (directory / JOURNAL).open("a") as file:
        file.write(f"{what} {host}\n")
    time.sleep({"hang": 600, "late": 8}.get(what, 0))
    return int(what == "fail")


if __name__ == "__main__":
    sys.exit(main())
