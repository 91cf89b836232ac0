# SPDX-License-Identifier: Apache-2.0
"""Seeds ``random.Random()`` where neither the program nor the test does, so that a failed test can be repeated.

``FLEET_TEST_SEED`` is the seed of the run. Each test has its own part of it, whatever ran before.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
from typing import Any

VARIABLE = "FLEET_TEST_SEED"
_seed_with = random.Random.seed


class _Part:
    """The test that runs, and how many generators it has made."""

    test = "collection"
    count = itertools.count()


def of_run() -> str:
    """Return the seed of the run; the first process that asks draws it, and those that it starts inherit it."""
    return os.environ.setdefault(VARIABLE, str(secrets.randbelow(1_000_000)))


def install() -> None:
    """Seed every generator that gets no seed, for the rest of this process."""
    of_run()
    random.Random.seed = _seed  # type: ignore[method-assign]


def begin(test: str) -> None:
    """Begin the part of ``test``: the functions of ``random`` and its generators repeat from here."""
    _Part.test, _Part.count = test, itertools.count()
    random.seed(f"{of_run()}/{test}")


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    _seed_with(self, f"{of_run()}/{_Part.test}/{next(_Part.count)}" if a is None else a, version)
