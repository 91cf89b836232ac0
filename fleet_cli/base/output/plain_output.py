# SPDX-License-Identifier: Apache-2.0
"""Output of the commands: control characters in names and faults are escaped, so they do nothing to the terminal.

Called by :mod:`fleet_cli.main`, :mod:`fleet_cli.manage`, lists and progress lines.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from fleet import control_characters

_CLEAR = "\x1b[H\x1b[2J"


class PlainStream:
    """A stream of text. ``unescaped`` is the one below, for what the commands themselves do to a terminal."""

    def __init__(self, unescaped: TextIO) -> None:
        self.unescaped = unescaped

    def write(self, text: str) -> int:
        return self.unescaped.write(control_characters.lines(text))

    def writelines(self, texts: Any) -> None:
        for each in texts:
            self.write(each)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Within this context everything that is printed is plain."""
    with (
        contextlib.redirect_stdout(PlainStream(sys.stdout)),
        contextlib.redirect_stderr(PlainStream(sys.stderr)),
    ):
        yield


def unescaped(stream: Any) -> TextIO:
    """Return the stream below a plain one, or the stream itself."""
    found: TextIO = getattr(stream, "unescaped", stream)
    return found


def clear(stream: Any) -> None:
    """Clear the screen, if the stream is a terminal."""
    if stream.isatty():
        unescaped(stream).write(_CLEAR)
