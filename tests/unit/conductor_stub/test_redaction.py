# SPDX-License-Identifier: Apache-2.0
"""What a project learns from answers of the conductor."""

from __future__ import annotations

import hashlib
import json

from conductor_stub.operators.redaction import answer_of, redact

KEY = "secret"
RAM = {"resource": "RAM", "unit": "MB", "lacks": 768.0, "limit": 4096}
NEAR = {
    "text": "host7 lacks 768 MB of RAM: limit 4096, used 4096, asked 768",
    "shortfalls": [RAM, {"resource": "x", "unit": None, "lacks": 1}],
}
FAULT = {
    "code": 500,
    "error": "NoValidHost",
    "message": "No valid host was found. Nearest: host7 lacks 768 MB of RAM: limit 4096.",
    "host": "host7",
    "details": {
        "reason_code": "CAPACITY",
        "filters": [{"name": "RamFilter", "start": 9, "end": 0, "best": "host7"}],
        "nearest": [{"text": "host7 is down"}, NEAR],
        "attempts": [{"host": "host7", "reason": "host7 said no"}],
    },
}


def test_a_fault_says_what_the_request_lacks() -> None:
    """Code, counts for each filter and the shortfall; no host, and no size of one."""
    shown = redact(FAULT, "web", KEY)
    said = "No valid host was found. Hosts: RamFilter kept 0 of 9. The nearest host lacks 768 MB of RAM, 1 of x."
    details = {"reason_code": "CAPACITY", "filters": [{"name": "RamFilter", "start": 9, "end": 0}]}
    assert {"code": 500, "error": "NoValidHost", "message": said, "details": details} == {
        name: value for name, value in shown.items() if name not in ("host", "host_id")
    }


def test_a_failure_of_another_kind() -> None:
    """Nothing was placed: the text does not say so."""
    failed = {
        "error": "ServiceDown",
        "message": "host7 is away",
        "details": {"reason_code": "HOSTS_DOWN", "host": "host7"},
    }
    shown = redact(failed, "web", KEY)
    assert ("It has failed. An administrator sees where and why.", {"reason_code": "HOSTS_DOWN"}) == (
        shown["message"],
        shown["details"],
    )
    assert "ServiceDown" == shown["error"]


def test_no_place_is_left_in_any_answer() -> None:
    """At any depth. What users have written is theirs, also under a name such as host."""
    mine = {"metadata": {"host": "mine"}, "scheduler_hints": {"requested_host": "mine"}}
    answer = {
        "instance": {"uuid": "u", "host": "host7", "node": "host7.n", "forced_host": "host7", **mine},
        "faults": [FAULT],
        "events": [{"event": "spawn", "host": "host7", "message": "host7 said no", "result": "failed"}],
        "migration": {"source_compute": "host7", "dest_node": "host7", "failure": FAULT},
        "queued": {"reason": "CAPACITY", "message": "host7 is full", "lacks": "5 MB of RAM"},
        "volumes": [{"host": "host7@files#a", "tried": [{"backend": "host7@files#a"}], "migration": {"pool": "host7"}}],
        "hosts": ["host7"],
    }
    shown = redact(answer, "web", KEY)
    text = json.dumps(shown)
    assert "host7" not in text
    assert "4096" not in text
    assert mine.items() <= shown["instance"].items()
    assert "5 MB of RAM" == shown["queued"]["lacks"]
    assert shown["events"][0]["message"] is None


def test_the_silent_host_of_a_build_is_not_named() -> None:
    """Its project learns for what the build waits."""
    answer = {"instance": {"uuid": "u"}, "waits_for": "host host7, which is silent and may run it"}
    shown = answer_of("show_instance", answer, "web", KEY)
    expected = "its host, which is silent: until it is back, or off for certain"
    assert {"instance": {"uuid": "u"}, "waits_for": expected} == shown


def test_a_quota_is_shown_as_it_is() -> None:
    """Its use is no size of a host."""
    quota = {"limits": {"cores": 8}, "used": {"cores": 3}}
    assert quota == redact(quota, "web", KEY)


def test_instances_of_one_host_have_one_id_of_it() -> None:
    """Another one for each project, and none without a host."""
    one, two, other, nowhere = (
        redact({"host": host}, project, KEY)["host_id"]
        for host, project in (("h1", "web"), ("h1", "web"), ("h1", "shop"), (None, "web"))
    )
    assert one == two
    assert 56 == len(one)
    assert one != other
    assert "" == nowhere


def test_the_name_of_a_host_cannot_be_confirmed() -> None:
    """Without the secret of the ledger, a guessed name gives another id."""
    real, *guessed = (redact({"host": "h1"}, "web", key)["host_id"] for key in (KEY, "guessed", ""))
    assert real not in (*guessed, hashlib.sha224(b"webh1").hexdigest())


def test_a_list_has_nothing_of_a_project_of_a_similar_name() -> None:
    """A database may take the two names for one."""
    listed = [{"uuid": "1", "project_id": "dev"}, {"uuid": "2", "project_id": "Dev"}, {"uuid": "3"}]
    assert [{"uuid": "1", "project_id": "dev"}, {"uuid": "3"}] == redact(listed, "dev", KEY)
