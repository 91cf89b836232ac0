# SPDX-License-Identifier: Apache-2.0
"""Errors keep their facts over the wire."""

from __future__ import annotations

import sys

import pytest
from oslo_messaging._drivers import common

from fleet import errors
from fleet.rpc import transport

SAMPLES = [
    errors.InvalidInput(field="request.name", reason="is too long"),
    errors.NotFound(kind="Flavor", name="m1"),
    errors.NoValidHost(reason="RamFilter left none.", details={"considered": 3}),
    errors.MaxRetriesExceeded(reason="three hosts", details={"attempts": []}),
    errors.ComputeResourcesUnavailable(reason="Free memory 1.00 MB < requested 2 MB"),
    errors.StaleBuild(instance_uuid="u", attempt=1, reason="it is deleted"),
    errors.StaleIncarnation(host="h", pid=1, hostname="m", started_at="then"),
    errors.GroupAffinityViolation(instance_uuid="u", host="h", policy="affinity", group_uuid="g"),
    errors.FilterNotFound(filter_name="NoFilter"),
]


@pytest.mark.parametrize("sent", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_arrives_as_itself(sent: errors.FleetError) -> None:
    """The caller catches the class that was raised, with the same attributes and the same message."""
    try:
        raise sent
    except errors.FleetError:
        data = common.serialize_remote_exception(sys.exc_info())
    received = common.deserialize_remote_exception(data, transport.ALLOWED_REMOTE_EXMODS)
    assert isinstance(received, type(sent))
    assert received.kwargs == sent.kwargs
    assert received.message == sent.message


def test_errors_are_named_by_the_package_on_the_wire() -> None:
    """Clients of other releases import errors from ``fleet.errors`` only."""
    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.FleetError)]
    assert 30 < len(found)
    assert {"fleet.errors"} == {each.__module__ for each in found}
