# SPDX-License-Identifier: Apache-2.0
"""Plugins that misbehave are named, and harm only their own request."""

from __future__ import annotations

import logging
import sys
import threading

import numpy
import pytest
from oslo_context import context as oslo_context

from fleet import context, errors
from fleet.reasons import Reason
from scheduler.compute import filters, weights
from scheduler.engine.supervision import plugin_thread
from scheduler.engine.supervision.supervision import PluginWatch
from tests import factories
from tests.factories import node, request

NODES = (node("a", memory_mb=4096), node("b", memory_mb=8192))


class SometimesBad(filters.BaseHostFilter):
    """Does ``act`` for requests with the hint ``bad``."""

    def __init__(self, act):
        self.act = act

    def host_passes(self, host_state, filter_properties):
        return self.act() if (filter_properties.get("scheduler_hints") or {}).get("bad") else True


class BadWeigher(weights.BaseHostWeigher):
    def __init__(self, weight):
        self.weight = weight

    def _weigh_object(self, host_state, weight_properties):
        return self.weight()


class BadMask(filters.ColumnFilter):
    def __init__(self, answer):
        self.answer = answer

    def mask(self, hosts, request):
        return self.answer


class WritingMask(filters.ColumnFilter):
    """Reckons in the column itself."""

    def mask(self, hosts, request):
        free = hosts.column("free_ram_mb")
        free -= 4096
        return free >= 0


class BadRaw(weights.ColumnWeigher):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def raw(self, hosts, request):
        return self.answer


class BadList(filters.BaseHostFilter):
    def __init__(self, answer):
        self.answer = answer

    def filter_all(self, filter_obj_list, filter_properties):
        return self.answer


def boom():
    raise KeyError("gpu")


MISCONDUCT = [
    ("a filter raises", SometimesBad(boom), "Filter SometimesBad", "raised KeyError: 'gpu'"),
    ("a filter forgets to return", SometimesBad(lambda: None), "Filter SometimesBad", "answered None for host a"),
    ("a filter answers with a text", SometimesBad(lambda: "no"), "Filter SometimesBad", "answered 'no' for host a"),
    ("a filter answers NaN", SometimesBad(lambda: float("nan")), "Filter SometimesBad", "answered nan for host a"),
    ("a mask of the wrong length", BadMask(numpy.array([True])), "Filter BadMask", "an array of bool with shape (1,)"),
    ("a mask of numbers", BadMask(numpy.array([1.0, 1.0])), "Filter BadMask", "an array of float64"),
    ("a mask that is a list", BadMask([True, True]), "Filter BadMask", "answered [True, True]"),
    ("a filter writes to a column", WritingMask(), "Filter WritingMask", "array is read-only"),
    ("filter_all gives a number", BadList(7), "Filter BadList", "raised TypeError"),
    ("filter_all gives strangers", BadList(["x"]), "Filter BadList", "gave back a host that it was not given"),
    ("a weigher raises", BadWeigher(boom), "Weigher BadWeigher", "raised KeyError: 'gpu'"),
    ("a weight that is NaN", BadWeigher(lambda: float("nan")), "Weigher BadWeigher", "gave nan as the raw weight"),
    ("a weight without end", BadWeigher(lambda: float("inf")), "Weigher BadWeigher", "gave inf as the raw weight"),
    ("a weight that is a text", BadWeigher(lambda: "5"), "Weigher BadWeigher", "gave '5' as the raw weight of host a"),
    ("no weight", BadWeigher(lambda: None), "Weigher BadWeigher", "gave None as the raw weight of host a"),
    ("NaN in a column", BadRaw(numpy.array([1.0, numpy.nan])), "Weigher BadRaw", "that is not a number"),
    ("a multiplier that is NaN", weights.RAMWeigher(float("nan")), "Weigher RAMWeigher", "gave nan as the multiplier"),
    ("a column too short", BadRaw(numpy.array([1.0])), "Weigher BadRaw", "an array of 2 numbers is wanted"),
]  # fmt: skip


def decided(plugin, watch, asked=None):
    chosen, weighers = [filters.RamFilter()], [weights.RAMWeigher()]
    (chosen if isinstance(plugin, filters.BaseHostFilter) else weighers).append(plugin)
    pipeline = factories.pipeline(chosen, weighers, watch=watch)
    return factories.decision(pipeline, factories.candidates(*NODES), asked or request(scheduler_hints={"bad": True}))


