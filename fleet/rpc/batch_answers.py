# SPDX-License-Identifier: Apache-2.0
"""Encodes the answers to several calls that came in one message.

Called by :mod:`conductor_stub.agents.manager` and :mod:`conductor_stub.volumes.manager`; the callers decode with it.
On the wire each answer is ``{"result": …}``, or ``{"error": NAME, "facts": {…}, "message": …}`` with a class of
``fleet.errors``.
"""

from __future__ import annotations

import oslo_messaging

from fleet import errors
from fleet.json_codec import JSONMapping

#: oslo.messaging raises an error of another process in a class of its own, which has this at the end of its name.
_REMOTE = "_Remote"


def result(value: object) -> dict[str, object]:
    return {"result": value}


def refusal(error: errors.FleetError) -> dict[str, object]:
    """Return the answer for ``error``; an error from a call gets the name of its class, without oslo.messaging's mark."""
    return {"error": type(error).__name__.removesuffix(_REMOTE), "facts": error.kwargs, "message": error.message}


def read(answer: JSONMapping) -> object:
    """Return the result of one call.

    :raises errors.FleetError: the call was refused
    :raises oslo_messaging.RemoteError: the error's class is unknown here: the server has a later release
    """
    if "error" not in answer:
        return answer["result"]
    kind = getattr(errors, answer["error"], None)
    try:
        error = kind(**answer["facts"])  # type: ignore[misc]
    except TypeError:
        error = None
    if not isinstance(error, errors.FleetError):
        raise oslo_messaging.RemoteError(answer["error"], answer.get("message"))
    raise error
