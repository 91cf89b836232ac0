# SPDX-License-Identifier: Apache-2.0
"""Reads a subunit stream from its input and writes a line of JSON for each test that has ended.

The keys are ``id``, ``status`` (``success``, ``fail`` or ``skip``) and ``details`` (texts of attachments, by name).
"""

from __future__ import annotations

import json
import sys
from typing import Any

import subunit
import testtools


def _write(test: dict[str, Any]) -> None:
    if test["status"] == "exists":
        return
    details = {name: content.as_text() for name, content in test["details"].items()}
    print(json.dumps({"id": test["id"], "status": test["status"], "details": details}), flush=True)


def main() -> None:
    stream = subunit.ByteStreamToStreamResult(sys.stdin.buffer, non_subunit_name="stdout")
    result = testtools.StreamToDict(_write)
    result.startTestRun()
    try:
        stream.run(result)
    finally:
        result.stopTestRun()


if __name__ == "__main__":
    main()
