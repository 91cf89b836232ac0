# SPDX-License-Identifier: Apache-2.0
"""The pages for users are right: their code runs, and their tables are complete."""

from __future__ import annotations

import collections
import os
import pathlib
import re
import subprocess
import sys

import pytest

from fleet.reasons import Reason
from fleet_cli.planning import capacity, explain
from scheduler.compute.drivers import loading
from tests import factories
from tests.factories import node, request
from tests.unit.scheduler.plugins import configuration

DOCS = pathlib.Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "write-a-filter.md").read_text()


@pytest.fixture
def files(tmp_path: pathlib.Path) -> pathlib.Path:
    """The page's files, each put together from its blocks, and its configuration."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    for name, code in re.findall(r"```python\n# (\w+\.py).*?\n(.*?)```", PAGE, re.DOTALL):
        found[name].append(code)
    found["fleet.conf"] = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
    for name, parts in found.items():
        (tmp_path / name).write_text("\n".join(parts))
    return tmp_path


def test_the_test_to_copy_passes(files):
    """As a user runs it: the two files in a directory, and pytest."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(files), str(DOCS.parent)])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_house_rules.py"],
        cwd=files, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_the_configuration_of_the_page(files, monkeypatch):
    """Its filters and weighers are loaded beside the built-in ones, and choose."""
    monkeypatch.syspath_prepend(str(files))
    conf = configuration(files / "fleet.conf")
    chosen, weighers = loading.load_filters(conf), loading.load_weighers(conf)
    hosts = factories.candidates(node("host7"), node("host3"), node("reserved-1"), node("host1", memory_mb_used=15000))
    made = factories.decision(factories.pipeline(chosen, weighers, alternates=9), hosts, request({"memory_mb": 512}))
    (pick,) = made.picks
    # host1 has not the headroom, reserved-1 is kept; of the others the younger one wins.
    assert ["host3", "host7"] == [pick.key[0], *(place.host for place in pick.alternates)]


@pytest.mark.parametrize("code", list(Reason))
def test_every_code_is_explained(code):
    """The page explains each code that an operator may meet."""
    assert f"| `{code.value}` |" in (DOCS / "explain.md").read_text()


@pytest.mark.parametrize("field", [*explain.FIELDS, *capacity.FIELDS])
def test_every_field_is_explained(field):
    """The shape of the answers is on the page."""
    tables = [line for line in (DOCS / "explain.md").read_text().splitlines() if line.startswith("| `")]
    assert any(f"`{field}`" in line.split("|")[1] for line in tables)
