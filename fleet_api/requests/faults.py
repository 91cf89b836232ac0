# SPDX-License-Identifier: Apache-2.0
"""Failures as nova's API returns them: one key that names the kind, with ``code`` and ``message``.

Resources raise them as ``Fault``, and :mod:`fleet_api.application` answers with them.
"""

from __future__ import annotations

from collections.abc import Mapping

import falcon
import oslo_messaging
from oslo_log import log as logging

from fleet import errors

LOG = logging.getLogger(__name__)

_KINDS = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}
#: The API of volumes has a code of its own for a request above a quota.
_VOLUMES, _OVER_QUOTA_OF_VOLUMES = "/v3/", 413
#: Kind of all other codes.
_OTHER = "computeFault"


class Fault(Exception):
    """An answer other than success. ``message`` is for the user."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class NotHere(Fault):
    """Something of nova's API that a fleet does not have."""

    def __init__(self, what: str) -> None:
        super().__init__(501, f"{what} is not available in this cloud.")


def refuse_given(asked: object, not_here: Mapping[str, str]) -> None:
    """Refuse fields that are not empty. :param not_here: field → what to call it

    :raises NotHere:
    """
    for name, what in not_here.items():
        if getattr(asked, name):
            raise NotHere(what)


def register(app: falcon.App) -> None:
    """Make ``app`` answer every failure in nova's form."""
    app.add_error_handler(Exception, _unexpected)
    app.add_error_handler(falcon.HTTPError, _of_falcon)
    app.add_error_handler(errors.FleetError, _of_fleet)
    app.add_error_handler(oslo_messaging.MessagingTimeout, _timeout)
    app.add_error_handler(oslo_messaging.MessageDeliveryFailure, _away)
    app.add_error_handler(Fault, _fault)
    app.set_error_serializer(lambda _request, response, failure: _answer(response, failure.status_code, failure.title))


def _answer(response: falcon.Response, code: int, message: str | None) -> None:
    response.status = code
    response.media = {_KINDS.get(code, _OTHER): {"code": code, "message": message or falcon.code_to_http_status(code)}}


def _fault(_request: falcon.Request, response: falcon.Response, failure: Fault, _params: object) -> None:
    _answer(response, failure.code, failure.message)


def _of_falcon(_request: falcon.Request, response: falcon.Response, failure: falcon.HTTPError, _params: object) -> None:
    response.set_headers(failure.headers or {})
    _answer(response, failure.status_code, failure.description or failure.title)


def _of_fleet(request: falcon.Request, response: falcon.Response, failure: errors.FleetError, _params: object) -> None:
    code = failure.code if failure.code in _KINDS or failure.code >= 500 else 400
    if isinstance(failure, errors.QuotaExceeded) and request.path.startswith(_VOLUMES):
        code = _OVER_QUOTA_OF_VOLUMES
    _answer(response, code, failure.message)


def _timeout(_request: falcon.Request, response: falcon.Response, _failure: Exception, _params: object) -> None:
    _answer(response, 503, "The conductor did not answer in time. A request to create may have been accepted: repeat it "
                           "with the same Idempotency-Key.")  # fmt: skip


def _away(_request: falcon.Request, response: falcon.Response, failure: Exception, _params: object) -> None:
    LOG.error("No conductor can be reached: %s", failure)
    _answer(response, 503, "No conductor can be reached.")


def _unexpected(request: falcon.Request, response: falcon.Response, failure: Exception, _params: object) -> None:
    LOG.error("%s %s failed", request.method, request.path, exc_info=failure)
    _answer(response, 500, f"An unexpected error. The log of fleet-api has it: {type(failure).__name__}.")
