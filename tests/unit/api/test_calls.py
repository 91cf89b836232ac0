# SPDX-License-Identifier: Apache-2.0
"""``/fleet/v1/calls``: arguments of the wrong kind are named, whichever call it is."""

from __future__ import annotations

from typing import Any

import pytest
from falcon import testing
from oslo_messaging import get_rpc_transport

from fleet import errors
from fleet.context import new_context
from fleet_api import conf as api_conf
from fleet_api.application import application
from fleet_api.requests.calls import Calls
from fleet_api.requests.conductor import Conductor
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


def test_a_broker_that_is_away(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes at once, and says that nothing was requested."""
    monkeypatch.setattr(calls._bus._driver, "refusal", "10.0.0.1:5672 (refused)", raising=False)
    answer, code = calls.answer(new_context(), "compute_task", "create", {"request": {}})
    assert (503, True) == (code, "so nothing was requested. (10.0.0.1:5672 (refused))" in answer["message"])


def test_a_request_while_the_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As over nova's API: 503 at once."""
    conf = configuration(api_conf.register_opts)
    conf.set_override("host_names", ["falconframework.org"], group="api")
    conductor = Conductor(get_rpc_transport(conf, "fake://"), conf)
    monkeypatch.setattr(conductor._bus._driver, "refusal", "10.0.0.1:5672 (refused)", raising=False)
    answer = testing.TestClient(application(conductor, conf)).simulate_get("/v2.1/servers")
    assert 503 == answer.status_code
    assert "The message broker cannot be reached" in answer.json["serviceUnavailable"]["message"]
