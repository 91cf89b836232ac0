# SPDX-License-Identifier: Apache-2.0
"""The context follows a build over the wire and into every log line."""

from __future__ import annotations

import inspect
import json
import logging

import pytest
from oslo_context import context as oslo_context
from oslo_log import formatters

from fleet.context import RequestContext, new_context
from fleet.rpc.serializer import ContextSerializer


def test_a_context_survives_the_wire() -> None:
    """Request id, tenant and the build arrive as they were."""
    sent = new_context(project_id="p", user_id="u").about(instance_uuid="i", attempt=2, host="h1", migration="m")
    serializer = ContextSerializer()
    received = serializer.deserialize_context(serializer.serialize_context(sent))
    assert received.to_dict() == sent.to_dict()
    sent.user_name = "carl"
    assert "carl" == serializer.deserialize_context(serializer.serialize_context(sent)).user_name
    assert (received.instance_uuid, received.attempt, received.host, received.migration) == ("i", 2, "h1", "m")


@pytest.mark.parametrize("foreign", [{}, {"user": "x", "tenant": "y", "unknown": 1}, {"request_id": None}])
def test_a_foreign_context_still_has_a_request_id(foreign: dict[str, object]) -> None:
    """Other programs may send any context; every log line has a request id all the same."""
    assert ContextSerializer().deserialize_context(foreign).request_id.startswith("req-")


def test_a_json_line_names_request_instance_attempt_and_host() -> None:
    """oslo.log's JSON formatter finds the four facts in the context."""
    context = RequestContext(request_id="req-1").about(instance_uuid="i", attempt=2, host="h1")
    record = logging.LogRecord("fleet", logging.INFO, __file__, 1, "hello", (), None)
    line = json.loads(formatters.JSONFormatter().format(record))
    assert line["context"]["request_id"] == context.request_id == "req-1"
    facts = {name: line["context"][name] for name in ("instance_uuid", "attempt", "build_host")}
    assert facts == {"instance_uuid": "i", "attempt": 2, "build_host": "h1"}


def test_a_copy_for_a_notification_leaves_the_log_lines_alone() -> None:
    """oslo.messaging copies the context without its tokens; the lines after that are still about the build."""
    context = RequestContext(auth_token="secret").about(instance_uuid="i", attempt=2, host="h1")
    copy = context.redacted_copy()
    assert copy.auth_token is None
    assert (copy.instance_uuid, copy.attempt, copy.host) == ("i", 2, "h1")
    assert oslo_context.get_current() is context


def test_a_dictionary_is_read_as_oslo_context_reads_it() -> None:
    """Every value that a context can be made with arrives; what is not known is left out."""
    names = inspect.signature(oslo_context.RequestContext.__init__).parameters.keys() - {"self", "overwrite"}
    sent = {**RequestContext(project_id="p", is_admin=True, roles=["member"]).to_dict(), "unknown": 1}
    for each in [sent, {}, {"user": "u", "domain": "d", "read_only": True}, dict.fromkeys(names, "x")]:
        theirs = oslo_context.RequestContext.from_dict(each).to_dict()
        ours = RequestContext.from_dict(each).to_dict()
        made_up = {"request_id"} if "request_id" not in each else set()
        assert {key: theirs[key] for key in theirs.keys() - made_up} == {
            key: ours[key] for key in theirs.keys() - made_up
        }
