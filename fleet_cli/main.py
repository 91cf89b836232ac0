# SPDX-License-Identifier: Apache-2.0
"""The program ``fleet``: boots and shows instances, and operates the fleet."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
from collections.abc import Sequence

from cliff import app, commandmanager
from oslo_config import cfg

from fleet.client import connection
from fleet.client.calls import Calls
from fleet_cli.base import application, completion, plain_output

#: A command is imported when it runs: all of them take three times as long.
COMMANDS = (
    ("boot", "servers.boot:Boot"),
    ("explain", "planning.explain:Explain"),
    ("capacity", "planning.capacity:Capacity"),
    ("whatif", "planning.whatif:WhatIf"),
    ("rebalance", "planning.rebalance:Rebalance"),
    ("server list", "servers.servers:ListServers"),
    ("server show", "servers.servers:ShowServer"),
    ("server set", "volumes.details:SetServer"),
    ("server unset", "volumes.details:UnsetServer"),
    ("server console-log", "base.console:ConsoleLog"),
    ("server delete", "base.deletion:DeleteServers"),
    ("server stop", "servers.power:StopServer"),
    ("server start", "servers.power:StartServer"),
    ("server reboot", "servers.power:RebootServer"),
    ("server suspend", "servers.power:SuspendServer"),
    ("server resume", "servers.power:ResumeServer"),
    ("trace", "servers.timeline:Trace"),
    ("server volume list", "servers.attachments:ListAttachments"),
    ("server volume attach", "servers.attachments:AttachVolume"),
    ("server volume detach", "servers.attachments:DetachVolume"),
    ("server resize", "servers.moves:ResizeServer"),
    ("server resize confirm", "servers.moves:ConfirmResize"),
    ("server resize revert", "servers.moves:RevertResize"),
    ("server migrate", "servers.moves:MigrateServer"),
    ("server migration abort", "servers.moves:AbortMigration"),
    ("server evacuate", "servers.moves:EvacuateServer"),
    ("queue list", "servers.queue:ListQueue"),
    ("migration list", "servers.moves:ListMigrations"),
    ("host list", "hosts.hosts:ListHosts"),
    ("host show", "hosts.hosts:ShowHost"),
    ("host drain", "hosts.drain:DrainHost"),
    ("host delete", "hosts.hosts:DeleteHost"),
    ("service list", "hosts.services:ListServices"),
    ("service show", "hosts.services:ShowService"),
    ("service enable", "hosts.services:EnableService"),
    ("service disable", "hosts.services:DisableService"),
    ("service force-down", "hosts.services:ForceDown"),
    ("service delete", "hosts.services:DeleteService"),
    ("flavor list", "catalog.flavors:ListFlavors"),
    ("flavor show", "catalog.flavors:ShowFlavor"),
    ("flavor create", "catalog.flavors:CreateFlavor"),
    ("flavor set", "catalog.flavors:SetFlavor"),
    ("flavor delete", "catalog.flavors:DeleteFlavor"),
    ("image list", "catalog.images:ListImages"),
    ("image show", "catalog.images:ShowImage"),
    ("image create", "catalog.images:CreateImage"),
    ("image delete", "catalog.images:DeleteImage"),
    ("keypair list", "catalog.key_pairs:ListKeyPairs"),
    ("keypair show", "catalog.key_pairs:ShowKeyPair"),
    ("keypair create", "catalog.key_pairs:CreateKeyPair"),
    ("keypair delete", "catalog.key_pairs:DeleteKeyPair"),
    ("aggregate list", "hosts.aggregates:ListAggregates"),
    ("aggregate show", "hosts.aggregates:ShowAggregate"),
    ("aggregate create", "hosts.aggregates:CreateAggregate"),
    ("aggregate add-host", "hosts.aggregates:AddHost"),
    ("aggregate remove-host", "hosts.aggregates:RemoveHost"),
    ("aggregate set", "hosts.aggregates:SetMetadata"),
    ("aggregate delete", "hosts.aggregates:DeleteAggregate"),
    ("group list", "catalog.groups:ListGroups"),
    ("group show", "catalog.groups:ShowGroup"),
    ("group create", "catalog.groups:CreateGroup"),
    ("group set", "catalog.groups:SetGroup"),
    ("group delete", "catalog.groups:DeleteGroup"),
    ("quota list", "catalog.quotas:ListQuotas"),
    ("quota show", "catalog.quotas:ShowQuota"),
    ("quota set", "catalog.quotas:SetQuota"),
    ("quota delete", "catalog.quotas:DeleteQuota"),
    ("volume create", "volumes.volumes:CreateVolume"),
    ("volume list", "volumes.volumes:ListVolumes"),
    ("volume show", "volumes.volumes:ShowVolume"),
    ("volume set", "volumes.details:SetVolume"),
    ("volume unset", "volumes.details:UnsetVolume"),
    ("volume extend", "volumes.volumes:ExtendVolume"),
    ("volume migrate", "volumes.volumes:MigrateVolume"),
    ("volume retype", "volumes.volumes:RetypeVolume"),
    ("volume delete", "volumes.volumes:DeleteVolumes"),
    ("volume manage", "volumes.existing_volumes:ManageVolume"),
    ("volume unmanage", "volumes.existing_volumes:UnmanageVolume"),
    ("volume snapshot list", "volumes.snapshots:ListSnapshots"),
    ("volume snapshot show", "volumes.snapshots:ShowSnapshot"),
    ("volume snapshot create", "volumes.snapshots:CreateSnapshot"),
    ("volume snapshot delete", "volumes.snapshots:DeleteSnapshots"),
    ("volume type list", "volumes.volume_types:ListVolumeTypes"),
    ("volume type create", "volumes.volume_types:CreateVolumeType"),
    ("volume type set", "volumes.volume_types:SetVolumeType"),
    ("volume type delete", "volumes.volume_types:DeleteVolumeType"),
    ("volume pool list", "volumes.pools:ListPools"),
    ("volume pool show", "volumes.pools:ShowPool"),
    ("volume pool manageable", "volumes.existing_volumes:ListManageable"),
    ("event list", "upkeep.events:ListEvents"),
    ("doctor", "health.doctor:Doctor"),
    ("top", "health.top:Top"),
    ("replay", "planning.replay:Replay"),
)


def entry_points() -> list[importlib.metadata.EntryPoint]:
    """Return the commands as cliff loads them."""
    return [importlib.metadata.EntryPoint(name, f"fleet_cli.{place}", "fleet_cli") for name, place in COMMANDS]


class FleetApp(app.App):
    """Reads the configuration, registers the commands, and turns a failure into one line and exit status 1."""

    NAME = "fleet"
    LOG = logging.getLogger("fleet")

    def __init__(self, conf: cfg.ConfigOpts = cfg.CONF) -> None:
        manager = commandmanager.CommandManager()
        manager.commands.update({each.name: each for each in entry_points()})
        super().__init__(
            "Boot instances and run the fleet.", importlib.metadata.version("fleet"), manager, deferred_help=True
        )
        # Replaces cliff's own command, which completes no names.
        manager.add_command("complete", completion.Complete)
        self.conf = conf
        self.connection: Calls = connection.Connection(conf)

    def build_option_parser(self, description, version, argparse_kwargs=None):
        parser = application.add_config_file(super().build_option_parser(description, version, argparse_kwargs))
        parser.add_argument(
            "--url",
            action="append",
            default=[],
            help="Ask fleet-api at this URL, such as https://fleet.example:8774, instead of the message broker. "
            "FLEET_USERNAME and FLEET_PASSWORD, or ~/.netrc, have the name and the password of a user; FLEET_TOKEN has a "
            "token of keystone. "
            "Default: the environment variable FLEET_URL.",
        )
        return parser

    def configure_logging(self) -> None:
        super().configure_logging()
        application.quieten(self.options.verbose_level)

    def initialize_app(self, argv: list[str]) -> None:
        application.load(self.options.config_file, self.NAME, self.conf)
        url = self.options.url[-1] if self.options.url else os.environ.get("FLEET_URL")
        if url:
            # Imported when needed: it takes 0.1 s.
            from fleet.client.http_connection import HttpConnection

            known = (os.environ.get(f"FLEET_{name}") for name in ("USERNAME", "PASSWORD", "TOKEN"))
            self.connection = HttpConnection(url, *known)

    def clean_up(self, cmd, result, err) -> None:
        self.connection.close()


def main(argv: Sequence[str] | None = None) -> int:
    with plain_output.installed():
        return FleetApp().run(list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
