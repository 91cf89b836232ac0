# SPDX-License-Identifier: Apache-2.0
"""Supervises filters and weighers: those that raise, return a wrong value or are slow are named and contained.

Called by the modules of :mod:`scheduler.engine` wherever they call a plugin.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import TypeVar

from oslo_log import log as logging

from fleet import errors
from scheduler.engine.supervision import failures, plugin_thread
from scheduler.engine.supervision.failures import Hangs, WrongAnswer, is_our_class, is_our_module

LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")

FAIL = "fail"
SKIP = "skip"
#: One plugin is complained of this often at most, for slowness and for each kind and place of an error.
QUIET_S = 60.0
#: Errors that are remembered; the one that was logged longest ago is dropped first.
MOST_COMPLAINTS = 256
_SLOW = "slow"


@dataclasses.dataclass
class _Complaints:
    """The time of the last log line about one problem, and the number suppressed since."""

    last_s: float = -math.inf
    kept_back: int = 0


class PluginWatch:
    """Calls plugins, limits their time, and decides what a failed plugin does to its request. One for each driver.

    Plugins of users are asked in threads of their own. One that does not answer in time is out of use, for all
    requests, until it does.

    :param policy: ``fail`` refuses the request, ``skip`` decides it without the plugin
    :param slow_ms: a plugin that takes longer over all hosts is named; 0 for never
    :param limit_s: how long a user's plugin is waited for; 0 for ever
    """

    def __init__(
        self,
        policy: str = FAIL,
        slow_ms: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        limit_s: float = 0.0,
    ) -> None:
        self.skips = policy == SKIP
        self.slow_ms = slow_ms or math.inf
        self.clock = clock
        self.limit_s = limit_s
        self._askers = plugin_thread.Askers()
        #: By plugin and what it did, in the order in which it was last logged. ``_lock`` guards it.
        self._complaints: dict[tuple[str, Hashable], _Complaints] = {}
        self._lock = threading.Lock()
        #: Classes of plugins that hang: since when. A domain may make a plugin anew for each request.
        self._hanging: dict[type, float] = {}

    @property
    def outcome(self) -> str:
        return "the request is decided without it" if self.skips else "the request is refused"

    def begin(self) -> Supervision:
        """Return the supervision of one request."""
        return Supervision(self)

    def answer(self, kind: str, plugin: object, question: Callable[..., Answer], *about: object) -> Answer:
        """Return ``question(*about)``. :raises Hangs: no answer within the time limit"""
        if not self.limit_s or _ours(plugin, question):
            return question(*about)
        since = self._hanging.get(type(plugin))
        if since is not None:
            raise Hangs(f"has not answered for {self.clock() - since:.0f} s")
        asked = self._askers.ask(functools.partial(question, *about))
        slow_s = min(self.slow_ms / 1000, self.limit_s)
        if not asked.wait(slow_s):
            self._complain_of_waiting(kind, plugin, asked)
            if not asked.wait(self.limit_s - slow_s):
                self._give_up(kind, plugin, asked)
        answer: Answer = asked.answer()
        return answer

    def may_complain(self, plugin: str, about: Hashable) -> tuple[bool, int]:
        """Return whether to log now, and how many log lines were suppressed since the last."""
        with self._lock:
            complaints = self._complaints.get((plugin, about)) or _Complaints()
            if self.clock() - complaints.last_s < QUIET_S:
                complaints.kept_back += 1
                return False, 0
            self._complaints.pop((plugin, about), None)
            self._complaints[plugin, about] = _Complaints(self.clock())
            if len(self._complaints) > MOST_COMPLAINTS:
                del self._complaints[next(iter(self._complaints))]
            return True, complaints.kept_back

    def _complain_of_waiting(self, kind: str, plugin: object, asked: plugin_thread.Question) -> None:
        name = type(plugin).__name__
        now, kept_back = self.may_complain(name, _SLOW)
        if now and self.slow_ms < self.limit_s * 1000:
            said = "%s %s has not answered for %.0f ms, all requests wait for it: %s%s"
            LOG.warning(said, kind, name, self.slow_ms, asked.whereabouts(), more(kept_back))

    def _give_up(self, kind: str, plugin: object, asked: plugin_thread.Question) -> None:
        """:raises Hangs: unless it has answered at the last moment"""
        name, since = type(plugin).__name__, self.clock()

        def returned() -> None:
            self._hanging.pop(type(plugin), None)
            LOG.info("%s %s has returned %.0f s late: it is in use again", kind, name, self.clock() - since)

        self._hanging[type(plugin)] = since
        if not asked.give_up(returned):
            del self._hanging[type(plugin)]
            return
        LOG.error(
            "%s %s has not answered for scheduler_plugin_timeout (%g s): %s. It is out of use until it answers, or the "
            "service is restarted; until then: %s",
            kind,
            name,
            self.limit_s,
            asked.whereabouts(),
            self.outcome,
        )
        raise Hangs(f"did not answer within {self.limit_s:g} s")


def _ours(plugin: object, question: Callable[..., object]) -> bool:
    """Return True if no code of a user runs: a built-in plugin, or a hook that the user's class does not override."""
    if is_ours(plugin):
        return True
    function = getattr(question, "__func__", None)
    return function is not None and question.__self__ is plugin and is_our_module(function.__module__)  # type: ignore[attr-defined]


