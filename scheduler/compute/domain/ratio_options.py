# SPDX-License-Identifier: Apache-2.0
"""Options that are lists of ``name=number``. The weighers of metrics and of image properties parse theirs by it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def parse(items: Iterable[str], option: str) -> list[tuple[str, float]]:
    """Return the valid items in their order. One warning names the others."""
    good: list[tuple[str, float]] = []
    bad: list[str] = []
    for item in items:
        name, equals, number = item.partition("=")
        try:
            if not (name and equals and math.isfinite(float(number))):
                raise ValueError(item)
            good.append((name, float(number)))
        except ValueError:
            bad.append(item)
    if bad:
        LOG.warning("Option %s: ignoring what is not name=number: %s", option, ", ".join(bad))
    return good
