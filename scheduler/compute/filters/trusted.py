# SPDX-License-Identifier: Apache-2.0
"""An attestation service must attest the integrity of the host. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

import numpy
from oslo_config import cfg
from oslo_log import log as logging

from fleet import errors
from fleet.objects import RequestSpec, request_parts
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates

if TYPE_CHECKING:
    from scheduler.compute.domain import attestation

LOG = logging.getLogger(__name__)
_EXTRA_SPEC = "trust:trusted_host"


class TrustedFilter(ColumnFilter):
    """With the extra spec ``trust:trusted_host``, nodes pass whose attested trust level equals it."""

    judges = (request_parts.EXTRA_SPECS["trust"],)
    run_filter_once_per_request = True
    #: The service may attest another level at any time.
    cacheable = False

    def __init__(self, levels: attestation.TrustLevels) -> None:
        self._levels = levels

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        options = conf.trusted_computing
        if not options.attestation_server:
            option = "[trusted_computing] attestation_server"
            raise errors.ConfigError(option=option, reason="is required by TrustedFilter")
        # Few use it, and an HTTP client is a tenth of what all others would have to load.
        from scheduler.compute.domain import attestation

        LOG.warning("TrustedFilter is experimental; nova has dropped it")
        if options.attestation_insecure_ssl:
            LOG.warning("The attestation service's certificate is not verified (attestation_insecure_ssl)")
        server = attestation.Server(
            address=options.attestation_server,
            port=options.attestation_port,
            api_url=options.attestation_api_url,
            ca_file=options.attestation_server_ca_file,
            auth_blob=options.attestation_auth_blob,
            insecure_ssl=options.attestation_insecure_ssl,
            timeout_s=options.attestation_request_timeout,
        )
        return cls(attestation.TrustLevels(attestation.AttestationClient(server), options.attestation_auth_timeout))

    def prepare(self, request: RequestSpec, nodes: Callable[[], Sequence[str]]) -> None:
        if request.flavor.extra_specs.get(_EXTRA_SPEC):
            self._levels.refresh(nodes())

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        wanted = request.flavor.extra_specs.get(_EXTRA_SPEC)
        return hosts.only(hosts.rows_of_nodes(self._levels.hosts(wanted))) if wanted else None
