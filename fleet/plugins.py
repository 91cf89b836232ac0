# SPDX-License-Identifier: Apache-2.0
"""Imports the class that an option names by its dotted path, or gives the reason in one line.

Agents load drivers by it, and schedulers filters and weighers.
"""

from __future__ import annotations

import traceback

from oslo_utils import importutils


class NotImported(Exception):
    """The import failed. ``str()`` is the reason in one line; ``missing`` is the module that was not found, or ""."""

    def __init__(self, reason: str, missing: str = "") -> None:
        super().__init__(reason)
        self.missing = missing


def import_class(path: str) -> object:
    """Return the class at ``path``. :raises NotImported: it does not exist, or importing its module raised an exception"""
    try:
        return importutils.import_class(path)
    except ImportError as failed:
        missing = getattr(failed.__cause__ or failed, "name", None) or ""
        raise NotImported(_reason(failed), missing) from failed
    except (Exception, SystemExit) as failed:
        # Importing a plugin runs its code, which may raise anything.
        raise NotImported(f"importing it raised {in_one_line(failed)}") from failed


def _reason(failed: ImportError) -> str:
    """The last line of the cause: the message of importutils contains a traceback."""
    cause = failed.__cause__ or (failed.__context__ if isinstance(failed.__context__, AttributeError) else failed)
    return (str(cause).strip().splitlines() or [type(cause).__name__])[-1]


def in_one_line(failed: BaseException) -> str:
    """The class, the message and the place of an exception."""
    message = " ".join(str(failed.msg if isinstance(failed, SyntaxError) else failed).split())
    if isinstance(failed, SyntaxError):
        place = f"{failed.filename}, line {failed.lineno}"
    else:
        last = traceback.extract_tb(failed.__traceback__)[-1]
        place = f"{last.filename}, line {last.lineno}"
    return f"{type(failed).__name__}: {message} ({place})"
