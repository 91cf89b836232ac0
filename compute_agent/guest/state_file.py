# SPDX-License-Identifier: Apache-2.0
"""Small JSON files that are written completely or not at all. The drivers keep the records of their guests in them."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any


def read(path: pathlib.Path) -> dict[str, Any] | None:
    """Return the object; None if there is no such file or no JSON object in it."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return values if isinstance(values, dict) else None


def write(path: pathlib.Path, values: dict[str, object]) -> None:
    """Write the file atomically. The directory must exist: a late writer must not bring back a destroyed guest."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(values, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        pathlib.Path(temporary).unlink(missing_ok=True)
        raise
