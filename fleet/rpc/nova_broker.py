# SPDX-License-Identifier: Apache-2.0
"""The broker of an OpenStack nova, for a scheduler that serves nova and for the commands that ask this scheduler.

Called by :mod:`scheduler.main`, :mod:`scheduler.nova.service` and the commands. oslo.messaging reads some options from
the global configuration only. So the common options are set there as nova has them, in place of a second
configuration.
"""

from __future__ import annotations

import oslo_messaging
from oslo_config import cfg

GROUP = "nova"
OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "transport_url",
        secret=True,
        help="Message broker of nova, as transport_url in nova.conf. If it is set, fleet-scheduler serves nova's conductor "
        "in the place of nova-scheduler, and needs neither a fleet database nor other fleet services. Queues have nova's "
        "names: no other fleet service may use this virtual host. [oslo_messaging_rabbit] must be as in nova.conf.",
    ),
    cfg.StrOpt("exchange", default="nova", help="control_exchange of nova.conf."),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTIONS, group=GROUP)


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    return [(GROUP, OPTIONS)]


def is_active(conf: cfg.ConfigOpts) -> bool:
    """Return True if the configuration is that of a nova."""
    return GROUP in conf and bool(conf.nova.transport_url)


def use_its_queues(conf: cfg.ConfigOpts) -> None:
    """Set nova's default for queues and exchanges that survive the broker. The options of RabbitMQ are registered."""
    conf.set_default("amqp_durable_queues", False, group="oslo_messaging_rabbit")


def use(conf: cfg.ConfigOpts) -> None:
    """Let all connections of this process go to nova's broker, if the configuration is that of a nova."""
    if not is_active(conf):
        return
    oslo_messaging.TransportURL.parse(conf)  # registers the options
    conf.set_override("transport_url", conf.nova.transport_url)
    conf.set_override("control_exchange", conf.nova.exchange)
    # Queues of the lean driver are durable. nova-scheduler could not declare them again after a switch back.
    conf.set_override("rabbit_driver", "stock")
