# SPDX-License-Identifier: Apache-2.0
"""Calls to the placement service: allocations of instances, and compute nodes by trait.

Called by the modules beside it. keystoneauth is an extra of the package: ``pip install '.[nova]'`` in the directory of
the source.
"""

from __future__ import annotations

import contextlib
import enum
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, TypeVar

from oslo_config import cfg
from oslo_log import log as logging
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields
from fleet.reasons import Reason
from scheduler.nova.resource_request import traits_text

try:
    from keystoneauth1 import exceptions, loading
except ImportError:  # the extra is not installed
    exceptions = loading = None  # type: ignore[assignment]

LOG = logging.getLogger(__name__)
GROUP = "placement"
SERVICE_TYPE = "placement"
#: The microversion of all calls: consumer generations, mappings, and traits of providers are in it.
VERSION = "1.36"
#: Seconds after which a call without an answer fails, unless [placement] timeout is set. keystoneauth waits for ever.
_TIMEOUT_S = 60
_NOBODY = "00000000-0000-0000-0000-000000000000"
_CONCURRENT = "placement.concurrent_update"
#: Answers that concern what is claimed. All others concern placement itself, and every request.
_ABOUT_ONE_HOST = (400, 404)
_NOT_ITS_ANSWER = "a query is answered with 200, and not in placement's form. Does [placement] lead to another service?"
Body = TypeVar("Body")


class _Amounts(TypedDict):
    """By resource class."""

    resources: dict[str, int]


class _Held(TypedDict):
    allocations: dict[str, _Amounts]
    consumer_generation: NotRequired[int | None]


class _Provider(TypedDict):
    uuid: str
    parent_provider_uuid: NotRequired[str | None]


class _Providers(TypedDict):
    resource_providers: list[_Provider]


class _Offer(TypedDict):
    allocations: dict[str, _Amounts]
    mappings: dict[str, list[str]]


class _Summary(TypedDict):
    root_provider_uuid: str


class _Candidates(TypedDict):
    allocation_requests: list[_Offer]
    provider_summaries: dict[str, _Summary]


class PlacementFailed(errors.FleetError):
    """The placement service cannot be reached, or refuses a call. See its log, and section [placement]."""

    code = 503
    reason_code = Reason.MESSAGING
    template = "Placement cannot be used now: {problem}"
    problem: str


class Outcome(enum.Enum):
    """The result of a claim.

    ``CHANGED``: another client of placement wrote the same rows; the claim may be tried again. ``UNKNOWN``: placement does
    not know the provider, or takes no allocation on it.
    """

    TAKEN = "taken"
    FULL = "full"
    CHANGED = "changed"
    UNKNOWN = "unknown"


