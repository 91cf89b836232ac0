# SPDX-License-Identifier: Apache-2.0
"""Arguments that name a request trace and the files that belong to it.

``fleet replay`` and ``fleet whatif`` add them to their parsers.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import pathlib
import stat
from collections.abc import Iterator

from fleet.client import argument_types, connection
from fleet.objects.fields import MAX_INSTANCES
from fleet_cli.base import build_arguments
from fleet_trial.replaying import traces, volume_traces

#: Unknown flavours named in an error.
_NAMED = 5


def add_trace(parser: build_arguments.Arguments) -> None:
    """Add an optional trace and its details."""
    parser.add_argument("--trace", type=pathlib.Path, metavar="FILE", help="Requests in the format of 'fleet replay'.")
    add_trace_details(parser)


def add_trace_details(parser: build_arguments.Arguments) -> None:
    parser.add_argument("--requests", type=argument_types.positive, metavar="N", help="Use only the first N requests.")
    parser.add_argument("--lifetimes", type=pathlib.Path, metavar="FILE", help="Lifetimes, token by token.")
    parser.add_argument("--interval-map", type=pathlib.Path, metavar="FILE",
                        help="Seconds of the bins. Default: v1.interval_map.txt beside the lifetimes.")  # fmt: skip
    parser.add_argument("--flavor-map", type=pathlib.Path, metavar="FILE",
                        help="Sizes of the flavours. Default: flav_map.txt beside the trace.")  # fmt: skip
    parser.add_argument("--disk", type=argument_types.natural, default=0, metavar="GB",
                        help="Root disk of every instance; the trace has none. Default: %(default)s.")  # fmt: skip


def add_volumes(parser: build_arguments.Arguments, text: str) -> None:
    parser.add_argument("--volumes", action="store_true", help=text)


def read_volume_trace(parsed_args: argparse.Namespace) -> list[volume_traces.VolumeTraceRequest]:
    """:raises connection.CommandFailed: the file cannot be read, or an argument is one of instances"""
    require_volumes(parsed_args)
    with _failures():
        _require_file(parsed_args.trace)
        found = list(itertools.islice(volume_traces.read_requests(parsed_args.trace), parsed_args.requests))
        if not found:
            raise traces.BadTrace(parsed_args.trace, "it has no requests")
        return found


def require_volumes(parsed_args: argparse.Namespace) -> None:
    """:raises connection.CommandFailed: an argument that describes instances is given"""
    for name in ("lifetimes", "interval_map", "flavor_map", "disk"):
        if getattr(parsed_args, name):
            raise connection.CommandFailed(f"--{name.replace('_', '-')} is not for volumes")


def read_trace(parsed_args: argparse.Namespace) -> tuple[list[traces.TraceRequest], dict[str, dict[str, int]]]:
    """Return the requests, and the flavors by their letter. :raises connection.CommandFailed: a file cannot be read"""
    with _failures():
        return _read(parsed_args)


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except OSError as unreadable:
        raise connection.CommandFailed(f"{unreadable.filename}: {unreadable.strerror}") from None
    except traces.BadTrace as bad:
        raise connection.CommandFailed(str(bad)) from None


def _require_file(path: pathlib.Path) -> None:
    found = path.stat()
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        raise traces.BadTrace(path, "it is a device, not a file")
    with path.open("rb"):
        pass


def _read(parsed_args: argparse.Namespace) -> tuple[list[traces.TraceRequest], dict[str, dict[str, int]]]:
    # Checked before the other files, which are looked for beside it.
    _require_file(parsed_args.trace)
    flavor_map = parsed_args.flavor_map or parsed_args.trace.parent / "flav_map.txt"
    if parsed_args.flavor_map is None and not flavor_map.exists():
        raise connection.CommandFailed(f"{flavor_map} is not there: name the sizes of the flavors with --flavor-map")
    flavors = traces.read_flavors(flavor_map, parsed_args.disk)
    bins: dict[int, float] = {}
    if parsed_args.lifetimes:
        bins = traces.read_bins(parsed_args.interval_map or parsed_args.lifetimes.parent / "v1.interval_map.txt")
    found = traces.read_requests(parsed_args.trace, parsed_args.lifetimes, bins)
    requests = list(itertools.islice(itertools.chain.from_iterable(map(_bounded, found)), parsed_args.requests))
    unknown = sorted({request.flavor for request in requests} - set(flavors))
    if unknown:
        names = ", ".join(repr(each[:20]) for each in unknown[:_NAMED]) + (", …" if len(unknown) > _NAMED else "")
        raise traces.BadTrace(flavor_map, f"it does not name flavour {names}, which {parsed_args.trace} has")
    if not requests:
        raise traces.BadTrace(parsed_args.trace, "it has no requests")
    return requests, flavors


def _bounded(request: traces.TraceRequest) -> Iterator[traces.TraceRequest]:
    """Split a request: one request may ask for MAX_INSTANCES instances at most."""
    for start in range(0, request.count, MAX_INSTANCES):
        yield dataclasses.replace(request, lifetimes_s=request.lifetimes_s[start : start + MAX_INSTANCES])
