# SPDX-License-Identifier: Apache-2.0
"""fleet-api: wires the HTTP door together. The console script of this name calls :func:`main`."""

from __future__ import annotations

import functools
import ipaddress
import sys
from collections.abc import Sequence

import oslo_messaging
from oslo_config import cfg

import fleet.conf
from fleet import errors, service
from fleet.checks import required
from fleet.context import new_context
from fleet.rpc import transport
from fleet.rpc.clients import BaseAPI
from fleet.rpc.trust import signing
from fleet.service import probes
from fleet_api import conf as api_conf
from fleet_api.access import identity
from fleet_api.application import application, streams_of
from fleet_api.requests.conductor import Conductor
from fleet_api.serving.http_server import HTTPServer

BINARY = "fleet-api"


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    register = [api_conf.register_opts]
    conf = fleet.conf.load_config(argv, BINARY, "Serves OpenStack's compute API and images over HTTP.", register)
    try:
        required.broker(conf)
        require_loopback(conf)
        identity.require_options(conf)
        signing.keys_of(conf)
    except errors.FleetError as refusal:
        print(f"{BINARY}: {refusal.message}", file=sys.stderr)
        return 1

    def build(number: int) -> service.Process:
        bus = transport.get_transport(conf)
        asked = BaseAPI(bus, conf, "conductor")
        through = {probes.BROKER: lambda: asked.ping(new_context(), BINARY)}
        return probes.process(conf, BINARY, number, through, lambda: servers(conf, bus))

    return service.launch(conf, BINARY, build, 1, functools.partial(fleet.conf.check_files, argv, register))


def servers(conf: cfg.ConfigOpts, bus: oslo_messaging.RPCTransport) -> list[service.Runnable]:
    """Return the servers and tasks of a process of fleet-api. :raises errors.ConfigError: the address cannot be used"""
    require_loopback(conf)
    streams = streams_of(conf)
    return [HTTPServer(application(Conductor(bus, conf), conf, streams), conf, streams)]


def require_loopback(conf: cfg.ConfigOpts) -> None:
    """:raises errors.ConfigError: senders on other machines would be the administrator without a password"""
    host = conf.api.bind_host
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if conf.api.auth_strategy == "none" and not loopback:
        raise errors.ConfigError(
            option="[api] bind_host", reason=f"must be a loopback address with auth_strategy = none, not {host}"
        )


if __name__ == "__main__":
    sys.exit(main())
