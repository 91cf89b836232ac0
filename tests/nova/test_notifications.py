# SPDX-License-Identifier: Apache-2.0
"""The payloads of notifications are nova's own, for recorded requests and random ones."""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
from typing import Any

import pytest

from fleet.objects import structure
from scheduler.nova import notification_payload
from tests.nova.cloud import VENV
from tests.nova.test_queries import random_spec
from tests.unit.scheduler.nova import recordings

_PROGRAM = pathlib.Path(__file__).with_name("novas_payloads.py")
_CASES = 100


def test_payloads_are_those_of_nova() -> None:
    if not (VENV / "bin/nova-conductor").exists():
        pytest.skip(f"nova is not installed in {VENV}: make nova")
    chance = random.Random(35)
    sent = [recordings.message(name)["args"] for name in recordings.REQUESTS]
    specs = [each["spec_obj"] for each in sent if "spec_obj" in each] + [random_spec(chance) for _case in range(_CASES)]
    done = subprocess.run(
        [str(VENV / "bin/python"), "-W", "ignore", str(_PROGRAM)],
        input=json.dumps(specs),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert not done.returncode, done.stderr[-3000:]
    for spec, (versioned, older) in zip(specs, json.loads(done.stdout), strict=True):
        plain: Any = structure.plain(spec, "spec_obj")
        assert _without_changes(versioned) == _without_changes(notification_payload.request_spec(plain))
        assert _without_changes(older) == _without_changes(notification_payload.older(spec))


def _without_changes(data: Any) -> Any:
    """Leave out the lists of an object's changed fields, which have no order."""
    if isinstance(data, dict):
        return {name: _without_changes(value) for name, value in data.items() if name != "nova_object.changes"}
    return [_without_changes(each) for each in data] if isinstance(data, list) else data
