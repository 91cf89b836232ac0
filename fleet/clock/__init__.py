# SPDX-License-Identifier: Apache-2.0
"""The clock of a process, passed as an argument so that tests can set it, and times as text. ``skew`` measures its
difference to the database's.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import overload

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_EPOCH = datetime.datetime(1970, 1, 1)
Clock = Callable[[], datetime.datetime]


def utcnow() -> datetime.datetime:
    """Return the present time as the database stores it: naive UTC."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def naive_utc(moment: datetime.datetime) -> datetime.datetime:
    """Return a time in UTC without its zone. A time without a zone is UTC already.

    :raises ValueError: it is in no year from 1 to 9999 of UTC
    """
    if moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueError("must be a time in the years 1 to 9999 of UTC") from None


def since_boot_s() -> float:
    """Return seconds for measuring how long something takes. No step of the wall clock changes them.

    Unlike ``time.monotonic`` they go on while the machine is suspended, where the system has such a clock.
    """
    return time.clock_gettime(_STEADY)


def seconds(amount: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=amount)


def epoch_s(time: datetime.datetime | None) -> float:
    """Return epoch seconds of a naive UTC time; 0 for None."""
    return (time - _EPOCH).total_seconds() if time else 0.0


@overload
def as_text(moment: datetime.datetime) -> str: ...
@overload
def as_text(moment: datetime.datetime | None) -> str | None: ...
def as_text(moment: datetime.datetime | None) -> str | None:
    """Return a naive UTC time as answers have it, "2026-01-31T09:00:00.000Z"; None for None."""
    return None if moment is None else moment.isoformat(timespec="milliseconds") + "Z"
