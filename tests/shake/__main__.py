# SPDX-License-Identifier: Apache-2.0
"""``make shake``: rounds of tests, each with a seed of its own and in several lanes, beside busy loops."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import random
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent import futures

from tests.shake import outcomes

ROOT = pathlib.Path(__file__).parents[2]
SUITES = ("tests/unit", "tests/functional", "tests/hostile", "tests/simulation", "tests/amqp")
#: A loop ends with the process that started it, however that ends.
_LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1_000_000): pass\n"


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    directory = ROOT / arguments.directory
    directory.mkdir(exist_ok=True)
    noted = directory / "outcomes.jsonl"
    if arguments.table:
        print("\n".join(outcomes.table(outcomes.read(noted))))
        return 0
    rounds = [
        (seed, number, files)
        for seed in range(arguments.seed, arguments.seed + arguments.repeat)
        for number, files in enumerate(deal(targets(arguments.only), arguments.lanes, seed), 1)
        if arguments.lane in (None, number)
    ]
    # A lane of the next round begins when one of this round ends: no processor waits for the longest.
    with _busy(arguments.loops), futures.ThreadPoolExecutor(arguments.processes) as running:
        ended = [running.submit(_run, arguments, *each, directory, noted) for each in rounds]
        failed = [each for each in ended if not each.result()]
    print("\n".join(outcomes.table(outcomes.read(noted))))
    return int(bool(failed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("make shake", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of the first round")
    parser.add_argument("--repeat", type=int, default=1, help="number of rounds; each has the next seed")
    parser.add_argument("--only", nargs="*", default=SUITES, help="files, folders or node ids below tests/")
    parser.add_argument("--lanes", type=int, default=6, help="parts of a round; each is a process of pytest")
    parser.add_argument("--processes", type=int, default=2, help="lanes at a time")
    parser.add_argument("--lane", type=int, help="run this lane alone, counted from 1")
    parser.add_argument("--until", default="", help="node id of the last test that runs")
    parser.add_argument("--loops", type=int, default=2, help="busy loops beside the tests")
    parser.add_argument("--directory", default=".shake", help="for logs and outcomes")
    parser.add_argument("--table", action="store_true", help="print what ran how often, and run nothing")
    return parser


@contextlib.contextmanager
def _busy(loops: int) -> Iterator[None]:
    started = [subprocess.Popen([sys.executable, "-c", _LOOP]) for _loop in range(loops)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def _run(
    arguments: argparse.Namespace,
    seed: int,
    number: int,
    files: Sequence[str],
    directory: pathlib.Path,
    noted: pathlib.Path,
) -> bool:
    """Run one lane. Return True if it passes."""
    log, began = directory / f"seed-{seed}-lane-{number}.log", time.monotonic()
    repeat = f"make shake SEED={seed} ONLY='{' '.join(arguments.only)}' LANES={arguments.lanes} LANE={number}"
    with log.open("wb") as output:
        status = _lane(number, seed, files, repeat, noted, arguments.until, output).wait()
    passed = status in (0, 5)  # 5: the part of this lane has no test
    how = f"{'passed' if passed else 'FAILED'} in {time.monotonic() - began:.0f} s"
    print(f"seed {seed}, lane {number}: {len(files)} files {how}, {os.path.relpath(log, ROOT)}", flush=True)
    if not passed:
        print(_essence(log), flush=True)
    return passed


def _lane(
    number: int, seed: int, files: Sequence[str], repeat: str, noted: pathlib.Path, until: str, output: object
) -> subprocess.Popen[bytes]:
    python_path = [str(ROOT / "tests/shake/site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {
        "FLEET_SHAKE_SEED": str(seed),
        "FLEET_TEST_SEED": str(seed),
        "FLEET_SHAKE_PREFIX": sys.prefix,
        "FLEET_SHAKE_LANE_PROCESS": "1",
        "FLEET_SHAKE_OUTCOMES": str(noted),
        "FLEET_SHAKE_REPEAT": repeat,
        "FLEET_SHAKE_UNTIL": until,
        "FLEET_TEST_PROCESS": str(number),
        "PYTHONPATH": os.pathsep.join(python_path),
        "PYTHONHASHSEED": str(seed % 2**32),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.shake.plugin", "--timeout=1800", *files]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **variables}, stdout=output, stderr=output)  # type: ignore[call-overload,no-any-return]


def targets(only: Sequence[str]) -> list[str]:
    """Files of tests, and node ids as they stand. A node id keeps its own place: a lane runs it as a file."""
    found: list[str] = []
    for each in only:
        path = ROOT / each
        found += sorted(str(file.relative_to(ROOT)) for file in path.rglob("test_*.py")) if path.is_dir() else [each]
    return found


def deal(files: Sequence[str], lanes: int, seed: int) -> list[list[str]]:
    """Give each lane a random part of the files."""
    shuffled = list(files)
    random.Random(f"{seed}/lanes").shuffle(shuffled)
    return [part for part in (shuffled[number::lanes] for number in range(lanes)) if part]


def _essence(log: pathlib.Path) -> str:
    """The failures of a lane, from its log."""
    text = log.read_text(errors="replace")
    _progress, heading, failures = text.partition("= FAILURES =")
    return f"{heading}{failures}" if heading else text[-5000:]


if __name__ == "__main__":
    sys.exit(main())
