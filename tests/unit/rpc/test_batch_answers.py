# SPDX-License-Identifier: Apache-2.0
"""How the answer of one call among several crosses the wire."""

from __future__ import annotations

from typing import Any

import oslo_messaging
import pytest
from oslo_serialization import jsonutils

from fleet import errors
from fleet.rpc import batch_answers

REFUSALS = [
    errors.StaleBuild(instance_uuid="u", attempt=2, reason="it is active"),
    errors.NotFound(kind="Instance", name="u"),
    errors.StaleIncarnation(host="h", pid=1, hostname="m", started_at="now"),
    errors.GroupAffinityViolation(instance_uuid="u", host="h", policy="affinity", group_uuid="g"),
    errors.ComputeResourcesUnavailable(reason="full"),
    errors.InvalidInput(field="steps.0.attempt", reason="must be a number"),
    errors.NoValidHost(reason="none", details={"considered": 3}),
]


def told(answer: dict[str, Any]) -> Any:
    return batch_answers.read(jsonutils.loads(jsonutils.dumps(answer)))


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: type(refusal).__name__)
def test_an_error_arrives_with_its_facts(refusal: errors.FleetError) -> None:
    """Of its class, with its message, and without a traceback."""
    with pytest.raises(type(refusal)) as refused:
        told(batch_answers.refusal(refusal))
    assert (refusal.kwargs, refusal.message) == (refused.value.kwargs, refused.value.message)


def test_a_result_arrives_as_it_is() -> None:
    """Also None and empty results."""
    assert [{"uuid": "u"}, None] == [told(batch_answers.result(value)) for value in ({"uuid": "u"}, None)]


@pytest.mark.parametrize("name", ["NotThereYet", "Reason", "FleetError.message", "NoValidHost"])
def test_an_error_of_a_later_release_is_an_unknown_outcome(name: str) -> None:
    """It is handled as for a single call: the caller repeats the call."""
    with pytest.raises(oslo_messaging.RemoteError) as unknown:
        told({"error": name, "facts": {"new": 1}, "message": "it was so"})
    assert (name, "it was so") == (unknown.value.exc_type, unknown.value.value)
