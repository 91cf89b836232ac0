# SPDX-License-Identifier: Apache-2.0
"""The report of ``make tempest``: causes of failures, and what the page of the HTTP API names."""

from __future__ import annotations

import re

import pytest

from tests.tempest import causes, documented, report, settings
from tests.tempest.suite import FAIL, SUCCESS, Outcome

_TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in test\n    self.call()\n{}\n'
CASES = [
    ("tempest.lib.exceptions.NotFound: Object not found\nDetails: there is no 405 here", "404: no such path or object"),
    ("tempest.lib.exceptions.InvalidHTTPResponseBody: HTTP response body is invalid json", "answer schema"),
    ("tempest.lib.exceptions.NotImplemented: Not implemented", "501: not there"),
    ("tempest.lib.exceptions.BadRequest: Bad request", "400: refused as malformed"),
    ("tempest.lib.exceptions.UnexpectedResponseCode: Unexpected response code\nDetails: 405", "405: no such method"),
    ("testtools.matchers._impl.MismatchError: 1 != 2", "behaviour"),
]
PAGE = """
### What Tempest does not try

| Test | Why |
|---|---|
| `compute.test_a.*`, `compute.test_b.B.test_c`, `some-enabled.option` | it is left out |

### What fails in Tempest

| `volume.test_d.*` | of another section |
"""


@pytest.mark.parametrize(("raised", "cause"), CASES, ids=[cause for _, cause in CASES])
def test_a_failure_has_a_cause(raised: str, cause: str) -> None:
    assert cause == causes.of(_TRACEBACK.format(raised))


def test_the_page_names_failures() -> None:
    known = documented.read(PAGE, documented.ABSENT)
    assert "it is left out" == documented.reason_of("tempest.api.compute.test_a.A.test_x", known)
    assert "it is left out" == documented.reason_of("tempest.api.compute.test_b.B.test_c", known)
    assert documented.reason_of("tempest.api.compute.test_b.B.test_d", known) is None
    assert documented.reason_of("tempest.api.volume.test_d.D.test_e", known) is None


def test_a_failure_that_the_page_does_not_name() -> None:
    known = documented.read(PAGE, documented.ABSENT)
    options = [documented.Known(("*-*enabled.*", "service_available.*"), "options")]
    outcomes = [
        Outcome("tempest.api.compute.test_a.A.test_x[id-1]", FAIL, "said"),
        Outcome("tempest.api.compute.test_b.B.test_d[id-2]", FAIL, "said"),
        Outcome("tempest.api.compute.test_b.B.test_e[id-3]", SUCCESS, ""),
    ]
    assert ["tempest.api.compute.test_b.B.test_d"] == report.unnamed(outcomes, known, options)
    assert "1 of 3 passed (33.3 %), 0 skipped" in "\n".join(report.lines(outcomes, known))


def test_the_page_names_what_a_fleet_does_not_have() -> None:
    known = documented.read(documented.PAGE.read_text(), documented.ABSENT)
    options = [f"{section}.{name}" for section, names in settings.ABSENT.items() for name in names]
    assert [] == [each for each in options if documented.reason_of(each, known) is None]


def test_what_does_not_run() -> None:
    """The expression that Tempest gets matches the tests of the first table, and the fixtures of their classes."""
    pattern = re.compile(documented.left_out(documented.read(PAGE, documented.ABSENT)))
    for name in ("compute.test_a.A.test_x[id-1,smoke]", "compute.test_b.B.test_c[id-2]"):
        assert pattern.match(f"tempest.api.{name}")
    for name in ("compute.test_b.B.test_cd[id-2]", "volume.test_d.D.test_x[id-3]"):
        assert not pattern.match(f"tempest.api.{name}")
