# SPDX-License-Identifier: Apache-2.0
"""Where notifications go."""

from __future__ import annotations

import oslo_messaging
import pytest
from oslo_config import cfg

from fleet.rpc import transport


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
