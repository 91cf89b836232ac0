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
        # import_class puts a traceback in its message; its last line is what went wrong.
        raise NotImported(str(failed.__cause__ or failed).strip().splitlines()[-1]) from failed
    except (Exception, SystemExit) as broken:
        raise NotImported(in_a_line(broken)) from broken


def in_a_line(broken: BaseException) -> str:
    """What a plugin raised, and where."""
    said = " ".join(str(broken.msg if isinstance(broken, SyntaxError) else broken).split())
    if isinstance(broken, SyntaxError):
        place = f"{broken.filename}, line {broken.lineno}"
    else:
        last = traceback.extract_tb(broken.__traceback__)[-1]
        place = f"{last.filename}, line {last.lineno}"
    return f"{type(broken).__name__}: {said} ({place})"
