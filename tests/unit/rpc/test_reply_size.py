# SPDX-License-Identifier: Apache-2.0
"""Replies that no broker carries."""

from __future__ import annotations

import json

import pytest

from fleet.rpc.rabbit.lean import wire


def test_a_reply_that_is_too_large_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller is told at once, and the connection stays, with the replies of others."""
    result = ["x" * 100] * 10
    monkeypatch.setattr(wire, "MOST_BYTES", len(wire.reply_body("id", result)))
    sent = [json.loads(json.loads(wire.reply_body("id", each))["oslo.message"]) for each in (result, [*result, "y"])]
    assert [result, None] == [each["result"] for each in sent]
    assert [None, "InvalidInput"] == [each["failure"] and json.loads(each["failure"])["class"] for each in sent]
    assert "Ask for less of it" in sent[1]["failure"]
