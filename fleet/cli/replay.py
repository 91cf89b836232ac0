# SPDX-License-Identifier: Apache-2.0
"""``fleet replay``: sends a request trace through the fleet and sums up what became of it."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import heapq
import itertools
import pathlib
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import tqdm

from fleet import states
from fleet.cli import build_arguments, command, connection, faults, following, trace
from fleet.objects.fields import MAX_INSTANCES

#: Unknown flavours in an error.
_NAMED = 5
#: A small trace that comes with the program, made up for it.
SAMPLE = pathlib.Path(__file__).parent / "samples" / "trace.txt"


class Replay(command.ShowOne):
    """Replay a request trace against the fleet and print what was placed, what was refused and why.

    The trace is in the format of the Azure V1 flavour sequences. Its requests are sent as fast as the fleet ends them,
    not at their own pace; with lifetimes, instances are deleted when their time in the trace is over.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("trace", type=pathlib.Path, nargs="?", metavar="file", help="The trace.")
        parser.add_argument("--sample", action="store_true", help="The small made-up trace that comes with the program, "
                            "with its lifetimes.")  # fmt: skip
        add_trace_details(parser)
        parser.add_argument("--concurrency", type=command.positive, default=8, metavar="N",
                            help="Requests on their way at a time. Default: %(default)s.")  # fmt: skip
        parser.add_argument("--timeout", type=command.positive, default=600, metavar="SECONDS",
                            help="How long a request may take to end. Default: %(default)s.")  # fmt: skip
        parser.add_argument("--delete", action="store_true", help="Delete what was placed, at the end.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        if bool(parsed_args.trace) == parsed_args.sample:
            raise connection.CommandFailed("name the trace, or say --sample")
        if parsed_args.sample:
            parsed_args.trace = SAMPLE
            parsed_args.lifetimes = parsed_args.lifetimes or SAMPLE.with_name("lifetimes.txt")
            parsed_args.interval_map = parsed_args.interval_map or SAMPLE.with_name("intervals.txt")
        requests, flavors = read_trace(parsed_args)
        run = Run(self.conductor, flavors, parsed_args.concurrency, parsed_args.timeout)
        with tqdm.tqdm(total=len(requests), unit="request", disable=self.app.options.verbose_level == 0 or None,
                       file=sys.stderr) as bar:  # fmt: skip
            run.replay(requests, bar)
        summary = {**run.summary(), "attribution": trace.note(parsed_args.trace)}
        if parsed_args.delete:
            run.delete_all()
            summary["deleted"] = run.deleted
        return command.one(tuple(summary), summary)


def add_trace(parser: build_arguments.Arguments) -> None:
    """A trace that need not be given, and what belongs to one."""
    parser.add_argument("--trace", type=pathlib.Path, metavar="FILE", help="Requests in the format of 'fleet replay'.")
    add_trace_details(parser)


def add_trace_details(parser: build_arguments.Arguments) -> None:
    parser.add_argument("--requests", type=command.positive, metavar="N", help="Only the first N requests.")
    parser.add_argument("--lifetimes", type=pathlib.Path, metavar="FILE", help="Lifetimes, token by token.")
    parser.add_argument("--interval-map", type=pathlib.Path, metavar="FILE",
                        help="Seconds of the bins. Default: v1.interval_map.txt beside the lifetimes.")  # fmt: skip
    parser.add_argument("--flavor-map", type=pathlib.Path, metavar="FILE",
                        help="Sizes of the flavours. Default: flav_map.txt beside the trace.")  # fmt: skip
    parser.add_argument("--disk", type=command.natural, default=0, metavar="GB",
                        help="Root disk of every instance; the trace has none. Default: %(default)s.")  # fmt: skip


def read_trace(parsed_args: argparse.Namespace) -> tuple[list[trace.TraceRequest], dict[str, dict[str, int]]]:
    """The requests, and the flavors by their letter. :raises connection.CommandFailed: it cannot be read"""
    try:
        return _read(parsed_args)
    except OSError as unreadable:
        raise connection.CommandFailed(f"{unreadable.filename}: {unreadable.strerror}") from None
    except trace.BadTrace as bad:
        raise connection.CommandFailed(str(bad)) from None


def _read(parsed_args: argparse.Namespace) -> tuple[list[trace.TraceRequest], dict[str, dict[str, int]]]:
    with parsed_args.trace.open("rb"):
        """Named first, if it is not there: the other files are looked for beside it."""
    flavor_map = parsed_args.flavor_map or parsed_args.trace.parent / "flav_map.txt"
    flavors = trace.read_flavors(flavor_map, parsed_args.disk)
    bins: dict[int, float] = {}
    if parsed_args.lifetimes:
        bins = trace.read_bins(parsed_args.interval_map or parsed_args.lifetimes.parent / "v1.interval_map.txt")
    found = trace.read_requests(parsed_args.trace, parsed_args.lifetimes, bins)
    requests = list(itertools.islice(itertools.chain.from_iterable(map(_bounded, found)), parsed_args.requests))
    unknown = sorted({request.flavor for request in requests} - set(flavors))
    if unknown:
        names = ", ".join(repr(each[:20]) for each in unknown[:_NAMED]) + (", …" if len(unknown) > _NAMED else "")
        raise trace.BadTrace(flavor_map, f"it does not name flavour {names}, which {parsed_args.trace} has")
    if not requests:
        raise trace.BadTrace(parsed_args.trace, "it has no requests")
    return requests, flavors


def _bounded(request: trace.TraceRequest) -> Iterator[trace.TraceRequest]:
    """One request may ask for so many instances only."""
    for start in range(0, request.count, MAX_INSTANCES):
        yield dataclasses.replace(request, lifetimes_s=request.lifetimes_s[start : start + MAX_INSTANCES])


class Run:
    """One replay. ``_lock`` guards the tallies, which the senders fill side by side."""

    def __init__(
        self, conductor: connection.Connection, flavors: dict[str, dict[str, int]], concurrency: int, timeout_s: float
    ) -> None:
        self._conductor = conductor
        self._flavors = flavors
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._placed: set[str] = set()
        self._outcomes: collections.Counter[str] = collections.Counter()
        self._refusals: collections.Counter[str] = collections.Counter()
        self._deaths: list[tuple[float, str]] = []
        self._requests = 0
        self._gone = 0
        self._duration_s = 0.0

    def replay(self, requests: list[trace.TraceRequest], bar: tqdm.tqdm) -> None:
        """Send all requests; those of one moment side by side, after the deletions due by then."""
        started = time.monotonic()
        with futures.ThreadPoolExecutor(self._concurrency) as senders:
            for at_s, together in _moments(requests):
                self._delete_due(at_s)
                for done in futures.as_completed([senders.submit(self._send, request) for request in together]):
                    done.result()
                    bar.update()
        self._duration_s = time.monotonic() - started
        self._requests = len(requests)

    def summary(self) -> dict[str, Any]:
        placed, duration_s = self._outcomes[states.ACTIVE], self._duration_s
        return {
            "requests": self._requests,
            "instances": sum(self._outcomes.values()),
            "placed": placed,
            "refused": self._outcomes[states.ERROR],
            "unfinished": self._outcomes[states.BUILDING],
            "deleted": self.deleted,
            "refused_by_reason": dict(self._refusals),
            **self._utilisation(),
            "duration_s": round(duration_s, 1),
            "builds_per_s": round(placed / duration_s, 1) if duration_s else 0.0,
        }

    @property
    def deleted(self) -> int:
        """By somebody else while they were built, at the end of their lives, and at the end of all."""
        return self._outcomes[states.DELETED] + self._gone

    def delete_all(self) -> None:
        self._delete(set(self._placed))

    def _send(self, request: trace.TraceRequest) -> None:
        with self._conductor.plain_failures():
            accepted = self._conductor.create(self._build_request(request))["instances"]
            lifetimes = dict(zip((each["uuid"] for each in accepted), request.lifetimes_s, strict=True))

            def on_end(instance: command.Record) -> None:
                self._record(instance, request.at_s, lifetimes[instance["uuid"]])

            late = following.follow(self._conductor, lifetimes, self._timeout_s, on_end)
        with self._lock:
            self._outcomes[states.BUILDING] += len(late)

    def _build_request(self, request: trace.TraceRequest) -> dict[str, Any]:
        flavor = {**self._flavors[request.flavor], "name": f"trace-{request.flavor}"}
        return {"name": "replay", "flavor": flavor, "count": request.count}

    def _record(self, instance: command.Record, at_s: float, lifetime_s: float | None) -> None:
        refusal = self._why(instance["uuid"]) if instance["vm_state"] == states.ERROR else None
        with self._lock:
            self._outcomes[instance["vm_state"]] += 1
            if refusal:
                self._refusals[refusal] += 1
            if instance["vm_state"] == states.ACTIVE:
                self._placed.add(instance["uuid"])
                if lifetime_s is not None:
                    heapq.heappush(self._deaths, (at_s + lifetime_s, instance["uuid"]))

    def _why(self, uuid: str) -> str:
        shown = self._conductor.operator("show_instance", name=uuid)["faults"]
        return faults.reason(shown[0]) if shown else "unknown"

    def _delete_due(self, now_s: float) -> None:
        due = set()
        while self._deaths and self._deaths[0][0] <= now_s:
            due.add(heapq.heappop(self._deaths)[1])
        self._delete(due)

    def _delete(self, uuids: set[str]) -> None:
        """Ask for the deletion and wait for it, so that later requests meet the room it leaves."""
        if not uuids:
            return
        with self._conductor.plain_failures():
            late = following.delete(self._conductor, uuids, self._timeout_s)
        self._gone += len(uuids) - len(late)
        self._placed -= uuids

    def _utilisation(self) -> dict[str, str]:
        with self._conductor.plain_failures():
            hosts = self._conductor.operator("list_hosts")
        return {
            "hosts": str(len(hosts)),
            "vcpus_used": _share(hosts, "vcpus_used", "vcpus"),
            "memory_mb_used": _share(hosts, "memory_mb_used", "memory_mb"),
        }


def _moments(requests: list[trace.TraceRequest]) -> Iterator[tuple[int, list[trace.TraceRequest]]]:
    """Requests grouped by their time, which matters only where deletions come between them."""
    if all(end is None for request in requests for end in request.lifetimes_s):
        yield 0, requests
        return
    for at_s, together in itertools.groupby(requests, key=lambda request: request.at_s):
        yield at_s, list(together)


def _share(hosts: list[dict[str, Any]], used: str, total: str) -> str:
    """Use of all hosts against what they really have; more than 100 % is overcommitted."""
    used_sum, total_sum = sum(host[used] for host in hosts), sum(host[total] for host in hosts)
    percent = 100 * used_sum / total_sum if total_sum else 0.0
    return f"{used_sum} of {total_sum} ({percent:.1f} %)"
