# SPDX-License-Identifier: Apache-2.0
"""A daemon's checks of itself, and their times."""

from __future__ import annotations

import threading

import pytest

from fleet.service import probes


def test_no_ping_is_sent_before_somebody_can_answer_it() -> None:
    """It would be waited for until its timeout, and the daemon would not be ready for as long."""
    sent: list[str] = []
    started = threading.Event()
    probe = probes.once_served(lambda: sent.append("ping"), started, patience_s=0.01)
    with pytest.raises(RuntimeError, match="nothing is served yet"):
        probe()
    assert [] == sent
    started.set()
    probe()
    assert ["ping"] == sent
