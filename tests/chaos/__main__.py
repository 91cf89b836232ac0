# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.chaos``: hurt the trio on purpose; exit status 1 when an invariant was violated."""

from __future__ import annotations

import argparse
import fnmatch
import json
import logging
import pathlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

from fleet_trial import private_servers
from tests import evidence
from tests.chaos import figures, matrix, scenarios, servers, soak, world
from tests.chaos.run import Result, Scenario, clear, play

#: ``make ha`` plays these.
_CLUSTERS = "cluster:"


def main(argv: list[str] | None = None) -> int:
    given = _parse(argv)
    # Whoever ends us ends our servers and daemons too: they are in sessions of their own.
    signal.signal(signal.SIGTERM, lambda *_signal: sys.exit(143))
    chosen = [each for each in scenarios.ALL if _wanted(each, given)]
    if given.list:
        for each in chosen:
            print(f"{each.name:44} {'short' if each.short else '     '}  {each.about}")
        return 0
    if not chosen:
        print(f"No scenario is called {given.only}; --list names them", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="fleet-chaos-") as scratch:
        directory = pathlib.Path(given.directory or scratch)
        directory.mkdir(parents=True, exist_ok=True)
        try:
            results = _run(directory, chosen, given)
        except private_servers.ServerMissing as missing:
            print(missing, file=sys.stderr)
            return 3
    print(f"\n{matrix.table(results)}")
    flat = True
    if given.soak:
        told, flat = soak.table(results)
        print(f"\n{told}")
    bad = [result for result in results if not result.good]
    print(f"\n{len(results)} scenarios, {len(bad)} with violations; seed {given.seed}")
    return 1 if bad or not flat else 0


def _run(directory: pathlib.Path, chosen: list[Scenario], given: argparse.Namespace) -> list[Result]:
    """Play the scenarios of one kind of servers after those of another, each kind in a world of its own."""
    # Answers that come after their caller has given up are what these scenarios are about.
    for name in ("oslo_messaging", "oslo.messaging", "amqp"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    results: list[Result] = []
    for kind in dict.fromkeys(each.servers for each in chosen):
        own = directory if kind == servers.SINGLE else directory / kind
        with world.opened(own, kind, given.signed) as trio:
            results += _run_in(trio, [each for each in chosen if each.servers == kind], given)
    return results


def _run_in(trio: world.ChaosWorld, chosen: list[Scenario], given: argparse.Namespace) -> list[Result]:
    results: list[Result] = []
    _warm_up(trio, 60 if given.short else 200)
    baseline = figures.of_all(trio)
    for scenario, seed in _course(chosen, given):
        result = play(trio, scenario, seed, baseline)
        results.append(result)
        print(matrix.line(result), flush=True)
        for line in result.verdict.lines:
            print(f"    {line}", flush=True)
        if not result.good:
            for path in sorted(trio.directory.glob("*.log")):
                print(f"    last lines of {path.name}:\n{evidence.end_of(path)}", flush=True)
        if given.json:
            with open(given.json, "a") as file:
                file.write(json.dumps(result.to_json()) + "\n")
    return results


def _course(chosen: list[Scenario], given: argparse.Namespace) -> Iterator[tuple[Scenario, int]]:
    """What to play, each with its seed."""
    if given.soak:
        yield from soak.course(soak.scenarios_of(chosen), given.soak, given.seed)
        return
    for number in range(given.repeat):
        yield from ((scenario, given.seed + number) for scenario in chosen)


def _warm_up(trio: world.ChaosWorld, count: int) -> None:
    """Pools grow to their size once; from then on growth is a leak."""
    began = time.monotonic()
    trio.name = "warm-up"
    for _request in range(count // 10):
        trio.boot(10)
    trio.settle()
    clear(trio)
    print(f"ready: {count} builds to warm up took {time.monotonic() - began:.1f} s", flush=True)


def _wanted(scenario: Scenario, given: argparse.Namespace) -> bool:
    if given.short and not scenario.short:
        return False
    if not given.only:
        return given.list or given.short or not scenario.name.startswith(_CLUSTERS)
    return any(fnmatch.fnmatchcase(scenario.name, pattern) for pattern in given.only)


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="A scenario or a pattern; may be repeated. "
                        "Default: all but those on clusters, which make ha has.")  # fmt: skip
    parser.add_argument("--short", action="store_true", help="Only the most telling ones, as 'make long' does.")
    parser.add_argument("--seed", type=int, default=1, help="Default: %(default)s. The same seed hurts the same way.")
    parser.add_argument("--repeat", type=int, default=1, help="Rounds, each with the next seed. Default: %(default)s.")
    parser.add_argument("--soak", type=float, metavar="MINUTES",
                        help="At random for so long, without ending a daemon; fails if one grows.")  # fmt: skip
    parser.add_argument(
        "--signed", action="store_true", help="With signed messages, each daemon with a key of its own."
    )
    parser.add_argument("--json", metavar="FILE", help="Append a JSON line for each scenario.")
    parser.add_argument("--directory", metavar="DIR", help="Keep configuration and logs here; default: nowhere.")
    parser.add_argument("--list", action="store_true", help="Say what there is.")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
