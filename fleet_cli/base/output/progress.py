# SPDX-License-Identifier: Apache-2.0
"""Progress of a long command on standard error: a bar on a terminal, otherwise a line for each change.

Commands that wait or plan for long call it.
"""

from __future__ import annotations

import collections
import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

import tqdm

from fleet import control_characters
from fleet.client.connection import Record
from fleet_cli.base.output import plain_output


class Progress:
    """``show`` prints how many of ``total`` are done, and the state of the others."""

    def __init__(
        self, total: int, things: str, stream: TextIO | None, lines: int | None = None, done: str = "done"
    ) -> None:
        """:param stream: None to print nothing
        :param done: the word for those that are done
        :param lines: at most this many lines if the stream is no terminal; None: one for each change
        """
        self._every = max(1, total // lines) if lines else 1
        self._total = total
        self._things = things
        self._stream = stream
        self._done = done
        self._before = ""
        terminal = plain_output.unescaped(stream) if stream and stream.isatty() else None
        self._bar = tqdm.tqdm(total=total, unit=things, file=terminal, leave=False) if terminal else None

    def show(self, done: int, doing: str) -> None:
        text = f"{done} of {self._total} {self._things} {self._done}" + (f": {doing}" if doing else "")
        if text == self._before or self._stream is None:
            return
        if self._bar is None and done % self._every and done < self._total:
            return
        self._before = text
        if self._bar is None:
            print(text, file=self._stream, flush=True)
            return
        self._bar.n = done
        # The bar writes to the terminal itself, past the stream that escapes.
        self._bar.set_postfix_str(control_characters.one_line(doing))

    def show_of(self, done: int, total: int, doing: str) -> None:
        """Do :meth:`show` with a new total."""
        self._total = total
        if self._bar is not None:
            self._bar.total = total
        self.show(done, doing)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


@contextlib.contextmanager
def shown(
    total: int, things: str, verbose_level: int, lines: int | None = None, done: str = "done"
) -> Iterator[Progress]:
    """:param verbose_level: of the command line; 0 is --quiet"""
    made = Progress(total, things, sys.stderr if verbose_level else None, lines, done)
    try:
        yield made
    finally:
        made.close()


def counted(instances: Iterable[Record]) -> str:
    """Return the number of instances in each step."""
    steps = collections.Counter(str(each.get("task_state") or each["vm_state"]) for each in instances)
    return ", ".join(f"{number} {step}" for step, number in sorted(steps.items()))
