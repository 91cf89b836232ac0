# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage nova check``: a look before fleet-scheduler takes the place of nova-scheduler.

Called by :mod:`fleet_cli.manage`.
"""

from __future__ import annotations

import argparse

from fleet import errors
from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.client import argument_types, offers
from fleet.rpc import nova_broker
from fleet_cli.health import finding_list

#: Entry point (conf, path of nova.conf or None, nova's Python or None, number of requests, servers) -> findings.
_CHECK = "fleet.nova.check"


class NovaCheck(finding_list.FindingLister):
    """Compare options with nova.conf, and the hosts for recent requests with those that placement offers.

    With --nova-python, compare them with the hosts that pass nova's own filters.

    Nothing is changed, claimed or consumed: nova-scheduler may run. Exit status: 0 all is well; 1 differences; 2 the
    scheduler could not serve this nova.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--nova-conf", metavar="FILE", help="Configuration file of nova-scheduler. Default: none.")
        parser.add_argument("--requests", type=argument_types.positive, default=20, metavar="N",
                            help="How many of the newest requests to compare. Default: %(default)s.")  # fmt: skip
        parser.add_argument("--server", action="append", default=[], metavar="UUID",
                            help="Compare the request of this server instead. May be repeated.")  # fmt: skip
        parser.add_argument("--nova-python", metavar="FILE",
                            help="Python of an installed nova. Its filters run, with --nova-conf.")  # fmt: skip
        return parser

    def find(self, parsed_args: argparse.Namespace) -> list[Finding]:
        if not nova_broker.is_active(self.app.conf):
            return [findings.bad("options", "[nova] transport_url is not set", "See docs/nova.md.")]
        if parsed_args.nova_python and not parsed_args.nova_conf:
            raise errors.InvalidInput(field="--nova-python", reason="needs --nova-conf")
        found: list[Finding] = offers.load(_CHECK)(
            self.app.conf, parsed_args.nova_conf, parsed_args.nova_python, parsed_args.requests, parsed_args.server
        )
        return found
