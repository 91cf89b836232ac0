# SPDX-License-Identifier: Apache-2.0
"""Formats log records: control characters in texts are escaped, so a record is one line. Only a traceback has several.

Called by :mod:`fleet.conf`.
"""

from __future__ import annotations

import copy
import logging

from fleet import control_characters


class PlainFormatter(logging.Formatter):
    """Escapes control characters in the message, and all but ends of lines in what another formatter makes of it."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if not message.isprintable():
            # Other handlers have formatters of their own.
            record = copy.copy(record)
            record.msg, record.args = control_characters.one_line(message), None
        text = self._formatter.format(record)
        trace = record.exc_text or record.stack_info
        line, end, rest = text.partition(f"\n{trace}") if trace else (text, "", "")
        # A formatter may add texts that are not of the message, such as oslo.log's summary of the exception.
        return f"{control_characters.one_line(line)}{control_characters.lines(end + rest)}"


def install() -> None:
    """Make every handler that there is write plain lines."""
    known = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    for handler in {id(each): each for logger in (logging.root, *known) for each in logger.handlers}.values():
        if not isinstance(handler.formatter, PlainFormatter):
            handler.setFormatter(PlainFormatter(handler.formatter or logging.Formatter()))
