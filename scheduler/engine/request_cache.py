# SPDX-License-Identifier: Apache-2.0
"""Evaluations of earlier requests, for later requests that the plugins cannot tell from them.

Called by :mod:`scheduler.engine.decide`; :mod:`scheduler.state.decider` owns it. Four of five real requests equal an
earlier one in everything that filters and weighers read, and between two requests few hosts change. The domain
computes the key of a request.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable

from scheduler.engine.evaluation import Evaluation

#: Memory limit in bytes. At least ``LEAST`` evaluations are kept, however large they are.
MOST_BYTES = 16 * 2**20
LEAST = 2


class RequestCache:
    """The evaluations used last, by key. Belongs to one pipeline and one table, and to the lock that guards the table."""

    def __init__(self) -> None:
        self._kept: collections.OrderedDict[Hashable, Evaluation] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, key: Hashable | None) -> Evaluation:
        """Remove and return the evaluation with this key, or return a new one. A failed request does not put it back."""
        kept = None if key is None else self._kept.pop(key, None)
        return kept or Evaluation()

    def keep(self, key: Hashable | None, evaluation: Evaluation) -> None:
        """Store the evaluation; the ones used longest ago make room."""
        if key is None:
            return
        self._kept[key] = evaluation
        most = max(LEAST, MOST_BYTES // max(evaluation.nbytes, 1))
        while len(self._kept) > most:
            self._kept.popitem(last=False)
