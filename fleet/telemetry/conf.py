# SPDX-License-Identifier: Apache-2.0
"""Options of health and metrics. :mod:`fleet.conf` registers them."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "health"
OPTS = [
    cfg.PortOpt(
        "port",
        default=0,
        help="First port for /healthz and for the metrics of Prometheus (/metrics). 0 opens none. Each worker process "
        "takes the next port. Each service begins at a port of its own, so that daemons on one machine can share a "
        "file: with port 9100 and service_offset 20, conductors begin at 9100, schedulers at 9120, agents at 9140, "
        "volume agents at 9160 and fleet-api at 9180. Several agents on one machine need separate files.",
    ),
    cfg.IntOpt(
        "service_offset",
        default=20,
        min=0,
        max=1000,
        help="Distance between the first ports of conductor, scheduler and agent. It must be at least the number of "
        "workers. With 0 all of them begin at port, and each daemon on a machine needs a separate file.",
    ),
    cfg.HostAddressOpt(
        "bind_host",
        default="127.0.0.1",
        help="Address on which the port is opened. The pages have no password: use the loopback or a management network.",
    ),
    cfg.IntOpt(
        "round_trip_interval",
        default=10,
        min=1,
        help="Seconds between two round trips. A round trip is a message through the broker to this process's own queue "
        "and back, and a query if the daemon has a database.",
    ),
    cfg.IntOpt(
        "round_trip_limit",
        default=30,
        min=1,
        help="Seconds after which a round trip counts as failed. The daemon is then not ready.",
    ),
    cfg.IntOpt(
        "stuck_limit",
        default=300,
        min=0,
        help="Seconds without a completed round trip after which a daemon counts as stuck. Only time counts in which the "
        "broker can be reached: an outage does not. It then logs CRITICAL and exits with status 70, and systemd or its "
        "launcher starts it again. 0 never exits.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, GROUP)


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]
