# SPDX-License-Identifier: Apache-2.0
"""An error of a plugin is logged with its place in the plugin, however many other errors the plugin has."""

from __future__ import annotations

import json
import logging

import pytest

from fleet import errors
from scheduler.compute import filters
from scheduler.engine.supervision import supervision
from scheduler.engine.supervision.supervision import PluginWatch
from tests.unit.scheduler.test_supervision import Clock, SometimesBad, boom, decided


class ParsingFilter(filters.BaseHostFilter):
    """Raises in a library."""

    def host_passes(self, host_state, filter_properties):
        return json.loads("{")


def test_each_error_of_a_plugin_has_its_own_ration(caplog):
    """Another class of error, or another place, is logged at once; so the log has the traceback of both."""
    watch = PluginWatch("skip", clock=Clock())

    def elsewhere():
        raise KeyError("gpu")

    def otherwise(kind=KeyError):
        raise kind("gpu")

    acts = [boom, elsewhere, boom, otherwise, lambda: otherwise(ValueError), elsewhere, lambda: None, lambda: "no"]
    for act in acts:
        decided(SometimesBad(act), watch)
    lines = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert 5 == len(lines)
    assert [True, True, True, True, False] == [bool(record.exc_info) for record in lines]


def test_the_number_of_rations_is_bounded(caplog):
    """The oldest complaint is forgotten, and said again if it comes again; the latest is not."""
    watch = PluginWatch(clock=Clock())
    for number in range(supervision.MOST_COMPLAINTS + 1):
        assert (True, 0) == watch.may_complain("Mine", number)
    assert (False, 0) == watch.may_complain("Mine", supervision.MOST_COMPLAINTS)
    assert (False, 0) == watch.may_complain("Mine", 1)
    assert (True, 0) == watch.may_complain("Mine", 0)


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("limit_s", [0, 30])
def test_the_place_of_an_error(policy, limit_s):
    """It is the last one in the plugin's own file, without the directory, in whatever library the error was raised."""

    line = ParsingFilter.host_passes.__code__.co_firstlineno + 1
    plugin, watch = ParsingFilter(), PluginWatch(policy, limit_s=limit_s)
    if policy == "fail":
        with pytest.raises(errors.PluginFailed) as refused:
            decided(plugin, watch)
        said = refused.value.message
        for_projects = refused.value.for_projects().message
        assert "Filter ParsingFilter failed: an administrator sees where and why" == for_projects
    else:
        (said,) = decided(plugin, watch).remarks
    assert f"(char 1) at test_plugin_errors.py:{line}" in said
    assert "/" not in said


def test_an_error_before_the_plugins_code():
    """A call with wrong arguments is raised in the scheduler's code, which is no place in the plugin."""
    plugin = SometimesBad(boom)
    plugin.host_passes = len
    with pytest.raises(errors.PluginFailed) as refused:
        decided(plugin, PluginWatch())
    assert refused.value.message.endswith("takes exactly one argument (2 given)")