@pytest.mark.parametrize(("name", "plugin", "who", "what"), MISCONDUCT)
def test_policy_fail(name, plugin, who, what, caplog):
    """The request is refused with a typed error that names the plugin and its failure; the log has the same."""
    with pytest.raises(errors.PluginFailed) as refused:
        decided(plugin, PluginWatch("fail"))
    assert Reason.MISCONFIGURED is refused.value.reason_code
    assert refused.value.message.startswith(f"{who} failed: ")
    assert what in refused.value.message, name
    assert any(who in said and what in said for said in (record.getMessage() for record in caplog.records))


def test_a_plugin_that_writes_to_a_column():
    """The hosts of later requests stay as they are."""
    hosts = factories.candidates(*NODES)
    before = hosts.column("free_ram_mb").tolist()
    factories.decision(factories.pipeline([WritingMask()], watch=PluginWatch("skip")), hosts, request())
    assert before == hosts.column("free_ram_mb").tolist()


@pytest.mark.parametrize(("name", "plugin", "who", "what"), MISCONDUCT)
def test_policy_skip(name, plugin, who, what):
    """The request is decided as if the plugin were not there, and the answer says so."""
    made = decided(plugin, PluginWatch("skip"))
    assert ["b"] == [pick.key[0] for pick in made.picks]
    (remark,) = made.to_wire()["remarks"]
    assert remark.startswith(f"{who} was skipped: it ")
    assert what in remark, name


def test_it_is_skipped_for_the_whole_request_only():
    """A plugin that failed is skipped for all instances of the request, and called again for the next request."""
    asked = []

    def count():
        asked.append(1)
        raise ValueError

    plugin, watch = SometimesBad(count), PluginWatch("skip")
    for _ in range(2):
        made = decided(plugin, watch, request(count=3, scheduler_hints={"bad": True}))
        assert made.complete
    assert 2 == len(asked)
    assert () == tuple(decided(plugin, watch, request()).remarks)


def test_a_refusal_names_what_was_skipped():
    """The reason of a refusal names the filters that were skipped."""
    made = decided(
        SometimesBad(boom), PluginWatch("skip"), request({"memory_mb": 8192}, count=2, scheduler_hints={"bad": 1})
    )
    assert "Filter SometimesBad was skipped: it raised KeyError: 'gpu' at test_supervision.py:" in made.reason


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_plugins_own_refusal_is_an_answer(policy, caplog):
    """An error of fleet that a plugin raises is about the request, and is not a failure of the plugin."""

    def refuse():
        raise errors.InvalidInput(field="filter_properties.scheduler_hints.bad", reason="is bad")

    with pytest.raises(errors.InvalidInput):
        decided(SometimesBad(refuse), PluginWatch(policy))
    assert [] == caplog.records


class Clock:
    """Each look at it costs ``step`` seconds."""

    def __init__(self, step=0.0):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def test_slow_plugins_are_named(caplog):
    """A plugin that takes longer than the threshold is warned of and remarked upon."""
    made = decided(SometimesBad(lambda: True), PluginWatch(slow_ms=100, clock=Clock(step=0.25)))
    assert "Filter SometimesBad is slow: it took 250 ms." in made.remarks
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "Filter SometimesBad took 250 ms, more than scheduler_slow_filter_threshold (100 ms)" in warned


def test_quick_plugins_are_not():
    """Without a threshold, or below it, nothing is logged."""
    assert [] == decided(SometimesBad(lambda: True), PluginWatch(slow_ms=0, clock=Clock(step=9))).remarks
    assert [] == decided(SometimesBad(lambda: True), PluginWatch(slow_ms=300, clock=Clock(step=0.25))).remarks


def test_complaints_are_rationed(caplog):
    """One line a minute is logged, with the number of suppressed lines."""
    clock = Clock()
    watch = PluginWatch("skip", clock=clock)
    plugin = SometimesBad(boom)
    for now in (0.0, 1.0, 2.0, 61.0):
        clock.now = now
        decided(plugin, watch)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert 2 == len(lines)
    assert lines[1].endswith("(2 more times since it was last said)")


class Stuck:
    """Returns only when the test releases it; from then on at once."""

    def __init__(self, answer):
        self.answer = answer
        self.released = threading.Event()

    def __call__(self):
        self.released.wait()
        return self.answer


@pytest.fixture
def patience(monkeypatch):
    """The limit passes when the plugin hangs, and not before: a slow machine changes nothing."""
    wait = plugin_thread.Question.wait

    def wait_until_it_hangs(question, seconds):
        while not wait(question, 0.001):
            if question.whereabouts().endswith(" in wait"):
                return False
        return True

    monkeypatch.setattr(plugin_thread.Question, "wait", wait_until_it_hangs)


class BadIndex(filters.BaseHostFilter):
    def run_filter_for_index(self, index):
        raise KeyError(index)

    def host_passes(self, host_state, filter_properties):
        return True


