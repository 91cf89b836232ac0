# SPDX-License-Identifier: Apache-2.0
"""``fleet replay``: sends a request trace through the fleet and prints a summary.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence

from fleet.client import argument_types, connection
from fleet.json_codec import JSONObject
from fleet_cli.base import command, confirmation, listing
from fleet_cli.base.output import progress
from fleet_cli.hosts import utilization
from fleet_cli.planning import explain, trace_arguments
from fleet_trial.replaying import replay, traces, volume_replay, volume_traces
from fleet_trial.replaying.pacing import Replay as Course

_FORMS = {
    "refused_by_reason": explain.Counts,
    "refused_by_size": explain.Counts,
    "over_time": utilization.Samples,
}
#: Lines of progress if standard error is no terminal.
_LINES = 20


class Replay(command.ShowOne):
    """Replay a request trace against the fleet and print what was placed, what was refused and why.

    The trace has the format of the Azure V1 flavour sequences. Its requests are sent as fast as the fleet handles
    them, not at their own pace. With lifetimes, instances are deleted when their time in the trace is over. A trace of
    volumes (--volumes) has a line for each volume: SECONDS GIB [TYPE [LIFETIME]].
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("trace", type=pathlib.Path, nargs="?", metavar="file", help="The trace.")
        parser.add_argument("--sample", action="store_true", help="The small made-up trace that comes with the program, "
                            "with its lifetimes.")  # fmt: skip
        trace_arguments.add_trace_details(parser)
        trace_arguments.add_volumes(parser, "The trace is one of volumes.")
        parser.add_argument("--concurrency", type=argument_types.positive, default=8, metavar="N",
                            help="Requests on their way at a time. Default: %(default)s.")  # fmt: skip
        parser.add_argument("--timeout", type=argument_types.positive, default=600, metavar="SECONDS",
                            help="How long a request may take to end. Default: %(default)s.")  # fmt: skip
        utilization.add_plot(parser)
        ending = parser.add_mutually_exclusive_group()
        ending.add_argument("--delete", action="store_true", help="Delete what was placed, at the end. The default of "
                            "--sample.")  # fmt: skip
        ending.add_argument("--keep", action="store_true", help="With --sample: keep what was placed.")
        parser.add_argument("--yes", action="store_true", help="With --sample: do not ask before.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        if bool(parsed_args.trace) == parsed_args.sample:
            raise connection.CommandFailed("name a trace, or use --sample")
        if parsed_args.sample and not parsed_args.yes:
            self._confirm(parsed_args)
        # What a sample leaves behind is of no use to anybody.
        parsed_args.delete = parsed_args.delete or (parsed_args.sample and not parsed_args.keep)
        utilization.check(parsed_args.plot)
        if parsed_args.volumes:
            return self._of_volumes(parsed_args)
        if parsed_args.sample:
            parsed_args.trace = traces.SAMPLE
            parsed_args.lifetimes = parsed_args.lifetimes or traces.SAMPLE.with_name("lifetimes.txt")
            parsed_args.interval_map = parsed_args.interval_map or traces.SAMPLE.with_name("intervals.txt")
        requests, flavors = trace_arguments.read_trace(parsed_args)
        run = replay.Run(self.conductor, flavors, parsed_args.concurrency, parsed_args.timeout)
        self._replay(run, requests, parsed_args.delete)
        summary = {**run.summary(), "attribution": traces.note(parsed_args.trace)}
        utilization.draw(parsed_args.plot, {"replay": summary})
        if parsed_args.delete:
            run.delete_all()
            summary["deleted"] = run.deleted
        del summary["hosts_used"]
        return _shown(summary)

    def _confirm(self, parsed_args: argparse.Namespace) -> None:
        """Ask before anything is sent: the fleet may be one that others use.

        :raises connection.CommandFailed: the answer is not yes, or no terminal is there to ask
        """
        what = f"{'volumes' if parsed_args.volumes else 'instances'} on this fleet, and delete them at the end"
        if parsed_args.keep:
            what = what.partition(",")[0]
        confirmation.ask(f"this would create {what}", f"Create {what}?", "nothing is created")

    def _of_volumes(self, parsed_args: argparse.Namespace) -> tuple:
        if parsed_args.sample:
            parsed_args.trace = volume_traces.SAMPLE
        requests = trace_arguments.read_volume_trace(parsed_args)
        run = volume_replay.VolumeRun(self.conductor, parsed_args.concurrency, parsed_args.timeout)
        self._replay(run, requests, parsed_args.delete)
        summary = {**run.summary(), "attribution": traces.note(parsed_args.trace)}
        utilization.draw(parsed_args.plot, {"replay": summary})
        if parsed_args.delete:
            run.delete_all()
            summary["deleted"] = run.deleted
        del summary["pools_used"]
        return _shown(summary)

    def _replay(self, run: Course, requests: Sequence[object], delete: bool) -> None:
        with progress.shown(len(requests), "requests", self.app.options.verbose_level, _LINES) as shown:
            try:
                run.replay(requests, lambda done: shown.show(done, ""))
            except (KeyboardInterrupt, connection.CommandFailed) as end:
                shown.close()
                if delete:
                    how = "Interrupted" if isinstance(end, KeyboardInterrupt) else "Failed"
                    listing.remark(f"{how}: deleting what was placed")
                    _delete_all(run)
                raise


def _delete_all(run: Course) -> None:
    """Delete all that the replay has made. A failure is printed, so that the caller raises the one that ended the replay."""
    try:
        run.delete_all()
    except connection.CommandFailed as failure:
        listing.remark(f"Not all is deleted: {failure}")


def _shown(summary: JSONObject) -> tuple:
    forms = {name: form(summary[name]) for name, form in _FORMS.items() if name in summary}
    return command.one(tuple(summary), {**summary, **forms})
