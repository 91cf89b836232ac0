# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers that raise, answer with what they must not, or are slow: named, and kept from harming others."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

from oslo_log import log as logging

from fleet import errors

LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")

FAIL = "fail"
SKIP = "skip"
#: One plugin is complained of this often at most, per kind of complaint.
QUIET_S = 60.0
_LONGEST_PROBLEM = 200


class WrongAnswer(TypeError):
    """What a filter or weigher gave back is not what it must give; the message says it."""


@dataclasses.dataclass
class _Complaints:
    """When a complaint was last made, and how many have been kept back since."""

    last_s: float = -math.inf
    kept_back: int = 0


class PluginWatch:
    """What a misbehaving plugin costs its request, and how often it is complained of; one for a whole driver.

    :param policy: ``fail`` refuses the request, ``skip`` decides it without the plugin
    :param slow_ms: a plugin that takes longer over all hosts is named; 0 for never
    """

    def __init__(self, policy: str = FAIL, slow_ms: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy
        self._slow_ms = slow_ms or math.inf
        self._clock = clock
        self._complaints: dict[tuple[str, str], _Complaints] = {}

    def begin(self) -> Supervision:
        """For one request."""
        return Supervision(self._policy == SKIP, self._slow_ms, self._clock, self._may_complain)

    def _may_complain(self, plugin: str, about: str) -> tuple[bool, int]:
        """Whether it is time to, and how many complaints were kept back since the last."""
        complaints = self._complaints.setdefault((plugin, about), _Complaints())
        if self._clock() - complaints.last_s < QUIET_S:
            complaints.kept_back += 1
            return False, 0
        kept_back, complaints.kept_back, complaints.last_s = complaints.kept_back, 0, self._clock()
        return True, kept_back


class Supervision:
    """Asks the plugins of one request. ``remarks`` are sentences about those that misbehaved."""

    def __init__(
        self,
        skips: bool,
        slow_ms: float,
        clock: Callable[[], float],
        may_complain: Callable[[str, str], tuple[bool, int]],
    ) -> None:
        self._skips = skips
        self._slow_ms = slow_ms
        self._clock = clock
        self._may_complain = may_complain
        self._skipped: set[int] = set()
        self._remarks: dict[str, str] = {}

    @property
    def remarks(self) -> list[str]:
        return list(self._remarks.values())

    def ask(self, kind: str, plugin: object, question: Callable[..., Answer], *about: Any) -> Answer | None:
        """The plugin's answer to ``question(*about)``; None if it is left out of this request.

        :param kind: ``Filter`` or ``Weigher``
        :raises errors.FleetError: the plugin's own refusal of the request, or PluginFailed
        """
        if id(plugin) in self._skipped:
            return None
        started = self._clock()
        try:
            answer = question(*about)
        except errors.FleetError:
            raise
        except Exception as failure:
            self._failed(kind, plugin, failure)
            return None
        took_ms = (self._clock() - started) * 1000
        if took_ms > self._slow_ms:
            self._slow(kind, plugin, took_ms)
        return answer

    def explained(self, plugin: object, question: Callable[..., Answer], *about: Any) -> Answer | None:
        """A filter's answer to a question about its no: one that fails must not hide the refusal it was to explain."""
        if id(plugin) in self._skipped:
            return None
        try:
            return question(*about)
        except Exception as failure:
            LOG.warning("Filter %s could not explain its no: it %s", type(plugin).__name__, _problem(failure))
            return None

    def _failed(self, kind: str, plugin: object, failure: Exception) -> None:
        """:raises errors.PluginFailed: unless the policy is to skip"""
        name = type(plugin).__name__
        problem = _problem(failure)
        outcome = "the request is decided without it" if self._skips else "the request is refused"
        now, kept_back = self._may_complain(name, "failed")
        if now:
            # A wrong answer has no traceback worth showing: it was raised here.
            trace = None if isinstance(failure, WrongAnswer) else failure
            LOG.error("%s %s %s: %s%s", kind, name, problem, outcome, _more(kept_back), exc_info=trace)
        if not self._skips:
            raise errors.PluginFailed(kind=kind, plugin=name, problem=problem) from None
        self._skipped.add(id(plugin))
        self._remarks[f"failed {name}"] = f"{kind} {name} was skipped: it {problem}."

    def _slow(self, kind: str, plugin: object, took_ms: float) -> None:
        name = type(plugin).__name__
        self._remarks[f"slow {name}"] = f"{kind} {name} is slow: it took {took_ms:.0f} ms."
        now, kept_back = self._may_complain(name, "slow")
        if now:
            LOG.warning(
                "%s %s took %.0f ms, more than scheduler_slow_filter_threshold (%.0f ms)%s",
                kind,
                name,
                took_ms,
                self._slow_ms,
                _more(kept_back),
            )


def _problem(failure: Exception) -> str:
    """What it did, in a few words on one line."""
    said = " ".join(str(failure).split())[:_LONGEST_PROBLEM]
    if isinstance(failure, WrongAnswer):
        return said
    return f"raised {type(failure).__name__}: {said}" if said else f"raised {type(failure).__name__}"


def _more(kept_back: int) -> str:
    return f" ({kept_back} more times since it was last said)" if kept_back else ""
