# SPDX-License-Identifier: Apache-2.0
"""The life of a round of balancing: what a conductor has seen in an aggregate, and the moves that would help.

::

    suggested ── mode auto, or an operator runs it ──▶ moving ── all moves have ended ──▶ done ── minutes later: measured
        └── another suggestion, or no host is hot any more ──▶ superseded

    nothing: a host is hot, and no move helps, or something forbids moves now

A move of a round is waiting until it is begun, then moving, and done or failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SUGGESTED: Final = "suggested"
MOVING: Final = "moving"
DONE: Final = "done"
NOTHING: Final = "nothing"
SUPERSEDED: Final = "superseded"

WAITING: Final = "waiting"
FAILED: Final = "failed"

OFF: Final = "off"
SUGGEST: Final = "suggest"
CONFIRM: Final = "confirm"
AUTO: Final = "auto"
MODES = (SUGGEST, CONFIRM, AUTO)
#: Key of an aggregate's metadata: its mode.
METADATA: Final = "balance"


def mode_of(metadata: Mapping[str, str]) -> str:
    """Return the mode of an aggregate with this metadata. A value that is no mode, as of an earlier release, is off."""
    mode = metadata.get(METADATA, OFF)
    return mode if mode in MODES else OFF
