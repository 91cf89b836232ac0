# SPDX-License-Identifier: Apache-2.0
"""Where notifications go."""

from __future__ import annotations

import oslo_messaging
import pytest
from oslo_config import cfg

from fleet.context import new_context
from fleet.rpc import transport
from fleet.rpc.rabbit import broker_refusals
from fleet.telemetry import rate_limited_log


@pytest.mark.parametrize(
    ("drivers", "told"),
    [([], False), (["noop"], False), (["log"], True), (["noop", "log"], True)],
    ids=["no driver", "one that drops them", "the log", "two of which one tells"],
)
def test_a_notifier_that_reaches_nobody_is_silence(drivers: list[str], told: bool) -> None:
    """By default nothing is prepared that nobody would see."""
    conf = cfg.ConfigOpts()
    transport.get_notifier(conf, "me")  # declares the options
    conf([], default_config_files=[])
    conf.set_override("driver", drivers, group="oslo_messaging_notifications")

    notifier = transport.get_notifier(conf, "me")

    assert told == isinstance(notifier, oslo_messaging.Notifier)
    if not told:
        notifier.prepare(publisher_id="you").info({}, "event", {})


def test_the_content_of_a_notification_that_is_not_sent_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only its event and where it should have gone: metadata of an instance may be a secret."""
    monkeypatch.setattr(broker_refusals, "_library_said", rate_limited_log.RateLimit())
    conf = cfg.ConfigOpts()
    transport.get_notifier(conf, "me")  # declares the options
    conf([], default_config_files=[])
    conf.set_override("driver", ["messagingv2"], group="oslo_messaging_notifications")
    conf.set_override("retry", 0, group="oslo_messaging_notifications")
    conf.set_override("transport_url", "rabbit://guest:guest@127.0.0.1:1/", group="oslo_messaging_notifications")
    notifier = transport.get_notifier(conf, "me")

    for _time in range(2):
        notifier.info(new_context(), "compute.instance.create.start", {"metadata": {"admin_pass": "hunter2"}})

    notifier.transport.cleanup()
    (line,) = [each for each in caplog.messages if "was not sent" in each]
    assert "compute.instance.create.start" in line
    assert "sent to notifications: " in line
    assert "hunter2" not in caplog.text
    assert "Traceback" not in caplog.text
