# SPDX-License-Identifier: Apache-2.0
"""What a caller with the key of a project receives."""

from __future__ import annotations

from fleet.rpc.trust import redaction

SHORTFALL = {"resource": "RAM", "unit": "MB", "lacks": 768.0, "limit": 4096, "used": 4096, "asked": 768}
NEAR = {"text": "host7 lacks 768 MB", "host": "host7", "shortfalls": [SHORTFALL]}
FILTERS = [{"name": "RamFilter", "start": 9, "end": 0}]
FAULT = {
    "error": "NoValidHost",
    "message": "No valid host was found. Nearest: host7 lacks 768 MB of RAM.",
    "details": {"reason_code": "CAPACITY", "filters": FILTERS, "nearest": [NEAR]},
    "host": "host7",
}


def test_a_refusal_keeps_what_the_request_lacks() -> None:
    """The code, the counts per filter and the shortfalls stay; names and sizes of hosts go."""
    shown = redaction.without_hosts({"faults": [FAULT]})["faults"][0]
    assert ("CAPACITY", FILTERS) == (shown["message"], shown["details"]["filters"])
    (near,) = shown["details"]["nearest"]
    (lack,) = near["shortfalls"]
    assert (768.0, 768, None, None) == tuple(lack[name] for name in ("lacks", "asked", "limit", "used"))
    assert "host7" not in str(shown)
    assert "4096" not in str(shown)


def test_where_an_instance_is_is_not_shown() -> None:
    """What the user has written stays, also if it names a host."""
    instance = {"name": "host7", "host": "host7", "node": "host7", "scheduler_hints": {"host": "host7"}, "vcpus": 2}
    expected = {"name": "host7", "host": None, "node": None, "scheduler_hints": {"host": "host7"}, "vcpus": 2}
    assert [expected] == redaction.without_hosts([instance])


def test_a_quota_is_shown_as_it_is() -> None:
    """Its use is no size of a host."""
    quota = {"limits": {"cores": 8}, "used": {"cores": 3}}
    assert quota == redaction.without_hosts(quota)
