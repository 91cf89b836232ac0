# SPDX-License-Identifier: Apache-2.0
"""What files of tests cost, from ``costs.json``: seconds by path in a run of ``make test``.

It orders tests, and decides nothing else. ``python -m tests.costs REPORT`` writes it anew from a
report that pytest made with ``--junitxml=REPORT``.
"""

from __future__ import annotations

import collections
import itertools
import json
import pathlib
import sys
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree

#: Of a file that costs.json does not name.
SMALL_S = 0.4
#: Files that take less are not named.
_NAMED_S = 4.0
_FILE = pathlib.Path(__file__).with_suffix(".json")


def known() -> dict[str, float]:
    found: dict[str, float] = json.loads(_FILE.read_text())
    return found


def measured(report: str) -> dict[str, float]:
    """Return the seconds of files in a report of pytest."""
    found: collections.Counter[str] = collections.Counter()
    for test in ElementTree.parse(report).iter("testcase"):
        module = [part for part in test.attrib["classname"].split(".") if not part[0].isupper()]
        found["/".join(module) + ".py"] += float(test.attrib["time"])
    return {path: round(spent_s, 1) for path, spent_s in sorted(found.items()) if spent_s >= _NAMED_S}


def places(files: Iterable[str], seconds: Mapping[str, float]) -> dict[str, tuple[float, str]]:
    """Return keys that sort files: all suites side by side, each with its longest files first."""
    suites: dict[str, list[str]] = {}
    for file in sorted(set(files), key=lambda file: (-seconds.get(file, SMALL_S), file)):
        suites.setdefault("/".join(file.split("/")[:2]), []).append(file)
    found = {}
    for its_files in suites.values():
        costs = [seconds.get(file, SMALL_S) for file in its_files]
        for file, done in zip(its_files, itertools.accumulate(costs, initial=0.0), strict=False):
            found[file] = done / sum(costs), file
    return found


if __name__ == "__main__":
    _FILE.write_text(json.dumps(measured(sys.argv[1]), indent=1) + "\n")
