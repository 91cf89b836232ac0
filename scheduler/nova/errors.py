# SPDX-License-Identifier: Apache-2.0
"""The one error that nova's conductor understands, in nova's form.

Called by :mod:`scheduler.nova.endpoint`. nova rebuilds exceptions of the module ``nova.exception`` only, and handles
this one by name: it sets the state and the fault of the server. Any other error arrives there as a RemoteError.
"""

from __future__ import annotations

from fleet import errors

_PREFIX = "No valid host was found. "


class NoValidHost(Exception):
    """``reason`` appears in the fault of the server."""

    __module__ = "nova.exception"

    def __init__(self, reason: str) -> None:
        self.kwargs = {"reason": reason, "code": 500}
        super().__init__(f"{_PREFIX}{reason}")


def in_novas_form(failure: errors.FleetError) -> NoValidHost:
    """Return any refusal as a NoValidHost that names its kind, since nova catches no other by name."""
    if isinstance(failure, errors.NoValidHost):
        return NoValidHost(f"{failure.reason_code.value}: {failure.reason}")
    return NoValidHost(f"{failure.reason_code.value}: {failure.message}")
