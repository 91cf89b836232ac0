# SPDX-License-Identifier: Apache-2.0
"""``fleet doctor``: checks all parts of the fleet.

Registered in :mod:`fleet_cli.command_list`. Each line has a result and advice.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

from oslo_config import cfg

from fleet import errors
from fleet.checks import findings, option_check, required
from fleet.checks.findings import Finding
from fleet.client import argument_types, offers
from fleet.db.connection import tls
from fleet.doctor import examination
from fleet.rpc import nova_broker
from fleet_cli.health import finding_list

#: Entry point (conf) -> findings.
_NOVA = "fleet.nova.doctor"


class Doctor(finding_list.FindingLister):
    """Check broker, database, daemons, clocks, queues and options, and print advice on what is wrong.

    Exit status: 0 all is well; 1 warnings; 2 at least one failure.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--hosts",
            type=argument_types.natural,
            default=20,
            metavar="N",
            help="How many agents to ask, chosen by chance, for their clock and the length of their queue. Default: 20.",
        )
        parser.add_argument(
            "--timeout", type=argument_types.positive, default=5, metavar="SECONDS", help="For each answer. Default: 5."
        )
        return parser

    def find(self, parsed_args: argparse.Namespace) -> list[Finding]:
        conf, conductor = self.app.conf, self.app.connection
        if not conductor.uses_broker:
            with conductor.impatient(parsed_args.timeout):
                return examination.daemons(conductor, _sample(parsed_args.hosts))
        files = option_check.config_files(conf)
        if not files and (nothing := _unconfigured(conf)):
            return [nothing]
        found = option_check.check(files)
        found += option_check.contradictions(conf, with_database=False)
        found += trust(conf)
        try:
            required.broker(conf)
        except errors.NotConfigured as missing:
            return [*found, findings.bad("options", missing.message, "Set it.")]
        broker = examination.broker(conductor)
        if findings.worst(broker) == findings.Level.FAIL:
            return found + broker
        with conductor.impatient(parsed_args.timeout):
            if nova_broker.is_active(conf):
                return found + broker + [examination.ping(conductor, "scheduler"), *offers.load(_NOVA)(conf)]
            return found + broker + examination.daemons(conductor, _sample(parsed_args.hosts))


def _unconfigured(conf: cfg.ConfigOpts) -> Finding | None:
    """Return the finding for a missing configuration; None if environment variables have it."""
    try:
        required.broker(conf)
    except errors.NotConfigured as missing:
        return findings.bad("configuration", missing.message, "Set it; or ask a fleet over HTTP with --url.")
    return None


def trust(conf: cfg.ConfigOpts) -> list[Finding]:
    """Check the certificate of the configured database, if there is one."""
    try:
        tls.require_trusted(conf.database.connection or "sqlite://")
    except errors.ConfigError as unusable:
        return [findings.bad("database", unusable.message, tls.advice(unusable))]
    return []


def _sample(most: int) -> examination.Sample:
    def chosen(hosts: Sequence[str]) -> list[str]:
        return sorted(random.sample(list(hosts), min(most, len(hosts))))

    return chosen
