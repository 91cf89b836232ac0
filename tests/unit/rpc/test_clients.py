# SPDX-License-Identifier: Apache-2.0
"""How long the callers wait."""

from __future__ import annotations

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet import conf as fleet_conf
from fleet import context
from fleet.rpc import clients, transport

WAITS = [
    ("until the next beat is due", 10, 60, 10),
    ("no less than a living conductor needs under load", 1, 60, clients.HEARTBEAT_TIMEOUT_S),
    ("no longer than for any other answer", 10, 5, 5),
]


@pytest.mark.parametrize(
    ("why", "report_interval", "rpc_response_timeout", "expected"), WAITS, ids=[w[0] for w in WAITS]
)
def test_a_heartbeat_does_not_wait_for_long(
    why: str, report_interval: int, rpc_response_timeout: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conductor that died with the call is not waited for until the caller itself counts as down."""
    conf = cfg.ConfigOpts()
    fleet_conf.register_opts(conf)
    fixture = conffixture.ConfFixture(conf, transport_url="fake:/")
    fixture.setUp()
    conf([], project="fleet")
    conf.set_override("report_interval", report_interval)
    conf.set_override("rpc_response_timeout", rpc_response_timeout)
    bus = transport.get_transport(conf)
    waited: list[int] = []

    def silent(*_message: object, timeout: int, **_options: object) -> None:
        waited.append(timeout)
        raise oslo_messaging.MessagingTimeout

    monkeypatch.setattr(bus, "_send", silent)
    with pytest.raises(oslo_messaging.MessagingTimeout):
        clients.ConductorAPI(bus, conf).report_state(context.new_context(), "fleet-compute", ["h1"], "life-one")
    fixture.cleanUp()
    assert [expected] == waited
