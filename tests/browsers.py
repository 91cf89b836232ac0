# SPDX-License-Identifier: Apache-2.0
"""Finds the browser of the tests of the page, of the pictures and of the benches."""

from __future__ import annotations

import shutil


def find() -> str | None:
    """Return the path of Chromium's headless shell, which takes a third of its processor time, or of Chromium itself."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")
