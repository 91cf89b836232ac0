# SPDX-License-Identifier: Apache-2.0
"""Small JSON files that are whole or not there."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any


def read(path: pathlib.Path) -> dict[str, Any] | None:
    """None when there is no such file, or it holds no JSON object."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return values if isinstance(values, dict) else None


def write(path: pathlib.Path, values: dict[str, Any]) -> None:
    """Whole even through a crash. The directory must exist: a destroyed guest is not brought back by a late writer."""
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
