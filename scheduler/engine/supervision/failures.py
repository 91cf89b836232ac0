# SPDX-License-Identifier: Apache-2.0
"""Formats an error of a plugin, with its line in the plugin's code, and makes a key that differs for different errors.

Called by :mod:`scheduler.engine.supervision.supervision`.
"""

from __future__ import annotations

import functools
import os
import traceback

_LONGEST_PROBLEM = 200
_PACKAGE = "scheduler"
_ENGINE = "scheduler.engine."


class WrongAnswer(TypeError):
    """A filter or weigher returned something that it must not return. The message says what."""


class Hangs(Exception):
    """A plugin has not answered within the time limit. The message says for how long."""


def problem(failure: Exception, plugin: object) -> str:
    """Return the problem in a few words on one line. The place is a file's name without its directory, and a line."""
    said = " ".join(str(failure).split())[:_LONGEST_PROBLEM]
    if isinstance(failure, (WrongAnswer, Hangs)):
        return said
    text = f"raised {type(failure).__name__}: {said}" if said else f"raised {type(failure).__name__}"
    at = _place(failure, type(plugin))
    return f"{text} at {at}" if at else text


def key(failure: Exception) -> tuple[str, str, int]:
    """Return the class of an error, and the file and line that raised it."""
    file, line = "", 0
    for frame, number in traceback.walk_tb(failure.__traceback__):
        file, line = frame.f_code.co_filename, number
    return type(failure).__name__, file, line


def is_our_module(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE


@functools.cache
def is_our_class(each: type) -> bool:
    """Return True for a class that comes with the scheduler."""
    return is_our_module(each.__module__)


def _place(failure: Exception, plugin: type) -> str:
    """Return the last place of an error in the plugin's own modules; empty if it was raised before they were reached."""
    ours = is_our_class(plugin)
    modules = {cls.__module__ for cls in plugin.__mro__ if is_our_module(cls.__module__) == ours}
    found = ""
    for frame, line in traceback.walk_tb(failure.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module in modules and not module.startswith(_ENGINE):
            found = f"{os.path.basename(frame.f_code.co_filename)}:{line}"
    return found
