# SPDX-License-Identifier: Apache-2.0
"""Answers in the form of a real nova-scheduler's, recorded."""

from __future__ import annotations

import json

import oslo_messaging
import pytest
from oslo_messaging._drivers import common

from fleet import errors
from scheduler.nova import answer
from scheduler.nova.answer import Found
from scheduler.nova.errors import NoValidHost, in_novas_form
from tests.unit.scheduler.nova import recordings

RECORDED = recordings.message("reply_1")["result"]


def _found(selection, resources=None) -> Found:
    """What a recorded Selection says."""
    data = selection["nova_object.data"]
    node = data["compute_node_uuid"]
    request = resources and {"allocations": {node: {"resources": resources}}, "mappings": {"": [node]}}
    return Found(
        data["service_host"],
        data["nodename"],
        data["compute_node_uuid"],
        data["cell_uuid"],
        data["availability_zone"],
        request=request,
    )


def test_selections_as_nova_scheduler_makes_them():
    """The same objects in the same versions, for the chosen host and the alternates."""
    made = answer.selections([[_found(each, {"DISK_GB": 1, "MEMORY_MB": 64, "VCPU": 1}) for each in RECORDED[0]]])
    assert recordings.contents(RECORDED) == recordings.contents(made)
    assert {("Selection", "nova", "1.1")} == {
        tuple(each[f"nova_object.{key}"] for key in ("name", "namespace", "version"))
        for each in (*RECORDED[0], *made[0])
    }


def test_a_selection_that_claims_nothing():
    """As in the recorded answer to the check of a rebuild."""
    recorded = recordings.message("reply_rebuild_check")["result"]
    made = answer.selections([[_found(recorded[0][0])]])
    assert recordings.contents(recorded) == recordings.contents(made)


def test_limits_of_cells():
    """Go with the chosen host; numbers of memory and disk do not, since nova's claim ignores them."""
    limits = {"memory_mb": 7.5, "numa_topology": {"cpu_allocation_ratio": 4.0, "ram_allocation_ratio": 1.0}}
    (((one,),),) = (answer.selections([[Found("h", "n", "u", "c", "z", limits)]]),)
    sent = recordings.contents(one)["limits"]
    assert {"numa_topology": limits["numa_topology"], "vcpu": None, "disk_gb": None, "memory_mb": None} == sent
    assert ["numa_topology"] == list(answer.dicts([[Found("h", "n", "u", "c", "z", limits)]])[0]["limits"])


def test_dicts():
    """The form before Selection objects."""
    recorded = recordings.message("reply_dicts")["result"]
    made = answer.dicts([[Found(each["host"], each["nodename"], "u", "c", "z")] for each in recorded])
    assert recorded == made


def test_no_valid_host_on_the_wire():
    """Class, module, arguments and keywords are those of nova's own exception."""
    recorded = json.loads(recordings.message("reply_no_valid_host")["failure"])
    try:
        raise NoValidHost("")
    except NoValidHost as refusal:
        sent = json.loads(common.serialize_remote_exception((type(refusal), refusal, refusal.__traceback__)))
    assert {**recorded, "tb": []} == {**sent, "tb": []}


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (errors.NoValidHost(reason="All are full.", details={"reason_code": "CAPACITY"}), "CAPACITY: All are full."),
        (errors.InvalidInput(field="a.b", reason="must be text"), "MISCONFIGURED: a.b must be text"),
        (
            errors.RequestExpired(late_s="1.5"),
            "MESSAGING: The scheduler received the request 1.5 s after its caller had stopped waiting.",
        ),
        (
            errors.PluginFailed(kind="Filter", plugin="Mine", problem="raised"),
            "MISCONFIGURED: Filter Mine failed: raised",
        ),
    ],
)
def test_every_refusal_becomes_no_valid_host(failure, reason):
    """nova catches no other by name."""
    made = in_novas_form(failure)
    assert (reason, f"No valid host was found. {reason}") == (made.kwargs["reason"], str(made))


def test_the_class_is_allowed_at_the_caller():
    """A client that allows nova.exception only gets no RemoteError: oslo.messaging looks at the module's name."""
    assert "nova.exception" == NoValidHost.__module__
    assert not issubclass(NoValidHost, oslo_messaging.MessagingException)
