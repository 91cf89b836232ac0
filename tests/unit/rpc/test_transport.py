# SPDX-License-Identifier: Apache-2.0
"""Defaults of oslo.messaging's that fleet sets reach the driver."""

from __future__ import annotations

import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet.rpc import transport
from fleet.rpc.rabbit import driver


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        pytest.param(None, driver.ANSWER_PATIENCE_S, id="fleet's default"),
        pytest.param(7, 7, id="the operator's value"),
    ],
)
def test_an_answer_without_a_queue_holds_a_worker_for_a_second(configured: int | None, expected: int) -> None:
    """Also where oslo.messaging sends it: its driver reads the option when it is made."""
    conf = cfg.ConfigOpts()
    fixture = conffixture.ConfFixture(conf, transport_url="rabbit://a:b@127.0.0.1:1/")
    fixture.setUp()
    conf([], project="fleet")
    if configured is not None:
        conf.set_override("kombu_missing_consumer_retry_timeout", configured, group="oslo_messaging_rabbit")
    made = transport.get_transport(conf)
    try:
        assert expected == made._driver.missing_destination_retry_timeout
    finally:
        made.cleanup()
        fixture.cleanUp()
