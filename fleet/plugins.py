# SPDX-License-Identifier: Apache-2.0
"""Imports what an option names by its dotted path, and says in a line why that failed."""

from __future__ import annotations

import traceback
from typing import Any

from oslo_utils import importutils


class NotImported(Exception):
    """Why: what was raised, and where in the plugin."""


def import_class(path: str) -> Any:
    """:raises NotImported: whatever the plugin raises while it is imported"""
    try:
        return importutils.import_class(path)
    except ImportError as failed:
        raise NotImported(why(failed)) from failed
    except (Exception, SystemExit) as broken:
        raise NotImported(in_a_line(broken)) from broken


def why(failed: ImportError) -> str:
    """What ``importutils.import_class`` could not import. Its own message has a traceback."""
    cause = failed.__cause__ or (failed.__context__ if isinstance(failed.__context__, AttributeError) else failed)
    return (str(cause).strip().splitlines() or [type(cause).__name__])[-1]


def in_a_line(broken: BaseException) -> str:
    """What a plugin raised, and where."""
    said = " ".join(str(broken.msg if isinstance(broken, SyntaxError) else broken).split())
    if isinstance(broken, SyntaxError):
        place = f"{broken.filename}, line {broken.lineno}"
    else:
        last = traceback.extract_tb(broken.__traceback__)[-1]
        place = f"{last.filename}, line {last.lineno}"
    return f"{type(broken).__name__}: {said} ({place})"
