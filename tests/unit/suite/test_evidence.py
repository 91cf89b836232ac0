# SPDX-License-Identifier: Apache-2.0
"""The report of a test, as its process sends it."""

from __future__ import annotations

import pytest

from tests import evidence

HALF = "a name \udce9"


def test_any_text_of_a_report_can_be_sent(pytestconfig: pytest.Config) -> None:
    """A log, or what was compared, may have halves of surrogate pairs."""
    report = pytest.TestReport(
        *("tests/test_x.py::test_y", ("tests/test_x.py", 1, "test_y"), {}, "failed", HALF, "call"),
        sections=[("Captured log call", HALF)],
    )
    sent = pytestconfig.hook.pytest_report_to_serializable(config=pytestconfig, report=report)
    assert (r"a name \udce9", [("Captured log call", r"a name \udce9")]) == (sent["longrepr"], sent["sections"])
    assert {"a": [1, ("b", None)]} == evidence.sendable({"a": [1, ("b", None)]})
