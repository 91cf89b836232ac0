# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage rabbitmq permissions``: the commands that give a service's user exactly the permissions it needs.

Called by :mod:`fleet_cli.manage`.
"""

from __future__ import annotations

import argparse
from typing import Any

import oslo_messaging
from cliff import command

from fleet.client import connection
from fleet.rpc.rabbit import permissions

SERVICES = {
    "conductor": permissions.conductor,
    "scheduler": permissions.scheduler,
    "client": permissions.client,
}
AGENTS = {"compute": permissions.compute, "volume": permissions.volume}


class Permissions(command.Command):
    """Print the rabbitmqctl commands for the user of a service; nothing is changed.

    Use one user for all conductors, one for all schedulers, one for people (client), and one for each agent.
    """

    app: Any

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("service", choices=[*SERVICES, *AGENTS])
        parser.add_argument("--user", help="Its name. Default: fleet-SERVICE, and fleet-SERVICE-HOST for an agent.")
        parser.add_argument(
            "--host",
            action="append",
            default=[],
            help="compute, volume: a host, or a storage backend MACHINE@BACKEND, that this agent serves (may be repeated). "
            "It can consume its orders, and those of no other host.",
        )
        parser.add_argument("--vhost", help="Default: that of transport_url.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        conf, service, hosts = self.app.conf, parsed_args.service, parsed_args.host
        if (service in AGENTS) != bool(hosts):
            raise connection.CommandFailed(f"--host is needed for {' and '.join(AGENTS)}, and for nothing else")
        # Loads the transport, which declares the option.
        oslo_messaging.get_rpc_transport(conf)
        exchange = conf.control_exchange
        role = AGENTS[service](exchange, hosts) if hosts else SERVICES[service](exchange)
        url = oslo_messaging.TransportURL.parse(conf)
        if parsed_args.vhost is None and url.transport != "rabbit":
            raise connection.CommandFailed(
                "transport_url is not that of a RabbitMQ: name the virtual host with --vhost"
            )
        vhost = parsed_args.vhost or url.virtual_host or "/"
        user = parsed_args.user or "-".join(["fleet", service, *hosts[:1]])
        print("\n".join(permissions.commands(role, user, vhost)), file=self.app.stdout)
