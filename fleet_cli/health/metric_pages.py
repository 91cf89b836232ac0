# SPDX-License-Identifier: Apache-2.0
"""The daemons' ``/metrics`` pages, and how their numbers have changed between two looks.

:mod:`fleet_cli.health.top` reads them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import requests
from prometheus_client import parser

#: For a page to be given; a daemon on the same machine needs a few milliseconds.
TIMEOUT_S = 3
#: A sample's name, and its labels in order.
Key = tuple[str, tuple[tuple[str, str], ...]]
Page = Mapping[Key, float]
#: URL -> the text of the page. :raises requests.RequestException:
Fetch = Callable[[str], str]


def fetch(url: str) -> str:
    """Read a page. :raises requests.RequestException: there is no such page"""
    answer = requests.get(url, timeout=TIMEOUT_S)
    answer.raise_for_status()
    return answer.text


def page_url(url: str) -> str:
    """Return the URL of a page; ``HOST:PORT`` is enough."""
    full = url if "://" in url else f"http://{url}"
    return full if full.rstrip("/").endswith("/metrics") else f"{full.rstrip('/')}/metrics"


@dataclasses.dataclass(frozen=True)
class Look:
    """All pages at one time, by URL, and the failures of others. ``at_s`` is monotonic."""

    at_s: float
    pages: Mapping[str, Page]
    missing: Mapping[str, str]


def look(urls: Sequence[str], clock: Callable[[], float], get: Fetch = fetch) -> Look:
    pages: dict[str, Page] = {}
    missing: dict[str, str] = {}
    for url in urls:
        try:
            pages[url] = parse(get(url))
        except (requests.RequestException, ValueError) as failure:
            missing[url] = _reason(failure)
    return Look(clock(), pages, missing)


def parse(text: str) -> dict[Key, float]:
    """Parse a page. :raises ValueError: it is not a page of metrics"""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


@dataclasses.dataclass(frozen=True)
class Change:
    """The difference between two looks. Counters are summed over all daemons."""

    before: Look
    after: Look

    @property
    def seconds(self) -> float:
        return max(self.after.at_s - self.before.at_s, 1e-6)

    def rate(self, name: str, **labels: str) -> float:
        """Return the rate per second of all samples with these labels."""
        return sum(amount for found, amount in self._grown(name) if labels.items() <= found.items()) / self.seconds

    def rates(self, name: str, label: str) -> dict[str, float]:
        """Return the rates per second by the value of ``label``, of samples that have grown."""
        found: dict[str, float] = {}
        for labels, amount in self._grown(name):
            if amount:
                found[labels.get(label, "")] = found.get(labels.get(label, ""), 0.0) + amount / self.seconds
        return found

    def mean(self, histogram: str) -> float | None:
        """Return the mean of the observations in between; None if there were none."""
        count = self.rate(f"{histogram}_count")
        return self.rate(f"{histogram}_sum") / count if count else None

    def largest(self, name: str, **labels: str) -> float | None:
        """Return the largest present value of a gauge that several daemons publish."""
        values = [
            value
            for page in self.after.pages.values()
            for (found, pairs), value in page.items()
            if found == name and labels.items() <= dict(pairs).items()
        ]
        return max(values, default=None)

    def _grown(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        for url, page in self.after.pages.items():
            if url not in self.before.pages:
                # Seen for the first time: what it has counted until now was not counted meanwhile.
                continue
            for key, value in page.items():
                if key[0] == name:
                    then = self.before.pages[url].get(key, 0.0)
                    # A daemon that was started again counts from nothing.
                    yield dict(key[1]), value - then if value >= then else value


def _reason(failure: Exception) -> str:
    if isinstance(failure, requests.ConnectionError):
        return "no answer"
    if isinstance(failure, requests.Timeout):
        return f"no answer within {TIMEOUT_S} s"
    return str(failure).splitlines()[0]
