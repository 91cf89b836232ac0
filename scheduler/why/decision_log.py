# SPDX-License-Identifier: Apache-2.0
"""One log line at INFO for each decision, and its metrics: the outcome, the filters' counts, and the code of a refusal.

Called by :mod:`scheduler.compute.manager`, :mod:`scheduler.volumes.manager` and :mod:`scheduler.nova.endpoint`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from oslo_log import log as logging

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Place, RequestSpec, Selection
from fleet.rpc import deferred
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)
_HOSTS_NAMED = 5


class Words(NamedTuple):
    """The words of log lines about one request.

    :param subject: the number and the kind of what the request places: ``2 instance(s), first UUID``
    :param place: ``host``, or the word for a pool
    """

    subject: str
    place: str = "host"

    @classmethod
    def of(cls, request: RequestSpec) -> Words:
        return cls(f"{request.num_instances} instance(s), first {request.instance.uuid or '-'}")

    def name(self, place: Selection | Place) -> str:
        return place.host if self.place == "host" else f"{place.host}#{place.nodename}"


def logged(words: Words, select: Callable[[], Sequence[Selection]]) -> Sequence[Selection]:
    """Return the answer of ``select``. Log and count the decision after the answer is sent."""
    started = time.monotonic()
    try:
        selections = select()
    except errors.NoValidHost as refusal:
        _tell(refused, words, refusal, started)
        raise
    except errors.FleetError as failure:
        _tell(failed, words, failure, started)
        raise
    _tell(placed, words, selections, started)
    return selections


def _tell(tell: Callable[..., None], words: Words, outcome: object, started: float) -> None:
    """Log and count after the answer is sent."""
    deferred.after_reply(functools.partial(tell, words, outcome, time.monotonic() - started))


def placed(words: Words, selections: Sequence[Selection], took_s: float) -> None:
    _count("placed", "", took_s, selections[0].decision)
    hosts = list(dict.fromkeys(map(words.name, selections)))
    more = f" and {len(hosts) - _HOSTS_NAMED} more" if len(hosts) > _HOSTS_NAMED else ""
    record = selections[0].decision
    LOG.info(
        "Placed %s, on %s%s in %.1f ms (%s)%s",
        words.subject,
        ", ".join(hosts[:_HOSTS_NAMED]),
        more,
        took_s * 1000,
        _counts(words, record),
        _remarks(record),
    )


def refused(words: Words, refusal: errors.NoValidHost, took_s: float) -> None:
    _count("refused", refusal.reason_code.value, took_s, refusal.details)
    LOG.info(
        "No valid %s for %s: %s: %s %d placed before, in %.1f ms (%s)",
        words.place,
        words.subject,
        refusal.reason_code.value,
        refusal.reason,
        refusal.details.get("placed", 0),
        took_s * 1000,
        _history(words, refusal.details),
    )


def failed(words: Words, failure: errors.FleetError, took_s: float) -> None:
    """No decision was made: the request, a plugin or the state of the hosts did not allow one."""
    _count("failed", failure.reason_code.value, took_s, {})
    LOG.info(
        "Could not decide on %s: %s: %s (%s) in %.1f ms",
        words.subject,
        failure.reason_code.value,
        failure.message,
        type(failure).__name__,
        took_s * 1000,
    )


def _count(result: str, reason: str, took_s: float, record: JSONMapping) -> None:
    metrics.DECISIONS.labels(result, reason).inc()
    metrics.DECISION_SECONDS.observe(took_s)
    for each in record.get("filters", ()):
        if each["start"] > each["end"]:
            metrics.FILTER_REJECTIONS.labels(each["name"]).inc(each["start"] - each["end"])


def _history(words: Words, record: JSONObject) -> str:
    """Format the number of hosts that each filter was given and let through."""
    counts = [f"{each['name']}: (start: {each['start']}, end: {each['end']})" for each in record.get("filters", ())]
    return ", ".join([f"{record.get('considered', 0)} {words.place}s", *counts, *_mix(record)])


def _counts(words: Words, record: JSONObject) -> str:
    parts = [f"{record.get('considered', 0)} {words.place}s"]
    parts += [f"{count['name']} {count['end']}" for count in record.get("filters", ())]
    return ", ".join(parts + _mix(record))


def _mix(record: JSONObject) -> list[str]:
    """Format the version of the flavor mix, with which the decision can be repeated."""
    mix = (record.get("state") or {}).get("mix")
    return [] if mix is None else [f"mix {mix}"]


def _remarks(record: JSONObject) -> str:
    """Format the remarks and the staleness of a decision."""
    state = record.get("state") or {}
    said = [f"STALE: by host states that are {state['age_s']:.0f} s old."] if state.get("stale") else []
    return "".join(f" {each}" for each in [*said, *record.get("remarks", ())])
