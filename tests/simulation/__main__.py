# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.simulation [--seeds N] [--first SEED]``: exit status 1 and a history when a seed fails."""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import sys
import time

import tqdm

from tests.simulation.player import play, play_recovering
from tests.simulation.scenario import Verdict

SEEDS_AT_ONCE = 4
#: In such portions: about half a gigabyte.
LIFE_OF_A_WORKER = 250


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="How many to play. Default: %(default)s.")
    parser.add_argument("--first", type=int, default=0, help="The first of them. Default: %(default)s.")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="Processes. Default: one for each core.")
    parser.add_argument("--verbose", action="store_true", help="Print the history of a seed that holds, too.")
    parser.add_argument("--recovering", action="store_true", help="With recovery on, and a host that dies for good.")
    given = parser.parse_args()
    ended, met, began = collections.Counter[str](), collections.Counter[str](), time.monotonic()
    seeds = range(given.first, given.first + given.seeds)
    played = play_recovering if given.recovering else play
    # What a process that died in a seed was about to do is never collected: its stack refers to itself.
    with multiprocessing.get_context("spawn").Pool(given.workers, maxtasksperchild=LIFE_OF_A_WORKER) as pool:
        for verdict in tqdm.tqdm(
            pool.imap(played, seeds, chunksize=SEEDS_AT_ONCE),
            total=given.seeds,
            unit="seed",
            disable=None,
        ):
            ended.update(verdict.ended)
            met.update(verdict.met)
            if verdict.wrong or given.verbose:
                show(verdict)
            if verdict.wrong:
                return 1
    print(f"{given.seeds} seeds held in {time.monotonic() - began:.0f} s")
    for what, counted in (("instances and moves ended", ended), ("troubles met", met)):
        print(f"{what}: " + ", ".join(f"{name} {count}" for name, count in sorted(counted.items())))
    return 0


def show(verdict: Verdict) -> None:
    print("\n".join(verdict.history))
    print(f"seed {verdict.seed}, {verdict.steps} steps, {verdict.ended}")
    for line in verdict.wrong:
        print(f"WRONG: {line}")


if __name__ == "__main__":
    sys.exit(main())