def is_ours(plugin: object) -> bool:
    """Return True for a plugin that comes with the scheduler."""
    return is_our_class(type(plugin))  # type: ignore[arg-type]  # a class is hashable


class Supervision:
    """Calls the plugins of one request. ``remarks`` are sentences about plugins that misbehaved."""

    def __init__(self, watch: PluginWatch) -> None:
        self._watch = watch
        self._skipped: set[int] = set()
        self._remarks: dict[str, str] = {}
        #: How long the plugins of each class have taken for this request, in seconds.
        self.took_s: dict[type, float] = {}

    @property
    def remarks(self) -> list[str]:
        return list(self._remarks.values())

    def ask(self, kind: str, plugin: object, question: Callable[..., Answer], *about: object) -> Answer | None:
        """Return the plugin's answer to ``question(*about)``; None if the plugin is left out of this request.

        :param kind: ``Filter`` or ``Weigher``
        :raises errors.FleetError: the plugin's own refusal of the request, or PluginFailed
        """
        if self._skipped and id(plugin) in self._skipped:
            return None
        watch = self._watch
        started = watch.clock()
        try:
            ours = is_our_class(type(plugin))  # type: ignore[arg-type]  # a class is hashable
            answer = question(*about) if ours else watch.answer(kind, plugin, question, *about)
        except errors.FleetError:
            raise
        except Exception as failure:
            self._failed(kind, plugin, failure)
            return None
        took_s = watch.clock() - started
        self.took_s[type(plugin)] = self.took_s.get(type(plugin), 0.0) + took_s
        if took_s * 1000 > watch.slow_ms:
            self._slow(kind, plugin, took_s * 1000)
        return answer

    def explained(self, plugin: object, question: Callable[..., Answer], *about: object) -> Answer | None:
        """Return a filter's answer about its refusal, or None. A failure here must not hide the refusal."""
        if id(plugin) in self._skipped:
            return None
        try:
            return self._watch.answer("Filter", plugin, question, *about)
        except Exception as failure:
            problem = failures.problem(failure, plugin)
            LOG.warning("Filter %s could not explain its no: it %s", type(plugin).__name__, problem)
            return None

    def _failed(self, kind: str, plugin: object, failure: Exception) -> None:
        """:raises errors.PluginFailed: unless the policy is to skip"""
        name = type(plugin).__name__
        problem = failures.problem(failure, plugin)
        if not isinstance(failure, Hangs):  # which is logged already
            self._complain(kind, name, problem, failure)
        if not self._watch.skips:
            raise errors.PluginFailed(kind=kind, plugin=name, problem=problem) from None
        self._skipped.add(id(plugin))
        self._remarks[f"failed {name}"] = f"{kind} {name} was skipped: it {problem}."

    def _complain(self, kind: str, name: str, problem: str, failure: Exception) -> None:
        now, kept_back = self._watch.may_complain(name, failures.key(failure))
        if now:
            # A wrong answer has no traceback worth showing: it was raised here.
            trace = None if isinstance(failure, WrongAnswer) else failure
            LOG.error("%s %s %s: %s%s", kind, name, problem, self._watch.outcome, more(kept_back), exc_info=trace)

    def _slow(self, kind: str, plugin: object, took_ms: float) -> None:
        name = type(plugin).__name__
        self._remarks[f"slow {name}"] = f"{kind} {name} is slow: it took {took_ms:.0f} ms."
        now, kept_back = self._watch.may_complain(name, _SLOW)
        if now:
            LOG.warning(
                "%s %s took %.0f ms, more than scheduler_slow_filter_threshold (%.0f ms)%s",
                kind,
                name,
                took_ms,
                self._watch.slow_ms,
                more(kept_back),
            )


def more(kept_back: int) -> str:
    return f" ({kept_back} more times since it was last said)" if kept_back else ""
