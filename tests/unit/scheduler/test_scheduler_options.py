# SPDX-License-Identifier: Apache-2.0
"""The operator's JSON file is read when it changes; an invalid one is logged once."""

from __future__ import annotations

import os

import pytest

from scheduler.loading.scheduler_options import SchedulerOptions


def test_no_file_is_configured():
    """Nothing is looked at."""
    assert {} == SchedulerOptions("").get()


def test_it_is_read_again_when_it_changes(tmp_path):
    """Filters see the new content without a restart."""
    path = tmp_path / "options.json"
    path.write_text('{"a": 1}')
    options = SchedulerOptions(str(path))
    assert [{"a": 1}, {"a": 1}] == [options.get(), options.get()]
    path.write_text('{"b": 2}')
    os.utime(path, ns=(1, 10**18))
    assert {"b": 2} == options.get()


BAD = [
    ("no JSON", "{", "cannot be read"),
    ("no object", "[1]", "are no JSON object"),
    ("not there", None, "cannot be read"),
]


@pytest.mark.parametrize(("name", "content", "complaint"), BAD)
def test_a_bad_file_counts_as_empty(tmp_path, caplog, name, content, complaint):
    """One ERROR until the file changes; a good one is taken up then."""
    path = tmp_path / "options.json"
    if content is not None:
        path.write_text(content)
    options = SchedulerOptions(str(path))
    assert [{}, {}] == [options.get(), options.get()], name
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert complaint in line
    path.write_text('{"good": true}')
    assert {"good": True} == options.get()
