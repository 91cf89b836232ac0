# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.tempest``: exit status 1 if a test fails that docs/http-api.md does not name."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

from fleet_trial import private_servers
from tests.tempest import documented, report, settings, suite
from tests.tempest.cloud import cloud

_VENV = pathlib.Path(__file__).parents[2] / ".venv-tempest"


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.tempest")
    parser.add_argument("--venv", type=pathlib.Path, default=_VENV, help="where Tempest and keystone are installed")
    parser.add_argument("--only", default=suite.TESTS, metavar="REGEX", help="run the tests whose names match")
    parser.add_argument("--workers", type=int, default=4, help="processes of Tempest; they mostly wait")
    parser.add_argument("--directory", type=pathlib.Path, help="keep configuration and logs here")
    parser.add_argument("--serve", action="store_true", help="run no tests: print how to reach the cloud, until Ctrl-C")
    asked = parser.parse_args()
    # The servers and daemons are in sessions of their own.
    signal.signal(signal.SIGTERM, lambda *_signal: sys.exit(143))
    began = time.monotonic()
    page = documented.PAGE.read_text()
    absent, fails = documented.read(page, documented.ABSENT), documented.read(page, documented.FAILS)
    with _directory(asked.directory) as directory:
        try:
            with cloud(asked.venv.resolve(), directory) as made:
                settings.write(directory / "tempest.conf", made)
                print(
                    f"A cloud is running at {made.url} after {time.monotonic() - began:.0f} s ({directory}).",
                    flush=True,
                )
                if asked.serve:
                    signal.pause()
                without = documented.left_out(absent)
                outcomes = list(_shown(suite.run(asked.venv.resolve(), directory, asked.only, without, asked.workers)))
        except private_servers.ServerMissing as missing:
            print(missing, file=sys.stderr)
            return 3
    for line in report.lines(outcomes, fails):
        print(line)
    print(f"{time.monotonic() - began:.0f} s")
    for each in (missing := report.unnamed(outcomes, fails, absent)):
        print(f"docs/http-api.md does not name {each}", file=sys.stderr)
    return 1 if missing or not outcomes else 0


@contextlib.contextmanager
def _directory(given: pathlib.Path | None) -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory(prefix="fleet-tempest-") as scratch:
        directory = (given or pathlib.Path(scratch)).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        yield directory


def _shown(outcomes: Iterator[suite.Outcome]) -> Iterator[suite.Outcome]:
    """Print a line for each failure as it comes."""
    for count, each in enumerate(outcomes, 1):
        if each.status == suite.FAIL:
            print(f"{count:4} FAIL {each.name}", flush=True)
        yield each


if __name__ == "__main__":
    sys.exit(main())
