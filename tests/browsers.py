# SPDX-License-Identifier: Apache-2.0
"""Starts the browser of the tests of the page, of the pictures and of the benches."""

from __future__ import annotations

import os
import shutil

from playwright import sync_api


def find() -> str | None:
    """Return the path of Chromium's headless shell, which takes a third of its processor time, or of Chromium itself."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


def launch(driver: sync_api.Playwright) -> sync_api.Browser:
    # Chromium's sandbox does not work for root.
    options = ["--no-sandbox"] if os.getuid() == 0 else []
    return driver.chromium.launch(executable_path=find(), args=options)
