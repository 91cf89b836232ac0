# SPDX-License-Identifier: Apache-2.0
"""The HTTPS client of an attestation service, and a cache of the trust levels that it attests.

:mod:`scheduler.compute.filters.trusted` asks it.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import threading
from collections.abc import Iterable, Mapping

import requests
import urllib3
from oslo_log import log as logging

from fleet.clock import Clock, naive_utc, utcnow
from fleet.json_codec import JSONMapping

LOG = logging.getLogger(__name__)
UNKNOWN = "unknown"
_SUCCESS = (200, 201, 202, 204)
_NEVER = datetime.datetime(1970, 1, 1)
_LOCALE_FORMAT = "%c"


@dataclasses.dataclass(frozen=True)
class Server:
    """Address and credentials of the service. Without ``ca_file``, the system's store verifies certificates."""

    address: str | None = None
    port: str = "8443"
    api_url: str = "/OpenAttestationWebServices/V1.0"
    ca_file: str | None = None
    auth_blob: str | None = None
    insecure_ssl: bool = False
    timeout_s: float = 10

    @property
    def url(self) -> str:
        address = f"[{self.address}]" if self.address and ":" in self.address else self.address
        return f"https://{address}:{self.port}{self.api_url}/PollHosts"

    @property
    def verify(self) -> bool | str:
        return False if self.insecure_ssl else self.ca_file or True


class AttestationClient:
    """Calls the attestation service. Each error is logged, and counts as no answer."""

    def __init__(self, server: Server) -> None:
        self._server = server
        if server.insecure_ssl:
            # The start has logged that certificates are not verified; the library would warn at each poll.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def poll(self, hosts: Iterable[str]) -> list[JSONMapping]:
        """Return ``host_name``, ``trust_lvl`` and ``vtime`` of each host of the service; an empty list if it fails."""
        names = list(hosts)
        try:
            answer = self._post({"count": len(names), "hosts": names})
            if answer.status_code not in _SUCCESS:
                raise ValueError(f"status {answer.status_code}")
            return [dict(each) for each in answer.json()["hosts"]]
        except (requests.RequestException, ValueError, KeyError, TypeError) as lost:
            LOG.warning("No answer from the attestation service at %s: %s", self._server.url, lost)
            return []

    def _post(self, body: Mapping[str, object]) -> requests.Response:
        server = self._server
        headers = {"content-type": "application/json", "Accept": "application/json"}
        if server.auth_blob:
            headers["x-auth-blob"] = server.auth_blob
        return requests.post(
            server.url,
            data=json.dumps(body),
            headers=headers,
            verify=server.verify,
            timeout=server.timeout_s,
            allow_redirects=False,  # the secret header has no business elsewhere
        )


class TrustLevels:
    """Answers of the service, kept for ``timeout_s`` seconds after they were made (their ``vtime``).

    The lock holds for a poll, so that requests that come meanwhile wait for it, and do not poll again.
    """

    def __init__(self, client: AttestationClient, timeout_s: float = 60, clock: Clock = utcnow) -> None:
        self._client = client
        self._timeout = datetime.timedelta(seconds=timeout_s)
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[str, datetime.datetime]] = {}

    def refresh(self, hosts: Iterable[str]) -> None:
        """Read the trust of all hosts again if the answer about any of ``hosts`` is too old."""
        with self._lock:
            names = list(hosts)
            oldest = self._clock() - self._timeout
            if all(self._levels.get(name, (UNKNOWN, _NEVER))[1] >= oldest for name in names):
                return
            levels = dict.fromkeys([*self._levels, *names], (UNKNOWN, _NEVER))
            for answer in self._client.poll(levels):
                name = answer.get("host_name")
                if isinstance(name, str) and name in levels:
                    levels[name] = self._level(answer)
            self._levels = levels

    def level(self, host: str) -> str:
        return self._levels.get(host, (UNKNOWN, _NEVER))[0]

    def hosts(self, level: str) -> list[str]:
        """Names of all hosts that are attested this level."""
        return [host for host, (known, _time) in self._levels.items() if known == level]

    def _level(self, answer: Mapping[str, object]) -> tuple[str, datetime.datetime]:
        """An answer counts from its own time, but never from one that is still to come."""
        now = self._clock()
        try:
            return str(answer.get("trust_lvl", UNKNOWN)), min(_parse_time(str(answer.get("vtime"))), now)
        except ValueError:
            return UNKNOWN, now


def _parse_time(text: str) -> datetime.datetime:
    """Naive UTC from ISO 8601, or from the locale's own form. :raises ValueError:"""
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        time = datetime.datetime.strptime(text, _LOCALE_FORMAT)
    return naive_utc(time)