class Placement:
    """:param adapter: keystoneauth's, or anything with its ``request``"""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Placement:
        """Return the placement of section ``[placement]``. :raises errors.ConfigError:"""
        if loading is None:
            reason = "needs keystoneauth1; install it with: pip install '.[nova]' in the directory of the source"
            raise errors.ConfigError(option="[nova] placement", reason=reason)
        register_opts(conf)
        try:
            auth = loading.load_auth_from_conf_options(conf, GROUP)
            if auth is None:
                reason = "is not set. Copy the section [placement] of nova.conf"
                raise errors.ConfigError(option="[placement] auth_type", reason=reason)
            session = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
            return cls(loading.load_adapter_from_conf_options(conf, GROUP, session=session, auth=auth))
        except (exceptions.AuthPluginException, cfg.Error) as wrong:
            raise errors.ConfigError(
                option="[placement]", reason=f"cannot be used: {type(wrong).__name__}: {wrong}"[:200]
            ) from None

    def allocations(self, consumer: str) -> tuple[JSONObject, int | None]:
        """Return the allocations of a consumer, by provider, and its generation (None: it holds nothing and is new).

        :raises PlacementFailed:
        """
        found = self._body(self._send("GET", f"/allocations/{consumer}"), _Held)
        return {**found["allocations"]}, found.get("consumer_generation")

    def write(self, consumer: str, body: Mapping[str, object]) -> Outcome:
        """Replace the allocations of a consumer. :raises PlacementFailed:"""
        answer = self._send("PUT", f"/allocations/{consumer}", json=dict(body))
        if answer.status_code == 204:
            return Outcome.TAKEN
        if answer.status_code == 409:
            return Outcome.CHANGED if _CONCURRENT in _codes(answer) else Outcome.FULL
        if answer.status_code in _ABOUT_ONE_HOST:
            LOG.info("PUT of an allocation is answered with %d%s", answer.status_code, _said(answer))
            return Outcome.UNKNOWN
        raise PlacementFailed(problem=f"PUT of an allocation is answered with {answer.status_code}{_said(answer)}")

    def providers_with(self, required: frozenset[str], forbidden: frozenset[str]) -> frozenset[str]:
        """Return the uuids of the providers that have all the required traits, and none of the forbidden ones.

        :raises errors.InvalidInput: placement does not know one of the traits
        """
        wanted = traits_text(required, forbidden)
        answer = self._send("GET", f"/resource_providers?{urllib.parse.urlencode({'required': wanted})}")
        if answer.status_code == 400:
            raise errors.InvalidInput(field="traits", reason=f"are refused by placement: {wanted}"[:255])
        return frozenset(each["uuid"] for each in self._body(answer, _Providers)["resource_providers"])

    def offers(self, query: str) -> dict[str, list[JSONMapping]]:
        """Return the allocation requests that placement offers, by the root of their providers' trees.

        :param query: parameters of ``GET /allocation_candidates``
        :raises errors.InvalidInput: placement refuses the query, as for an unknown trait or resource class
        """
        answer = self._send("GET", f"/allocation_candidates?{query}")
        if answer.status_code == 400:
            raise errors.InvalidInput(field="resources", reason=f"are refused by placement{_detail(answer)}"[:255])
        found = self._body(answer, _Candidates)
        root_of = {uuid: each["root_provider_uuid"] for uuid, each in found["provider_summaries"].items()}
        offered: dict[str, list[JSONMapping]] = {}
        for request in found["allocation_requests"]:
            if not request["allocations"].keys() <= root_of.keys():
                raise PlacementFailed(problem=_NOT_ITS_ANSWER)
            for root in {root_of[uuid] for uuid in request["allocations"]}:
                offered.setdefault(root, []).append(request)
        return offered

    def ping(self) -> None:
        """Ask for one provider that does not exist. :raises PlacementFailed:"""
        self._body(self._send("GET", f"/resource_providers?uuid={_NOBODY}"), _Providers)

    def out_of_scope(self) -> list[str]:
        """Return sentences about parts of this deployment that the columns of hosts do not have."""
        providers = self._body(self._send("GET", "/resource_providers"), _Providers)["resource_providers"]
        nested = sum(1 for each in providers if each.get("parent_provider_uuid"))
        found = []
        if nested:
            found.append(
                f"{nested} of {len(providers)} providers are nested: requests for their resources are answered by "
                "allocation candidates, and fleet capacity does not count them."
            )
        return found

    def _body(self, answer: Any, shape: type[Body]) -> Body:
        """:raises PlacementFailed: it is not the answer to the query, as if a proxy answers in the place of placement"""
        if answer.status_code != 200:
            raise PlacementFailed(problem=f"a query is answered with {answer.status_code}{_said(answer)}")
        try:
            return fields.parse(shape, answer.json())
        except (ValueError, RecursionError, errors.InvalidInput):
            raise PlacementFailed(problem=_NOT_ITS_ANSWER) from None

    def _send(self, method: str, path: str, **options: Any) -> Any:
        with _failures():
            return self._adapter.request(path, method, microversion=VERSION, raise_exc=False, **options)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register keystoneauth's options of ``[placement]``."""
    loading.register_auth_conf_options(conf, GROUP)
    loading.register_session_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(conf, GROUP)
    conf.set_default("service_type", SERVICE_TYPE, group=GROUP)
    conf.set_default("timeout", _TIMEOUT_S, group=GROUP)
    conf.set_default("valid_interfaces", ["internal", "public"], group=GROUP)


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Raise an error of keystoneauth without the URL, which may have a token in it."""
    caught = exceptions.ClientException if exceptions is not None else ()
    problem = ""
    try:
        yield
    except caught as failure:
        problem = type(failure).__name__
    if problem:
        raise PlacementFailed(problem=f"{problem}.")


def _codes(answer: object) -> list[str]:
    return [str(each.get("code")) for each in _errors(answer)]


def _said(answer: object) -> str:
    """Return the title of an error."""
    found = [str(each.get("title")) for each in _errors(answer)]
    return f" ({found[0][:80]})" if found else ""


def _detail(answer: object) -> str:
    """Return placement's reason for a refused query, on one line."""
    found = [" ".join(str(each.get("detail")).split()) for each in _errors(answer)]
    return f": {found[0]}" if found else ""


def _errors(answer: Any) -> list[JSONObject]:
    try:
        found = answer.json().get("errors")
    except (ValueError, RecursionError, AttributeError):
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
