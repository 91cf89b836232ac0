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
    ("boot", "boot:Boot"),
    ("explain", "explain:Explain"),
    ("capacity", "capacity:Capacity"),
    ("whatif", "whatif:WhatIf"),
    ("rebalance", "rebalance:Rebalance"),
    ("server list", "servers:ListServers"),
    ("server show", "servers:ShowServer"),
    ("server set", "details:SetServer"),
    ("server unset", "details:UnsetServer"),
    ("server console-log", "console:ConsoleLog"),
    ("server delete", "deletion:DeleteServers"),
    ("server stop", "power:StopServer"),
    ("server start", "power:StartServer"),
    ("server reboot", "power:RebootServer"),
    ("server suspend", "power:SuspendServer"),
    ("server resume", "power:ResumeServer"),
    ("trace", "timeline:Trace"),
    ("server volume list", "attachments:ListAttachments"),
    ("server volume attach", "attachments:AttachVolume"),
    ("server volume detach", "attachments:DetachVolume"),
    ("server resize", "moves:ResizeServer"),
    ("server resize confirm", "moves:ConfirmResize"),
    ("server resize revert", "moves:RevertResize"),
    ("server migrate", "moves:MigrateServer"),
    ("server migration abort", "moves:AbortMigration"),
    ("server evacuate", "moves:EvacuateServer"),
    ("queue list", "queue:ListQueue"),
    ("migration list", "moves:ListMigrations"),
    ("host list", "hosts:ListHosts"),
    ("host show", "hosts:ShowHost"),
    ("host drain", "drain:DrainHost"),
    ("host delete", "hosts:DeleteHost"),
    ("service list", "services:ListServices"),
    ("service show", "services:ShowService"),
    ("service enable", "services:EnableService"),
    ("service disable", "services:DisableService"),
    ("service force-down", "services:ForceDown"),
    ("service delete", "services:DeleteService"),
    ("flavor list", "flavors:ListFlavors"),
    ("flavor show", "flavors:ShowFlavor"),
    ("flavor create", "flavors:CreateFlavor"),
    ("flavor set", "flavors:SetFlavor"),
    ("flavor delete", "flavors:DeleteFlavor"),
    ("image list", "images:ListImages"),
    ("image show", "images:ShowImage"),
    ("image create", "images:CreateImage"),
    ("image delete", "images:DeleteImage"),
    ("keypair list", "key_pairs:ListKeyPairs"),
    ("keypair show", "key_pairs:ShowKeyPair"),
    ("keypair create", "key_pairs:CreateKeyPair"),
    ("keypair delete", "key_pairs:DeleteKeyPair"),
    ("aggregate list", "aggregates:ListAggregates"),
    ("aggregate show", "aggregates:ShowAggregate"),
    ("aggregate create", "aggregates:CreateAggregate"),
    ("aggregate add-host", "aggregates:AddHost"),
    ("aggregate remove-host", "aggregates:RemoveHost"),
    ("aggregate set", "aggregates:SetMetadata"),
    ("aggregate delete", "aggregates:DeleteAggregate"),
    ("group list", "groups:ListGroups"),
    ("group show", "groups:ShowGroup"),
    ("group create", "groups:CreateGroup"),
    ("group set", "groups:SetGroup"),
    ("group delete", "groups:DeleteGroup"),
    ("quota list", "quotas:ListQuotas"),
    ("quota show", "quotas:ShowQuota"),
    ("quota set", "quotas:SetQuota"),
    ("quota delete", "quotas:DeleteQuota"),
    ("volume create", "volumes:CreateVolume"),
    ("volume list", "volumes:ListVolumes"),
    ("volume show", "volumes:ShowVolume"),
    ("volume set", "details:SetVolume"),
    ("volume unset", "details:UnsetVolume"),
    ("volume extend", "volumes:ExtendVolume"),
    ("volume migrate", "volumes:MigrateVolume"),
    ("volume retype", "volumes:RetypeVolume"),
    ("volume delete", "volumes:DeleteVolumes"),
    ("volume manage", "existing_volumes:ManageVolume"),
    ("volume unmanage", "existing_volumes:UnmanageVolume"),
    ("volume snapshot list", "snapshots:ListSnapshots"),
    ("volume snapshot show", "snapshots:ShowSnapshot"),
    ("volume snapshot create", "snapshots:CreateSnapshot"),
    ("volume snapshot delete", "snapshots:DeleteSnapshots"),
    ("volume type list", "volume_types:ListVolumeTypes"),
    ("volume type create", "volume_types:CreateVolumeType"),
    ("volume type set", "volume_types:SetVolumeType"),
    ("volume type delete", "volume_types:DeleteVolumeType"),
    ("volume pool list", "pools:ListPools"),
    ("volume pool show", "pools:ShowPool"),
    ("volume pool manageable", "existing_volumes:ListManageable"),
    ("doctor", "doctor:Doctor"),
    ("top", "top:Top"),
    ("replay", "replay:Replay"),
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
