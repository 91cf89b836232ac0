# SPDX-License-Identifier: Apache-2.0
"""Calls over HTTP, through ``fleet-api``: they need a URL, and no broker and no configuration file.

Called by :mod:`fleet_cli.main`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import oslo_messaging
import requests
import urllib3

from fleet.client.calls import AnswerLost, Calls, CommandFailed, Unreachable
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects.answers.instances import AcceptedRequest
from fleet.rpc import batch_answers
from fleet.rpc.rabbit import broker

#: Below the URL of fleet-api; then follow the topic and the method.
PATH = "/fleet/v1/calls"
#: Seconds to wait for a connection.
_CONNECT_S = 4.0
#: The longest wait for an answer: fleet-api itself gives up after its ``rpc_response_timeout``.
_ANSWER_S = 75
#: What a proxy answers if it has no answer of fleet-api.
_OF_PROXIES = (502, 504)
#: Failures of the service that are no refusals, by their name in the answer.
_FAILURES: Mapping[str, type[Exception]] = {
    each.__name__: each for each in (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure)
}


class HttpConnection(Calls):
    """A fleet behind ``url``, such as ``https://fleet.example:8774``.

    Administrators may make all calls, for any project. Others make those that their roles allow, for their own project.
    ``token`` is one of keystone. Without it and ``username`` the name and the password of ``~/.netrc`` are used, if it has
    them for the host.
    """

    uses_broker = False

    def __init__(
        self, url: str, username: str | None = None, password: str | None = None, token: str | None = None
    ) -> None:
        super().__init__()
        self._url = url.rstrip("/")
        self._session = requests.Session()
        if username:
            # As the server reads them. requests would encode text in Latin-1.
            known = (each.encode(errors="surrogateescape") for each in (username, password or ""))
            self._session.auth = requests.auth.HTTPBasicAuth(*known)
        elif token:
            self._session.headers["X-Auth-Token"] = token
        self._timeout_s = _ANSWER_S

    @property
    def timeout_s(self) -> int:
        return self._timeout_s

    def ask(self, method: str, **arguments: object) -> object:
        return self._call("operator", method, arguments)

    def _create(self, request: JSONObject, token: str | None) -> AcceptedRequest:
        return self._call("compute_task", "create", {"request": request, "client_token": token})

    def terminate(self, uuids: list[str]) -> None:
        self._call("compute_task", "terminate_instances", {"instance_uuids": uuids})

    def explain(self, asked: Mapping[str, object], best: int) -> JSONObject:
        with self._scheduler_failures():
            return self._call("scheduler", "explain", {**asked, "best": best})

    def capacity(self, asked: Mapping[str, object], group_by: str | None) -> JSONObject:
        with self._scheduler_failures():
            return self._call("scheduler", "capacity", {**asked, "group_by": group_by})

    def describe_filters(self) -> JSONObject:
        return self._call("scheduler", "describe_filters", {})

    def explain_volume(self, asked: Mapping[str, object], best: int) -> JSONObject:
        with self._scheduler_failures():
            return self._call("volume_scheduler", "explain", {**asked, "best": best})

    def volume_capacity(self, asked: Mapping[str, object], group_by: str | None) -> JSONObject:
        with self._scheduler_failures():
            return self._call("volume_scheduler", "capacity", {**asked, "group_by": group_by})

    def ping(self, topic: str) -> None:
        self._call("baseapi", "ping", {"topic": topic})

    def describe_host(self, host: str) -> JSONObject:
        return self._call("compute", "describe_host", {"host": host})

    def depths(self, queues: Iterable[str]) -> dict[str, broker.Depth | None] | None:
        """Return None: fleet-api does not read the broker's queues."""
        return None

    def nodes(self) -> list[broker.Node]:
        """Return no nodes, for the same reason."""
        return []

    @contextlib.contextmanager
    def impatient(self, timeout_s: int) -> Iterator[None]:
        before, self._timeout_s = self._timeout_s, timeout_s
        try:
            yield
        finally:
            self._timeout_s = before

    def close(self) -> None:
        self._session.close()

    def _call(self, topic: str, method: str, arguments: JSONObject) -> Any:
        body = {"arguments": arguments, "project_id": self.project_id, "user_id": self.user_id}
        url = f"{self._url}{PATH}/{topic}/{method}"
        try:
            answer = self._session.post(url, json=body, timeout=(_CONNECT_S, self._timeout_s), allow_redirects=False)
            said = answer.json()
        except requests.ReadTimeout:
            raise oslo_messaging.MessagingTimeout(f"{self._url} did not answer within {self._timeout_s} s") from None
        except requests.JSONDecodeError:
            if answer.status_code in _OF_PROXIES:
                raise AnswerLost(f"{self._url} answered {answer.status_code} without JSON") from None
            raise CommandFailed(f"{self._url} is no fleet-api: it answered {answer.status_code} without JSON") from None
        except (requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema, requests.exceptions.InvalidURL):
            raise CommandFailed(f"{self._url} is not the URL of a fleet-api, such as http://127.0.0.1:8774") from None
        except requests.RequestException as failure:
            if _may_have_arrived(failure):
                raise AnswerLost(f"the connection to {self._url} was lost: {_plain(failure)}") from None
            raise Unreachable(f"{self._url} cannot be reached: {_plain(failure)}") from None
        # keystonemiddleware, too, has a key "error".
        if not isinstance(said, dict) or not ("result" in said or isinstance(said.get("error"), str)):
            raise self._refusal(answer.status_code, said, answer.headers.get("WWW-Authenticate", ""))
        return _read(said)

    def _refusal(self, code: int, said: object, scheme: str) -> CommandFailed:
        """The answer of fleet-api, or of another server, in which no method was called."""
        parts = said.values() if isinstance(said, dict) else ()
        message = next((str(each["message"]) for each in parts if isinstance(each, dict) and "message" in each), "")
        if code == 401:
            message = f"{message} Set FLEET_USERNAME and FLEET_PASSWORD, or name the host in ~/.netrc."
            if "Keystone" in scheme:
                message = (
                    "Set FLEET_TOKEN to what 'openstack token issue -f value -c id' prints: a token lasts some hours."
                )
        return CommandFailed(f"{self._url} answered {code}: {message.strip() or 'no reason given'}")


def _read(said: JSONMapping) -> object:
    """Return the result of a call. :raises errors.FleetError: oslo_messaging.MessagingException:"""
    failure = _FAILURES.get(said.get("error", ""))
    if failure is not None:
        raise failure(said.get("message"))
    return batch_answers.read(said)


def _may_have_arrived(failure: requests.RequestException) -> bool:
    """Return True if the connection was lost after it had been made: while the request was sent, or the answer read."""
    reason = failure.args[0] if failure.args else None
    return isinstance(reason, (urllib3.exceptions.ProtocolError, urllib3.exceptions.ReadTimeoutError))


def _plain(failure: requests.RequestException) -> str:
    """Return the innermost reason: the outer ones name objects of libraries."""
    reason: BaseException = failure
    while (inner := reason.__cause__ or reason.__context__) is not None:
        reason = inner
    return str(getattr(reason, "strerror", None) or reason)
