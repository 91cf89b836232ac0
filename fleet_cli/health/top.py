# SPDX-License-Identifier: Apache-2.0
"""``fleet top``: builds, volumes, decisions, slow filters and failures per second, from the daemons' metrics.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import socket
import time
from collections.abc import Iterator, Mapping

from fleet import domains, states, volume_states
from fleet.checks import required
from fleet.client import argument_types, connection
from fleet.json_codec import JSONMapping, JSONObject
from fleet.rpc.rabbit.broker import BrokerAway
from fleet.service import probes
from fleet_cli.base import command
from fleet_cli.base.output import plain_output
from fleet_cli.health import metric_pages
from fleet_cli.health.metric_pages import Change

#: Filters that are shown.
_FILTERS = 5
#: Kinds of space of pools.
_SPACE = ("total", "free", "allocated")
_TROUBLE = {
    "RPC timeouts": ("fleet_rpc_timeouts_total", "method"),
    "database failures": ("fleet_database_failures_total", "error"),
    "round trips failed": ("fleet_round_trip_failures_total", "part"),
    "sweeper": ("fleet_conductor_sweeper_actions_total", "action"),
}


class Top(command.Command):
    """Show what the fleet does, again and again, until Ctrl-C.

    The daemons must show their metrics: set [health] port. Each worker process has a page of its own.
    """

    arguments = (
        command.repeated(
            "--page",
            metavar="URL",
            help="A daemon's page: HOST:PORT, or its whole URL; repeat for several. Default: those of all "
            "daemons of this machine, from [health] port on.",
        ),
        command.argument(
            "--interval",
            type=argument_types.positive,
            default=2,
            metavar="SECONDS",
            help="Between two looks. Default: 2.",
        ),
        command.argument(
            "--count", type=argument_types.positive, metavar="N", help="End after N looks. Default: go on until Ctrl-C."
        ),
        command.argument("-f", "--format", choices=("text", "json"), default="text", help="json: one object a look."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        # Earlier releases had --url for pages; today it is an option of all commands.
        pages = parsed_args.page or self.app.options.url
        urls = [metric_pages.page_url(page) for page in pages] or self._own()
        try:
            for number, view in enumerate(self._views(urls, parsed_args.interval)):
                self._show(view, parsed_args.format)
                if number + 1 == parsed_args.count:
                    return
        except KeyboardInterrupt:
            return

    def _own(self) -> list[str]:
        conf = self.app.conf
        if not conf.health.port:
            raise connection.CommandFailed(
                f"[health] port is not set. {required.files(conf)} Set it, or name the daemons' pages with --page."
            )
        host, step = str(conf.health.bind_host), conf.health.service_offset
        firsts = dict.fromkeys(probes.port_of(conf, daemon) for daemon in probes.DAEMONS)
        open_ = [port for first in firsts for port in _open_ports(host, first, step)]
        if not open_:
            ports = ", ".join(map(str, firsts))
            raise connection.CommandFailed(
                f"no daemon shows its metrics on {host}, at the ports {ports}: [health] port"
            )
        return [metric_pages.page_url(f"{host}:{port}") for port in open_]

    def _views(self, urls: list[str], interval_s: float) -> Iterator[dict[str, object]]:
        looks = (metric_pages.look(urls, time.monotonic) for _ in itertools.count())
        queues: dict[str, object] | None = {}
        for before, after in itertools.pairwise(_spaced(looks, interval_s)):
            if not after.pages:
                problems = ", ".join(f"{url}: {reason}" for url, reason in after.missing.items())
                raise connection.CommandFailed(f"no metrics can be read: {problems}")
            # A broker that refuses is asked once: it would delay every update.
            queues = self._queues() if queues is not None else None
            yield view(Change(before, after), queues)

    def _queues(self) -> JSONObject | None:
        try:
            depths = self.conductor.depths(("conductor", "scheduler", *domains.OF_VOLUMES))
        except BrokerAway:
            return None
        return depths and {
            name: depth and depth.messages
            for name, depth in depths.items()
            if depth is not None or name not in domains.OF_VOLUMES
        }

    def _show(self, shown: Mapping[str, object], form: str) -> None:
        if form == "json":
            print(json.dumps(shown), file=self.app.stdout, flush=True)
            return
        plain_output.clear(self.app.stdout)
        print("\n".join(lines(shown)), file=self.app.stdout, flush=True)


def _open_ports(host: str, first: int, most: int) -> Iterator[int]:
    """Yield the ports of the workers of one daemon. They follow each other."""
    for port in range(first, first + max(most, 1)):
        try:
            socket.create_connection((host, port), timeout=metric_pages.TIMEOUT_S).close()
        except OSError:
            return
        yield port


def _spaced(looks: Iterator[metric_pages.Look], interval_s: float) -> Iterator[metric_pages.Look]:
    yield next(looks)
    while True:
        time.sleep(interval_s)
        yield next(looks)


def view(change: Change, queues: Mapping[str, object] | None) -> dict[str, object]:
    """Return the figures. Rates are per second, times in seconds; None: no daemon has the metric."""
    rate, decisions = change.rate, change.rate("fleet_scheduler_decisions_total")
    return {
        "seconds": round(change.seconds, 1),
        "daemons": len(change.after.pages),
        "ready": sum(page.get(("fleet_ready", ()), 0) > 0 for page in change.after.pages.values()),
        "missing": dict(change.after.missing),
        "builds": {
            "accepted": rate("fleet_conductor_builds_accepted_total"),
            **{each: rate("fleet_conductor_builds_ended_total", state=each) for each in (states.ACTIVE, states.ERROR)},
            "retries": rate("fleet_conductor_retries_total"),
            "mean_s": change.mean("fleet_conductor_build_seconds"),
        },
        "under_way": {
            **{step: change.largest("fleet_conductor_builds", step=step) for step in states.BUILD_STEPS},
            "oldest_s": change.largest("fleet_conductor_oldest_build_seconds"),
            states.QUEUED: change.largest("fleet_conductor_queued_builds"),
        },
        "volumes": {
            "accepted": rate("fleet_conductor_volumes_accepted_total"),
            "made": rate("fleet_conductor_volume_reports_total", status=volume_states.CREATING, result="done"),
            "failed": rate("fleet_conductor_volume_reports_total", result="failed"),
            **{step: change.largest("fleet_conductor_volumes", step=step) for step in volume_states.STEPS},
            "oldest_s": change.largest("fleet_conductor_oldest_volume_seconds"),
        },
        "pools": {
            "number": change.largest("fleet_conductor_pools"),
            **{f"{kind}_gb": change.largest("fleet_conductor_pool_gigabytes", kind=kind) for kind in _SPACE},
        },
        "queues": queues,
        "decisions": {
            **{each: rate("fleet_scheduler_decisions_total", result=each) for each in ("placed", "refused", "failed")},
            "mean_s": change.mean("fleet_scheduler_decision_seconds"),
            "cache_lag": change.largest("fleet_scheduler_cache_generation_lag"),
        },
        "refusals": {
            reason: amount
            for reason, amount in change.rates("fleet_scheduler_decisions_total", "reason").items()
            if reason
        },
        "hosts": {
            "claims_held": rate("fleet_compute_claims_total", result="held"),
            "claims_refused": rate("fleet_compute_claims_total", result="refused"),
            "spawns_failed": rate("fleet_compute_spawns_total", result="failed"),
            "spawn_mean_s": change.mean("fleet_compute_spawn_seconds"),
        },
        "filters": _filters(change, decisions),
        "trouble": {name: found for name, of in _TROUBLE.items() if (found := change.rates(*of))},
    }


def _filters(change: Change, decisions: float) -> list[dict[str, object]]:
    """Return the slowest filters first: seconds per decision, and hosts per second that each was the first to drop."""
    spent = change.rates("fleet_scheduler_filter_seconds_total", "filter")
    dropped = change.rates("fleet_scheduler_filter_rejections_total", "filter")
    slowest = sorted(spent, key=lambda name: -spent[name])[:_FILTERS]
    return [
        {"filter": name, "seconds": spent[name] / decisions if decisions else None, "dropped": dropped.get(name, 0.0)}
        for name in slowest
    ]


def lines(shown: JSONMapping) -> list[str]:
    """Return the figures for people."""
    head = f"{shown['daemons']} daemons, {shown['ready']} ready; per second, over {shown['seconds']} s"
    under_way, queues = shown["under_way"], shown["queues"]
    waiting = "unknown" if queues is None else ", ".join(f"{name} {_whole(depth)}" for name, depth in queues.items())
    said = [
        head,
        *(f"not seen: {url}: {reason}" for url, reason in shown["missing"].items()),
        f"builds     {_rates(shown['builds'])}",
        f"under way  {', '.join(f'{step} {_whole(under_way[step])}' for step in states.BUILD_STEPS)}, "
        f"oldest {_time(under_way['oldest_s'])}, {states.QUEUED} {_whole(under_way[states.QUEUED])}",
        *_of_volumes(shown["volumes"], shown["pools"]),
        f"queues     {waiting or 'no broker'}",
        f"decisions  {_rates(shown['decisions'])}",
        *([f"refusals   {_rates(shown['refusals'])}"] if shown["refusals"] else []),
        f"hosts      {_rates(shown['hosts'])}",
        *(f"trouble    {name}: {_rates(found)}" for name, found in shown["trouble"].items()),
    ]
    if shown["filters"]:
        said.append("slow filters, time a decision and hosts dropped:")
    return said + [
        f"  {each['filter']:32}  {_time(each['seconds']):>8}  {each['dropped']:8.1f}" for each in shown["filters"]
    ]


def _of_volumes(volumes: JSONMapping, pools: JSONMapping) -> list[str]:
    """Return lines about volumes; none for a fleet without storage pools."""
    if not pools["number"]:
        return []
    steps = ", ".join(f"{step} {_whole(volumes[step])}" for step in volume_states.STEPS)
    rates = _rates({name: volumes[name] for name in ("accepted", "made", "failed")})
    space = ", ".join(f"{kind} {_whole(pools[f'{kind}_gb'])}" for kind in _SPACE)
    return [
        f"volumes    {rates}; {steps}, oldest {_time(volumes['oldest_s'])}",
        f"pools      {_whole(pools['number'])}; GiB {space}",
    ]


def _rates(found: JSONMapping) -> str:
    return ", ".join(f"{_words(name)} {_value(name, value)}" for name, value in found.items())


def _words(name: str) -> str:
    return name.removesuffix("_s").replace("_", " ")


def _value(name: str, value: float | None) -> str:
    if name.endswith("_s"):
        return _time(value)
    return _whole(value) if name == "cache_lag" else f"{value or 0.0:.1f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.2f} ms"


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
