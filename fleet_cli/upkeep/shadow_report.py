# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage shadow report``: how the choices of a shadow compare with those that count.

Called by :mod:`fleet_cli.manage`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from typing import Any

from fleet import errors
from fleet_cli.base import listing

_SUMS = ("outcome", "flavor", "reason", "servers", "share")
_NEWEST = ("at", "server", "outcome", "flavor", "here", "there", "reason")


class ShadowReport(listing.Fitted):
    """Print how the choices of a shadow compare with those that count, by flavor and reason.

    The shadow is [shadow] config_file, or fleet-scheduler --shadow beside nova-scheduler. same: the same host. fits:
    another host has more weight in the shadow. dropped: a filter of the shadow drops the host. The others found no host on
    one side, or on both.
    """

    app: Any

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--file", metavar="FILE", help="Default: [shadow] report_file.")
        parser.add_argument("--differences", action="store_true", help="List the newest servers that differ instead.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        path = pathlib.Path(parsed_args.file or self.app.conf.shadow.report_file)
        try:
            found = json.loads(path.read_text())
            return self._newest(found) if parsed_args.differences else self._sums(found)
        except FileNotFoundError:
            problem = "does not exist; a shadow writes it when it has compared a server"
        except OSError as failure:
            problem = f"cannot be read: {failure.strerror}"
        except (ValueError, KeyError, TypeError):
            problem = "is not the report of a shadow"
        raise errors.InvalidInput(field="--file", reason=f"is {path}, which {problem}"[:255])

    def _sums(self, found: Any) -> tuple[object, object]:
        total = sum(each["count"] for each in found["sums"]) or 1
        ordered = sorted(found["sums"], key=lambda each: (-each["count"], each["kind"], each["flavor"], each["reason"]))
        rows = [
            (each["kind"], each["flavor"], each["reason"], each["count"], f"{100 * each['count'] / total:.1f} %")
            for each in ordered
        ]
        return _SUMS, rows

    def _newest(self, found: Any) -> tuple[object, object]:
        def at(each: Any) -> str:
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(each["at"]))

        names = ("server", "kind", "flavor", "here", "there", "reason")
        return _NEWEST, [(at(each), *(each[name] for name in names)) for each in reversed(found["newest"])]