class StuckMask(filters.ColumnFilter):
    def __init__(self, act):
        self.act = act

    def mask(self, hosts, request):
        return self.act()


class StuckWords(filters.BaseHostFilter):
    """Decides at once, and hangs when it explains."""

    def __init__(self, act):
        self.act = act

    def host_passes(self, host_state, filter_properties):
        return False

    def objection(self, hosts, request):
        return self.act()


HANGING = [
    ("a filter", lambda act: SometimesBad(act), "Filter SometimesBad", True),
    ("a filter over columns", lambda act: StuckMask(act), "Filter StuckMask", numpy.array([True, True])),
    ("a weigher", lambda act: BadWeigher(act), "Weigher BadWeigher", 1.0),
]
LIMIT = 0.05


@pytest.mark.parametrize(("name", "make", "who", "answer"), HANGING)
def test_one_that_hangs_is_given_up(name, make, who, answer, caplog, patience):
    """Its request ends within the limit, and so do later ones at once, until it has answered; the log says where it is."""
    caplog.set_level(logging.INFO)
    stuck = Stuck(answer)
    plugin, watch = make(stuck), PluginWatch("fail", limit_s=LIMIT, clock=Clock())
    with pytest.raises(errors.PluginFailed) as first:
        decided(plugin, watch)
    assert f"{who} failed: did not answer within 0.05 s" in first.value.message
    with pytest.raises(errors.PluginFailed) as later:
        decided(plugin, watch)
    assert f"{who} failed: has not answered for 0 s" in later.value.message
    (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert said.startswith(f"{who} has not answered for scheduler_plugin_timeout (0.05 s): threading.py:")
    stuck.released.set()
    until(lambda: any(f"{who} has returned" in record.getMessage() for record in caplog.records))
    assert decided(plugin, watch).complete


@pytest.mark.parametrize(("name", "make", "who", "answer"), HANGING)
def test_one_that_hangs_is_skipped(name, make, who, answer, patience):
    """The answer of a plugin that has timed out is ignored when it arrives."""
    stuck = Stuck(answer)
    made = decided(make(stuck), PluginWatch("skip", limit_s=LIMIT), request(count=2, scheduler_hints={"bad": True}))
    stuck.released.set()
    assert ["b", "b"] == [pick.key[0] for pick in made.picks]
    assert [f"{who} was skipped: it did not answer within 0.05 s."] == list(made.remarks)


def test_it_is_named_while_it_hangs(caplog, patience):
    """Before it is given up, a WARNING says that requests wait for it."""
    stuck = Stuck(True)
    with pytest.raises(errors.PluginFailed):
        decided(SometimesBad(stuck), PluginWatch(slow_ms=10, limit_s=LIMIT, clock=Clock()))
    stuck.released.set()
    (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said.startswith("Filter SometimesBad has not answered for 10 ms, all requests wait for it: threading.py:")


def test_words_that_never_come(caplog, patience):
    """A refusal does not wait for its explanation for longer than the limit."""
    stuck = Stuck("is full")
    made = decided(StuckWords(stuck), PluginWatch(limit_s=LIMIT))
    stuck.released.set()
    assert "a: StuckWords says no" == made.refusal.nearest[0].text
    assert any("has not answered for scheduler_plugin_timeout" in record.getMessage() for record in caplog.records)


def test_what_comes_with_the_scheduler_is_not_timed():
    """Built-in plugins, and hooks that a user's plugin does not override, run in the request's own thread."""
    watch, here = PluginWatch(limit_s=30), threading.get_ident()
    mine = SometimesBad(lambda: True)
    assert here == watch.answer("Filter", filters.RamFilter(), threading.get_ident)
    assert here != watch.answer("Filter", mine, threading.get_ident)
    assert None is watch.answer("Filter", mine, mine.prepare, request(), list)


def test_its_log_lines_are_the_requests():
    """A plugin's thread has the request's context, and raises what the plugin raises."""
    asked = context.new_context()
    watch = PluginWatch(limit_s=30)
    seen = watch.answer("Filter", SometimesBad(None), lambda: oslo_context.get_current())
    assert asked.request_id == seen.request_id
    with pytest.raises(KeyError):
        watch.answer("Filter", SometimesBad(None), boom)
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        watch.answer("Filter", SometimesBad(None), sys.exit, 3)


def test_a_filter_that_cannot_say_when_it_runs():
    """That is misconduct like any other."""
    with pytest.raises(errors.PluginFailed, match="Filter BadIndex failed: raised KeyError: 0"):
        decided(BadIndex(), PluginWatch())


def until(condition):
    """Give other threads the time they need."""
    for _ in range(10_000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never came true")
