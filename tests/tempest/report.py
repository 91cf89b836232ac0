# SPDX-License-Identifier: Apache-2.0
"""Failures by cause, and those that docs/http-api.md does not name."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

from tests.tempest import causes, settings
from tests.tempest.documented import Known, reason_of
from tests.tempest.suite import FAIL, SKIP, SUCCESS, Outcome


def lines(outcomes: Sequence[Outcome], known: list[Known]) -> Iterator[str]:
    """Yield the report: each failure by its cause, what was skipped, the counts."""
    failed = [each for each in outcomes if each.status == FAIL]
    by_cause: dict[str, list[Outcome]] = collections.defaultdict(list)
    for each in failed:
        by_cause[causes.of(each.reason)].append(each)
    for cause, found in sorted(by_cause.items(), key=lambda item: (-len(item[1]), item[0])):
        yield f"\n{cause}: {len(found)}"
        for each in sorted(found, key=lambda outcome: outcome.test):
            mark = " " if reason_of(each.name, known) else "!"
            yield f" {mark} {each.name}\n      {causes.summary(each.reason)}"
    counts = collections.Counter(each.status for each in outcomes)
    skipped = collections.Counter(each.reason.strip() for each in outcomes if each.status == SKIP)
    yield f"\nskipped: {counts[SKIP]}"
    for reason, count in sorted(skipped.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {count:4} {reason.splitlines()[0] if reason else ''}"
    ran = counts[SUCCESS] + counts[FAIL]
    share = 100 * counts[SUCCESS] / ran if ran else 0.0
    yield f"\n{counts[SUCCESS]} of {ran} passed ({share:.1f} %), {counts[SKIP]} skipped"


def unnamed(outcomes: Sequence[Outcome], fails: list[Known], absent: list[Known]) -> list[str]:
    """Return what the page has to name: failures, and features that the cloud does not have.

    :param fails: the tests that the page names as failing
    :param absent: what it says a fleet does not have
    """
    tests = [each.name for each in outcomes if each.status == FAIL and reason_of(each.name, fails) is None]
    options = [f"{section}.{name}" for section, names in settings.ABSENT.items() for name in names]
    return [*tests, *(each for each in options if reason_of(each, absent) is None)]
