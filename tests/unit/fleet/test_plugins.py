# SPDX-License-Identifier: Apache-2.0
"""A plugin that cannot be imported stops the daemon with one line: the reason and the place."""

from __future__ import annotations

import pathlib
import sys

import pytest

from compute_agent import drivers
from fleet import errors
from scheduler.compute import conf as scheduler_conf
from scheduler.compute.drivers import loading
from tests.configuration import configuration

BROKEN = [
    ("a mistake of syntax", "x = (\n", "SyntaxError: '(' was never closed ({file}, line 1)"),
    ("a name that is not there", "\nfoo\n", "NameError: name 'foo' is not defined ({file}, line 2)"),
    ("an end", "import sys\nsys.exit('enough')\n", "SystemExit: enough ({file}, line 2)"),
    ("several lines", "raise ValueError('one\\ntwo')\n", "ValueError: one two ({file}, line 1)"),
    ("no such class", "", "module 'brokenplugin' has no attribute 'Mine'"),
    ("a module that is not there", "import nosuchmodule\n", "No module named 'nosuchmodule'"),
]


@pytest.mark.parametrize(("what", "text", "told"), BROKEN, ids=[case[0] for case in BROKEN])
@pytest.mark.parametrize("option", ["compute_driver", "scheduler_available_filters"])
def test_a_plugin_that_cannot_be_imported(
    what: str, text: str, told: str, option: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it raises."""
    file = tmp_path / "brokenplugin.py"
    file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "brokenplugin", raising=False)
    conf = configuration(scheduler_conf.register_opts)
    conf.set_override("scheduler_available_filters", ["brokenplugin.Mine"])
    load = {
        "compute_driver": lambda: drivers.driver_class("brokenplugin.Mine"),
        "scheduler_available_filters": lambda: loading.load_filters(conf),
    }
    with pytest.raises(errors.ClassNotFound) as refused:
        load[option]()
    message = refused.value.message
    assert 1 == len(message.splitlines())
    assert "brokenplugin.Mine" in message
    assert "Traceback" not in message
    assert told.format(file=file) in message
