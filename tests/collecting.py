# SPDX-License-Identifier: Apache-2.0
"""Makes the collection of 10,000 tests cheap, which each process of a run does by itself."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pathlib
from collections.abc import Generator, Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without garbage collection, and leave what was made out of each garbage collection that follows.

    These 700,000 objects live until the end. Without this, garbage collection takes a third of the processor time of the
    collection, and a third of a second whenever a test ends before a thread that it has started.
    """
    gc.disable()
    try:
        if "PYTEST_XDIST_WORKER" in os.environ:
            _import_in_turn(list(_files(session.config)))
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _import_in_turn(files: list[pathlib.Path]) -> None:
    """Import the files, beginning with another one than the other processes.

    In a fresh clone, pytest rewrites the asserts of each file and stores the result, which takes 8 s of processor time for
    all files. So each process rewrites a part, and loads what the others have stored.
    """
    number, count = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    first = len(files) * number // count
    for path in (*files[first:], *files[:first]):
        # The collection imports it again, and reports what is wrong with it.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def _files(config: pytest.Config) -> Iterator[pathlib.Path]:
    """The files of tests that the command line names, in their order."""
    for argument in config.args:
        path = pathlib.Path(config.invocation_params.dir, argument.partition("::")[0]).resolve()
        yield from sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
