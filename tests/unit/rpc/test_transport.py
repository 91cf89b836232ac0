# SPDX-License-Identifier: Apache-2.0
"""Which driver serves RabbitMQ, and this project's defaults of its options."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet.rpc import transport
from fleet.rpc.notifier import get_notifier
from fleet.rpc.rabbit import defaults
from fleet.rpc.rabbit.conf import LEAN, STOCK
from fleet.rpc.rabbit.lean.driver import LeanDriver

_GROUP = "oslo_messaging_rabbit"


@pytest.fixture
def conf() -> Iterator[cfg.ConfigOpts]:
    conf = cfg.ConfigOpts()
    fixture = conffixture.ConfFixture(conf, transport_url="rabbit://a:b@127.0.0.1:1/")
    fixture.setUp()
    conf([], project="fleet")
    yield conf
    fixture.cleanUp()


@pytest.mark.parametrize(("chosen", "lean"), [(None, True), (LEAN, True), (STOCK, False)])
def test_the_driver_is_chosen_by_an_option(conf: cfg.ConfigOpts, chosen: str | None, lean: bool) -> None:
    """For calls, for messages to hosts and for notifications."""
    rabbit = transport.get_transport(conf)
    if chosen is not None:
        conf.set_override("rabbit_driver", chosen)
        rabbit = transport.get_transport(conf)
    hosts = transport.get_host_transport(conf, rabbit)
    conf.set_override("driver", ["messagingv2"], group="oslo_messaging_notifications")
    notifier = get_notifier(conf, "me").notifier  # type: ignore[attr-defined]
    assert [lean] * 3 == [isinstance(each._driver, LeanDriver) for each in (rabbit, hosts, notifier.transport)]


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        pytest.param(None, defaults.ANSWER_PATIENCE_S, id="fleet's default"),
        pytest.param(7, 7, id="the operator's value"),
    ],
)
def test_an_answer_without_a_queue_holds_a_worker_for_a_second(
    conf: cfg.ConfigOpts, configured: int | None, expected: int
) -> None:
    """With the stock driver, which reads the option when it is made."""
    transport.get_transport(conf)  # declares the options
    conf.set_override("rabbit_driver", STOCK)
    if configured is not None:
        conf.set_override("kombu_missing_consumer_retry_timeout", configured, group=_GROUP)
    made = transport.get_transport(conf)
    try:
        assert expected == made._driver.missing_destination_retry_timeout
    finally:
        made.cleanup()


def test_the_sample_shows_the_defaults_that_hold() -> None:
    """But for the file of authorities, which each machine has elsewhere."""
    conf = cfg.ConfigOpts()
    defaults.register_opts(conf)
    conf([])
    (listed,) = [options for group, options in defaults.list_opts() if getattr(group, "name", group) == defaults.GROUP]
    differing = {each.dest for each in listed if conf[defaults.GROUP][each.dest] != each.default}
    assert differing <= {"ssl_ca_file"}
    assert {True} == {each.default for each in listed if each.dest == "amqp_durable_queues"}
