# SPDX-License-Identifier: Apache-2.0
"""``/fleet/v1/calls``: arguments of the wrong kind are named, whichever call it is."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_messaging import get_rpc_transport

from fleet import errors
from fleet.api.calls import Calls
from fleet.context import new_context
from tests.configuration import configuration


@pytest.fixture
def calls() -> Calls:
    conf = configuration()
    return Calls(get_rpc_transport(conf, "fake://"), conf)


@pytest.mark.parametrize("request_", [[], "x", 5, None, [{}]])
def test_a_request_that_is_no_object(calls: Calls, request_: Any) -> None:
    """Nothing is sent."""
    answer, code = calls.answer(new_context(), "compute_task", "create", {"request": request_})
    assert (400, "InvalidInput") == (code, answer["error"])
    assert "arguments.request" in answer["message"]


@pytest.mark.parametrize("wrong", [{"nonsense": 1}, {"request_spec": 1, "filter_properties": []}, {}])
def test_arguments_that_a_call_does_not_take(calls: Calls, wrong: dict[str, Any]) -> None:
    """They are named."""
    for topic in ("scheduler", "volume_scheduler"):
        answer, code = calls.answer(new_context(), topic, "explain", wrong)
        assert (400, errors.InvalidInput.__name__) == (code, answer["error"])
