# SPDX-License-Identifier: Apache-2.0
"""Options of health and metrics."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "health"
OPTS = [
    cfg.PortOpt(
        "port",
        default=0,
        help="First port for /healthz (live, ready, detail) and Prometheus' /metrics; 0 for none. Worker processes take "
        "the ports that follow, one each. Each service begins at a port of its own, so that daemons on one machine can "
        "share a file: with port 9100 and service_offset 20, conductors begin at 9100, schedulers at 9120 and agents at "
        "9140. Several agents on one machine need files of their own.",
    ),
    cfg.IntOpt(
        "service_offset",
        default=20,
        min=0,
        max=1000,
        help="Distance between the first ports of conductor, scheduler and agent. It must not be smaller than the number of "
        "workers. 0: all begin at 'port', and each daemon on a machine needs a file with a port of its own.",
    ),
    cfg.HostAddressOpt(
        "bind_host",
        default="127.0.0.1",
        help="Address that the port is opened on. What is shown there is not protected: leave it on the loopback, or in "
        "a network of its own.",
    ),
    cfg.IntOpt(
        "round_trip_interval",
        default=10,
        min=1,
        help="Seconds between round trips: a message through the broker to this process's own queue and back, and a query "
        "of the database where the daemon has one.",
    ),
    cfg.IntOpt(
        "round_trip_limit",
        default=30,
        min=1,
        help="A round trip that takes longer than this many seconds has failed: the daemon is not ready then.",
    ),
    cfg.IntOpt(
        "stuck_limit",
        default=300,
        min=0,
        help="A daemon none of whose round trips has come to an end for this many seconds, although broker and database "
        "can be reached, is stuck: it says so and exits with status 70, for systemd or its own launcher to start it "
        "again. 0 never exits.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, GROUP)


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]
