# SPDX-License-Identifier: Apache-2.0
"""Slows down clients that guess passwords: by name and address, and by address.

After a few failures each further attempt has to wait, twice as long each time. An address that fails with many names
has to wait as well, except for names that have signed in from it. Failures are forgotten after a quarter of an hour.
Called by :mod:`fleet_api.access.identity` and :mod:`fleet_api.access.sessions`, which are all that take passwords of users.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable

import cachetools
import falcon
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Failures of a name from an address, and of an address, after which the next attempt has to wait.
FREE_OF_NAME, FREE_OF_ADDRESS = 5, 50
#: Longest wait in seconds of each.
_LONGEST_OF_NAME_S, _LONGEST_OF_ADDRESS_S = 60.0, 2.0
_FORGOTTEN_S, _TRUSTED_S = 900.0, 3600.0
_MOST = 10_000
#: Characters of a name in a log line.
_SHOWN = 64


@dataclasses.dataclass(frozen=True)
class _Failures:
    count: int = 0
    newest_at: float = 0.0

    def wait_s(self, free: int, longest_s: float, now: float) -> float:
        """Seconds until the next attempt is allowed: 1, 2, 4 … after the newest failure."""
        if self.count < free:
            return 0.0
        return max(0.0, self.newest_at + min(longest_s, 2.0 ** min(self.count - free, 30)) - now)


class Attempts:
    """``_lock`` guards the caches: all threads of the server use them. The caches are bounded."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: cachetools.TTLCache[tuple[str, ...], _Failures] = cachetools.TTLCache(
            _MOST, _FORGOTTEN_S, clock
        )
        #: Names that have signed in, with their addresses.
        self._trusted: cachetools.TTLCache[tuple[str, str], bool] = cachetools.TTLCache(_MOST, _TRUSTED_S, clock)

    def wait_s(self, name: str, address: str) -> float:
        """Seconds until ``name`` may be tried from ``address``; 0 if it may be now."""
        now = self._clock()
        with self._lock:
            of_name = self._failures.get((name, address), _Failures())
            of_address = self._failures.get((address,), _Failures())
            trusted = (name, address) in self._trusted
        wait_s = of_name.wait_s(FREE_OF_NAME, _LONGEST_OF_NAME_S, now)
        return wait_s if trusted else max(wait_s, of_address.wait_s(FREE_OF_ADDRESS, _LONGEST_OF_ADDRESS_S, now))

    def admit(self, name: str, address: str) -> None:
        """:raises falcon.HTTPTooManyRequests: ``name`` must not be tried from ``address`` yet"""
        wait_s = math.ceil(self.wait_s(name, address))
        if wait_s:
            said = f"Too many sign-ins have failed. The next one is possible in {wait_s} s."
            raise falcon.HTTPTooManyRequests(description=said, retry_after=wait_s)

    def failed(self, name: str, address: str) -> None:
        with self._lock:
            counts = [self._count((name, address)), self._count((address,))]
        said = "The sign-in of user %s from %s has failed: %d failures of this name from there, %d of any name"
        LOG.warning(said, name[:_SHOWN], address, *counts)

    def succeeded(self, name: str, address: str) -> None:
        with self._lock:
            self._failures.pop((name, address), None)
            self._trusted[name, address] = True

    def _count(self, key: tuple[str, ...]) -> int:
        count = self._failures.get(key, _Failures()).count + 1
        self._failures[key] = _Failures(count, self._clock())
        return count
