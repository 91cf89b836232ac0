# SPDX-License-Identifier: Apache-2.0
"""Repeats a read while no conductor answers. Commands that wait for something call it: the conductor may start anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import oslo_messaging

from fleet.client.calls import Unreachable

#: Failures of a call without an answer of the conductor.
AWAY = (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure, Unreachable)
#: The progress that a command shows while no conductor answers.
SILENCE = "no conductor answers"
#: Seconds without an answer: conductors start anew in a fraction of it, and what is waited for goes on meanwhile.
PATIENT_S = 120.0
_PAUSE_S = 0.5
Answer = TypeVar("Answer")


def patiently(
    read: Callable[[], Answer],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    on_silence: Callable[[], object] = lambda: None,
    patient_s: float = PATIENT_S,
) -> Answer:
    """Return what ``read`` returns. It is called again while no conductor answers, so it must change nothing.

    :param on_silence: called after each read without an answer
    :raises oslo_messaging.MessagingException, Unreachable: no conductor has answered for ``patient_s``
    """
    until = clock() + patient_s
    while True:
        try:
            return read()
        except AWAY:
            if clock() >= until:
                raise
            on_silence()
            sleep(_PAUSE_S)
