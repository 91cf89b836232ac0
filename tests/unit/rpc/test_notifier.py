# SPDX-License-Identifier: Apache-2.0
"""Where notifications go."""

from __future__ import annotations

import threading
import time

import pytest
from oslo_config import cfg
from oslo_context import context as oslo_context

from fleet.context import RequestContext, new_context
from fleet.rpc import notifier
from fleet.rpc.notifier import BackgroundNotifier, Outbox, get_notifier
from fleet.rpc.rabbit import broker_refusals
from fleet.telemetry import metrics, rate_limited_log


@pytest.mark.parametrize(
    ("drivers", "told"),
    [([], False), (["noop"], False), (["log"], True), (["noop", "log"], True)],
    ids=["no driver", "one that drops them", "the log", "two of which one tells"],
)
def test_a_notifier_that_reaches_nobody_is_silence(drivers: list[str], told: bool) -> None:
    """By default nothing is prepared that nobody would see."""
    conf = cfg.ConfigOpts()
    get_notifier(conf, "me")  # declares the options
    conf([], default_config_files=[])
    conf.set_override("driver", drivers, group="oslo_messaging_notifications")

    made = get_notifier(conf, "me")

    assert told == isinstance(made, BackgroundNotifier)
    if not told:
        made.prepare(publisher_id="you").info({}, "event", {})


def test_the_content_of_a_notification_that_is_not_sent_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only its event and where it should have gone: metadata of an instance may be a secret."""
    monkeypatch.setattr(broker_refusals, "_library_said", rate_limited_log.RateLimit())
    conf = cfg.ConfigOpts()
    get_notifier(conf, "me")  # declares the options
    conf([], default_config_files=[])
    conf.set_override("driver", ["messagingv2"], group="oslo_messaging_notifications")
    conf.set_override("retry", 0, group="oslo_messaging_notifications")
    conf.set_override("transport_url", "rabbit://guest:guest@127.0.0.1:1/", group="oslo_messaging_notifications")
    made = get_notifier(conf, "me")
    assert isinstance(made, BackgroundNotifier)

    for _time in range(2):
        made.info(new_context(), "compute.instance.create.start", {"metadata": {"admin_pass": "hunter2"}})

    assert made.outbox.wait(30)
    made.notifier.transport.cleanup()
    (line,) = [each for each in caplog.messages if "was not sent" in each]
    assert "compute.instance.create.start" in line
    assert "sent to notifications: " in line
    assert "hunter2" not in caplog.text
    assert "Traceback" not in caplog.text


class HeldNotifier:
    """Sends nothing until the test lets it, as oslo.messaging's does while its broker is away."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.sent: list[tuple[str, str, str]] = []

    def info(self, context: RequestContext, event_type: str, payload: object) -> None:
        assert self.let_go.wait(60)
        if payload == "nonsense":
            raise ValueError("this cannot be sent")
        current = oslo_context.get_current()
        assert current is context
        self.sent.append(("info", event_type, current.request_id))

    error = info


def test_nobody_waits_for_the_broker_of_the_notifications(caplog: pytest.LogCaptureFixture) -> None:
    """What is too much is dropped and counted. The rest is sent in its order, under the id of its request, when the broker
    is back.
    """
    held = HeldNotifier()
    told = BackgroundNotifier(held, Outbox(most=3))  # type: ignore[arg-type]
    before, contexts = metrics.NOTIFICATIONS_DROPPED._value.get(), [new_context() for _number in range(6)]
    told.info(contexts[0], "e0", {})
    while told.outbox._waiting:  # its thread has taken the first one, and waits for the broker
        time.sleep(0.01)
    for number in range(1, 6):
        told.info(contexts[number], f"e{number}", "nonsense" if number == 2 else {})
    assert before + 2 == metrics.NOTIFICATIONS_DROPPED._value.get()
    assert ["Notification e4 is dropped: 3 wait for their broker (0 more since the last such line)"] == caplog.messages
    assert not told.outbox.wait(0.01)

    held.let_go.set()

    assert told.outbox.wait(30)
    assert [("info", f"e{number}", contexts[number].request_id) for number in (0, 1, 3)] == held.sent
    assert "Notification e2 was not sent" in caplog.messages


def test_a_process_that_stops_waits_for_them_for_a_while() -> None:
    """Not without end: their broker may stay away."""
    held = HeldNotifier()
    told = BackgroundNotifier(held, Outbox())  # type: ignore[arg-type]
    told.info(new_context(), "last", {})
    notifier.wait_until_sent(0.01)
    assert [] == held.sent
    later = threading.Timer(0.2, held.let_go.set)
    later.start()
    notifier.wait_until_sent(60)
    assert 1 == len(held.sent)
    later.join()
