# SPDX-License-Identifier: Apache-2.0
"""What two runs of one example print alike: uuids, times, durations and the widths of tables are taken out."""

from __future__ import annotations

import re

_REPLACED = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\breq-\S+"), "REQUEST"),
    (re.compile(r"\br-[0-9a-z]{8,}"), "RESERVATION"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "UUID"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)?"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "DURATION"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\bgeneration \d+"), "generation N"),
    (re.compile(r"(decision_ms *\|) *[\d.]+"), r"\1 DURATION"),
    # The first column of a timeline.
    (re.compile(r"^\|\s+\d+\.\d+ (?=\|)", re.MULTILINE), "| SECONDS "),
    (re.compile(r"^\+[-+]+\+$", re.MULTILINE), ""),
    # A warning of a slow machine
    (re.compile(r"^.* took .* more than scheduler_slow_filter_threshold .*$", re.MULTILINE), ""),
    (re.compile(r"[ \t]+"), " "),
]


def normal(text: str) -> list[str]:
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return [line.strip() for line in text.splitlines() if line.strip()]
