# SPDX-License-Identifier: Apache-2.0
"""Volumes, from their request to their deletion: each step, and each step that is lost."""

from __future__ import annotations

import contextlib

import orjson
import oslo_messaging
import pytest

from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.volumes import claims, listing, together
from conductor_stub.volumes.machine import VolumeMachine
from conductor_stub.volumes.sweeper import VolumeSweeper
from fleet import errors
from fleet.db.engine.database import Database
from fleet.objects import Place
from tests.functional import databases
from tests.worlds.conductor import context
from tests.worlds.neighbours import no_valid_host
from tests.worlds.volumes import LIMITS, A, B, Volumes


@pytest.fixture
def volumes(database: Database) -> Volumes:
    return Volumes(database)


def test_a_volume_becomes_available(volumes: Volumes) -> None:
    """Space is claimed when the volume gets its pool; its agent makes it, and reports that."""
    uuid = volumes.ask(A, B, name="data", metadata={"a": "b"})
    assert ("creating", "working", 1, "m1@fast#p1") == volumes.row(uuid)
    assert [(A[0], uuid)] == volumes.backends.orders
    assert [(10, 1), (0, 0)] == volumes.allocated()
    assert "available" == volumes.done(uuid)
    assert ("available", None, 1, "m1@fast#p1") == volumes.row(uuid)
    (spec, properties) = volumes.volume_scheduler.requests[0]
    assert (10, uuid, "create_volume") == (spec["volume_properties"]["size"], spec["volume_id"], spec["operation"])
    assert {"num_attempts": 1, "hosts": [], "backends": []} == properties["retry"]


def test_a_type_is_stored_with_the_volume(volumes: Volumes) -> None:
    """A volume keeps the extra specs that it was made with."""
    volumes.operator.create_volume_type({"name": "thick", "extra_specs": {"provisioning:type": "thick", "x": "1"}})
    uuid = volumes.ask(A, volume_type="thick")
    volumes.operator.update_volume_type("thick", {"x": None, "y": "2"})
    assert {"provisioning:type": "thick", "y": "2"} == volumes.operator.list_volume_types()[0]["extra_specs"]
    spec = volumes.volume_scheduler.requests[0][0]
    assert {"provisioning:type": "thick", "x": "1"} == spec["volume_type"]["extra_specs"]
    volumes.operator.delete_volume_type("thick")
    assert "thick" == volumes.operator.show_volume(uuid)["volume_type"]
    with pytest.raises(errors.NotFound):
        volumes.operator.create_volumes({"size": 1, "volume_type": "thick"})


def test_a_private_type_is_for_the_projects_that_have_access(volumes: Volumes) -> None:
    """For others it does not exist: they can neither see it, nor make a volume of it, nor retype one to it."""
    volumes.operator.create_volume_type({"name": "gold", "is_public": False})
    web, shop = (volumes.operator.under(project, is_admin=False) for project in ("web", "shop"))
    assert ["web"] == volumes.operator.add_volume_type_access("gold", "web")
    assert [("gold", False)] == [(each["name"], each["is_public"]) for each in web.list_volume_types()]
    assert [] == shop.list_volume_types()
    volumes.volume_scheduler.answers.append([A])
    web.create_volumes({"size": 1, "volume_type": "gold"})
    uuid = volumes.available()
    for refused in (
        lambda: shop.create_volumes({"size": 1, "volume_type": "gold"}),
        lambda: shop.retype_volume(uuid, "gold"),
        lambda: shop.list_volumes({"volume_type": "gold", "project_id": "shop"}),
    ):
        with pytest.raises(errors.NotFound, match="Volume type gold could not be found"):
            refused()
    with pytest.raises(errors.Conflict, match="is open to project web already"):
        volumes.operator.add_volume_type_access("gold", "web")
    assert [] == volumes.operator.remove_volume_type_access("gold", "web")
    assert [] == web.list_volume_types()
    with pytest.raises(errors.NotFound, match="of project web could not be found"):
        volumes.operator.remove_volume_type_access("gold", "web")
    volumes.operator.add_volume_type_access("gold", "shop")
    volumes.operator.update_volume_type("gold", {}, is_public=True)
    assert ["gold"] == [each["name"] for each in web.list_volume_types()]
    with pytest.raises(errors.Conflict, match="is public"):
        volumes.operator.list_volume_type_access("gold")
    volumes.operator.delete_volume_type("gold")
    assert [] == volumes.operator.list_volume_types()


def test_a_request_that_is_wrong_names_its_field(volumes: Volumes) -> None:
    """A misspelt key is an error, an unknown one a warning."""
    for request, field in (
        ({"size": 0}, "request.size"),
        ({}, "request.size"),
        ({"size": 1, "coun": 2}, "request.coun"),
    ):
        with pytest.raises(errors.InvalidInput, match=field):
            volumes.operator.create_volumes(request)
    assert ["request.colour is not known and is ignored"] == volumes.operator.create_volumes({"size": 1, "colour": 1})[
        "warnings"
    ]


def test_several_volumes_are_numbered(volumes: Volumes) -> None:
    """Each is placed on its own."""
    volumes.volume_scheduler.answers += [[A], [B]]
    made = volumes.operator.create_volumes({"size": 60, "name": "v", "count": 2})["volumes"]
    assert ["v-1", "v-2"] == [each["name"] for each in made]
    assert 2 == volumes.serve()
    assert [(60, 1), (60, 1)] == volumes.allocated()


def test_a_refused_claim_goes_to_the_next_alternate(volumes: Volumes) -> None:
    """No attempt is spent, and the scheduler is not called again."""
    volumes.ask(A, size=95)
    uuid = volumes.ask(A, B)
    assert ("creating", "working", 1, "m2@slow#p2") == volumes.row(uuid)
    assert [(95, 1), (10, 1)] == volumes.allocated()


def test_claims_that_are_always_refused_end(volumes: Volumes) -> None:
    """A scheduler that does not see that the pools are full is called three times."""
    volumes.ask(A, size=95)
    uuid = volumes.ask(A)
    assert ("creating", "scheduling", 1, None) == volumes.row(uuid)
    for _ in range(2):
        volumes.volume_scheduler.answers.append([A])
        volumes.clock.advance(5)
        assert 1 == volumes.volume_sweeper.sweep()
        volumes.serve()
    assert ("error", None, 1, None) == volumes.row(uuid)
    failure = volumes.operator.show_volume(uuid)["failure"]
    assert ("PoolSpaceUnavailable", "RACE_LOST") == (failure["error"], failure["details"]["reason_code"])
    assert "pool m1@fast#p1 lacks 5 GiB: free 5 of 100, reserved 0 %" in failure["message"]


def test_no_pool_is_an_error_with_the_reason(volumes: Volumes) -> None:
    """The volume claims nothing, and is deleted at once."""
    volumes.volume_scheduler.answers.append(no_valid_host())
    (made,) = volumes.operator.create_volumes({"size": 10})["volumes"]
    volumes.serve()
    assert ("error", None, 1, None) == volumes.row(made["uuid"])
    assert "NoValidHost" == volumes.operator.show_volume(made["uuid"])["failure"]["error"]
    assert "deleted" == volumes.operator.delete_volume(made["uuid"])["status"]
    assert [] == volumes.operator.list_volumes()


def test_a_backend_that_fails_is_followed_by_the_alternate(volumes: Volumes) -> None:
    """Its claim is released; the next attempt claims on the other pool."""
    uuid = volumes.ask(A, B)
    volumes.fails(uuid)
    assert ("creating", "working", 2, "m2@slow#p2") == volumes.row(uuid)
    assert [(0, 0), (10, 1)] == volumes.allocated()
    volumes.fails(uuid)
    assert ("creating", "working", 2, "m2@slow#p2") == volumes.row(uuid), "a late message of the first attempt"
    volumes.fails(uuid, B[0], attempt=2)
    assert ("error", None, 2, None) == volumes.row(uuid)
    assert [(0, 0), (0, 0)] == volumes.allocated()
    failure = volumes.operator.show_volume(uuid)["failure"]
    assert "MaxRetriesExceeded" == failure["error"]
    assert "tried 2 times: m1@fast#p1 in step creating: the disk is full; m2@slow#p2" in failure["message"]


def test_without_an_alternate_the_scheduler_is_called_again(volumes: Volumes) -> None:
    """It receives the pools that were tried."""
    uuid = volumes.ask(A)
    volumes.volume_scheduler.answers.append([B])
    volumes.fails(uuid)
    assert 1 == volumes.serve()
    assert ("creating", "working", 2, "m2@slow#p2") == volumes.row(uuid)
    retry = volumes.volume_scheduler.requests[1][1]["retry"]
    assert {"num_attempts": 2, "hosts": ["m1@fast#p1"], "backends": ["m1@fast#p1"]} == retry


def test_a_backend_without_queue_is_replaced_at_once(volumes: Volumes) -> None:
    """It does not count as tried. Without an alternate the sweeper tries again a little later."""
    volumes.backends.without_queue = {A[0]}
    uuid = volumes.ask(A, B)
    assert ("creating", "working", 2, "m2@slow#p2") == volumes.row(uuid)
    other = volumes.ask(A)
    assert ("creating", "scheduling", 2, None) == volumes.row(other)
    assert [[], []] == [volumes.operator.show_volume(each)["tried"] for each in (uuid, other)]
    assert 0 == volumes.serve()
    assert [(0, 0), (10, 1)] == volumes.allocated()


def test_a_backend_that_was_killed_after_its_order_removes_what_it_has_made(volumes: Volumes) -> None:
    """Its queue is gone before the backend counts as silent. The volume is made elsewhere at once."""
    uuid = volumes.ask(A, B)
    volumes.backends.without_queue = {A[0]}
    volumes.clock.advance(31)
    volumes.volume_sweeper.sweep()
    assert ("creating", "working", 2, "m2@slow#p2") == volumes.row(uuid)
    assert ([uuid], []) == tuple(volumes.volume_progress.removable(each[0], [uuid]) for each in (A, B))
    volumes.done(uuid, host=B[0])
    assert [uuid] == volumes.volume_progress.removable(A[0], [uuid])


def test_data_are_removable_from_the_pool_that_they_were_left_on(volumes: Volumes) -> None:
    """On another pool of the backend may be all that there is. What is deleted goes from each.

    An earlier agent names no pool.
    """
    uuid = volumes.ask(A, B)
    volumes.backends.without_queue = {A[0]}
    volumes.clock.advance(31)
    volumes.volume_sweeper.sweep()
    volumes.done(uuid, host=B[0])
    ask = volumes.volume_progress.removable
    assert ([uuid], [], [uuid]) == tuple(ask(A[0], [uuid], pool) for pool in (A[1], "archive", None))
    volumes.operator.delete_volume(uuid)
    volumes.done(uuid, "deleting", B[0])
    assert ([uuid], [uuid]) == tuple(ask(A[0], [uuid], pool) for pool in (A[1], "archive"))


def test_a_report_from_before_the_queue_was_gone_is_late(volumes: Volumes) -> None:
    """The agent was killed after it had sent it, and has removed what it had made. The same pool is chosen again."""
    uuid = volumes.ask(A)
    volumes.backends.without_queue = {A[0]}
    volumes.clock.advance(31)
    volumes.volume_sweeper.sweep()
    volumes.backends.without_queue.clear()
    volumes.volume_scheduler.answers.append([A])
    volumes.clock.advance(31)
    volumes.volume_sweeper.sweep()
    volumes.serve()
    assert ("creating", "working", 2, "m1@fast#p1") == volumes.row(uuid)
    assert "creating" == volumes.done(uuid, attempt=1)
    assert "available" == volumes.done(uuid, attempt=2)


def test_lost_messages_are_repeated(volumes: Volumes) -> None:
    """Each step that is overdue is handed out again, by whichever conductor sweeps."""
    (made,) = volumes.operator.create_volumes({"size": 10})["volumes"]
    uuid = made["uuid"]
    volumes.volumes.cast.clear()
    volumes.clock.advance(31)
    volumes.volume_sweeper.sweep()
    volumes.volume_scheduler.answers.append(oslo_messaging.MessagingTimeout("lost"))
    assert 1 == volumes.serve()
    assert ("creating", "scheduling", 1, None) == volumes.row(uuid)
    volumes.clock.advance(4)
    volumes.volume_sweeper.sweep()
    volumes.volume_scheduler.answers.append([A])
    volumes.serve()
    volumes.backends.orders.clear()
    volumes.clock.advance(25)
    assert 0 == volumes.volume_sweeper.sweep()
    volumes.clock.advance(6)
    volumes.add_backend(*A)
    assert 1 == volumes.volume_sweeper.sweep()
    assert [(A[0], uuid)] == volumes.backends.orders
    assert "available" == volumes.done(uuid)
    assert "available" == volumes.done(uuid), "a repeated report changes nothing"
    volumes.clock.advance(1000)
    assert 0 == volumes.volume_sweeper.sweep()


def test_a_conductor_that_dies_while_it_places_is_followed_by_another(volumes: Volumes) -> None:
    """A row that was taken and not placed waits again."""
    (made,) = volumes.operator.create_volumes({"size": 10})["volumes"]
    machine, ctx = volumes.volume_placement._machine, volumes.volume_placement.step_context()
    assert 1 == len(volumes.database.write(machine.take, [made["uuid"]], 1, ctx))
    assert 1 == volumes.serve(), "the message finds the row taken"
    assert ("creating", "placing", 1, None) == volumes.row(made["uuid"])
    volumes.clock.advance(31)
    volumes.volume_sweeper.sweep()
    volumes.volume_scheduler.answers.append([B])
    assert 1 == volumes.serve()
    assert ("creating", "working", 1, "m2@slow#p2") == volumes.row(made["uuid"])


def test_a_long_list_comes_in_parts(volumes: Volumes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Oldest first; an answer that would be too large is refused, and says how many fit."""
    made = []
    for _volume in range(5):
        (one,) = volumes.operator.create_volumes({"size": 1})["volumes"]
        made.append(one["uuid"])
        volumes.clock.advance(1)
    ask = volumes.operator.list_volumes
    assert made[:2] == [each["uuid"] for each in ask(limit=2)]
    assert made[2:4] == [each["uuid"] for each in ask({"status": "creating"}, limit=2, marker=made[1])]
    assert made[4:] == [each["uuid"] for each in ask(limit=2, marker=made[3])]
    with pytest.raises(errors.NotFound, match=made[0]):
        ask({"project_id": "shop"}, marker=made[0])
    monkeypatch.setattr(listing, "MOST_BYTES", len(orjson.dumps(ask(limit=3))))
    with pytest.raises(errors.InvalidInput, match="limit must be at most 3 here"):
        ask()


def test_a_silent_backend_is_given_up(volumes: Volumes) -> None:
    """The volume goes on to the alternate; what the backend may have made is removed when it comes back."""
    uuid = volumes.ask(A, B)
    volumes.clock.advance(61)
    volumes.add_backend(*B)
    volumes.volume_sweeper.sweep()
    assert ("creating", "working", 2, "m2@slow#p2") == volumes.row(uuid)
    assert [uuid] == volumes.volume_progress.removable(A[0], [uuid])
    assert [] == volumes.volume_progress.removable(B[0], [uuid])


def test_a_volume_that_takes_too_long_is_in_error_and_keeps_its_space(volumes: Volumes) -> None:
    """Its backend is alive and may still make it. Deleting it releases the space."""
    uuid = volumes.ask(A, B)
    volumes.clock.advance(601)
    volumes.add_backend(*A)
    volumes.volume_sweeper.sweep()
    assert ("error", None, 1, "m1@fast#p1") == volumes.row(uuid)
    failure = volumes.operator.show_volume(uuid)["failure"]
    assert "The volume was not available within 600 s: lost in step working on backend m1@fast." == failure["message"]
    assert "error" == volumes.done(uuid)
    assert [(10, 1), (0, 0)] == volumes.allocated()
    volumes.operator.delete_volume(uuid)
    assert ("deleting", "working") == volumes.row(uuid)[:2]
    assert "deleted" == volumes.done(uuid, "deleting")
    assert [(0, 0), (0, 0)] == volumes.allocated()


def test_a_volume_is_deleted_by_its_backend(volumes: Volumes) -> None:
    """Its space stays claimed until the backend has removed it. The order is repeated."""
    uuid = volumes.ask(A)
    volumes.done(uuid)
    assert "deleting" == volumes.operator.delete_volume(uuid)["status"]
    volumes.operator.delete_volume(uuid)
    assert [(A[0], uuid)] * 3 == volumes.backends.orders
    volumes.clock.advance(500)
    volumes.volume_sweeper.sweep()
    assert (("deleting", "working", 1, "m1@fast#p1"), [(10, 1), (0, 0)]) == (volumes.row(uuid), volumes.allocated())
    assert [(A[0], uuid)] * 4 == volumes.backends.orders
    assert "deleted" == volumes.done(uuid, "deleting")
    assert "deleted" == volumes.done(uuid, "deleting")
    assert [(0, 0), (0, 0)] == volumes.allocated()
    with pytest.raises(errors.NotFound):
        volumes.operator.show_volume("data")


def test_a_deletion_does_not_wait_for_ever(volumes: Volumes) -> None:
    """After its deadline it is an error that says what was waited for. The space stays claimed; a late report counts."""
    for late in (True, False):
        uuid = volumes.available()
        volumes.operator.delete_volume(uuid)
        volumes.clock.advance(601)
        volumes.volume_sweeper.sweep()
        assert ("error_deleting", None, 1, "m1@fast#p1") == volumes.row(uuid)
        failure = volumes.operator.show_volume(uuid)["failure"]
        assert "The volume was not removed within 600 s: lost in step working on backend m1@fast." == failure["message"]
        assert [(10, 1), (0, 0)] == volumes.allocated()
        if not late:
            assert "deleting" == volumes.operator.delete_volume(uuid)["status"]
        assert "deleted" == volumes.done(uuid, "deleting")
        assert [(0, 0), (0, 0)] == volumes.allocated()


def test_a_volume_is_extended(volumes: Volumes) -> None:
    """Its growth is claimed at once; it has its new size when the backend has made it."""
    uuid = volumes.available()
    volumes.backends.orders.clear()
    for _ in range(2):
        shown = volumes.operator.extend_volume(uuid, 30)
        assert ("extending", 10) == (shown["status"], shown["size_gb"])
    assert ([(30, 1), (0, 0)], [(A[0], uuid)] * 2) == (volumes.allocated(), volumes.backends.orders)
    assert "available" == volumes.done(uuid, "extending")
    assert ("available", None, 2, "m1@fast#p1") == volumes.row(uuid)
    assert 30 == volumes.operator.show_volume(uuid)["size_gb"]


def test_an_extension_that_fails_leaves_the_volume_as_it_was(volumes: Volumes) -> None:
    """The growth is released, and the failure says why."""
    uuid = volumes.available()
    volumes.operator.extend_volume(uuid, 30)
    failure = Failure("extending", "OSError", "the disk is full")
    volumes.volume_progress.fail(context(), Attempt(uuid, 2, A[0]), "extending", failure)
    shown = volumes.operator.show_volume(uuid)
    assert ("available", 10) == (shown["status"], shown["size_gb"])
    assert "The volume was not extended: the disk is full" == shown["failure"]["message"]
    assert [(10, 1), (0, 0)] == volumes.allocated()


def test_a_failed_extension_keeps_what_an_earlier_one_has_left(volumes: Volumes) -> None:
    """The report of the earlier one was lost. The ledger gets the size that the data have, and its pool promises no more."""
    uuid = volumes.available()
    volumes.operator.extend_volume(uuid, 80)
    volumes.clock.advance(601)
    volumes.volume_sweeper.sweep()
    volumes.operator.extend_volume(uuid, 90)
    volumes.fails(uuid, status="extending", size_gb=80)
    assert ("available", [(80, 1), (0, 0)]) == (volumes.row(uuid)[0], volumes.allocated())
    assert 80 == volumes.operator.show_volume(uuid)["size_gb"]


def test_an_extension_whose_former_failure_comes_late_counts(volumes: Volumes) -> None:
    """The agent that failed has died, and the next one has done it: its report takes the growth again, once."""
    uuid = volumes.available()
    volumes.operator.extend_volume(uuid, 30)
    volumes.fails(uuid, status="extending")
    assert ("available", [(10, 1), (0, 0)]) == (volumes.row(uuid)[0], volumes.allocated())
    for _ in range(2):
        volumes.done(uuid, "extending")
        shown = volumes.operator.show_volume(uuid)
        assert (30, None, [(30, 1), (0, 0)]) == (shown["size_gb"], shown["failure"], volumes.allocated())


def test_a_copy_is_made_on_the_pool_of_its_source(volumes: Volumes) -> None:
    """It has the size and the type of the source, unless the request has others."""
    volumes.operator.create_volume_type({"name": "fast", "extra_specs": {"a": "1"}})
    source = volumes.available(volume_type="fast", name="source")
    copy = volumes.ask(A, size=None, source="source")
    spec = volumes.volume_scheduler.requests[1][0]
    assert ("m1@fast#p1", source) == (spec["resource_backend"], spec["source_volid"])
    shown = volumes.operator.show_volume(copy)
    assert (10, "fast", source) == (shown["size_gb"], shown["volume_type"], shown["source"])
    assert [source] == [each.source_uuid for each in volumes.volume_progress.of_host(A[0], [copy])]
    with pytest.raises(errors.InvalidInput, match="must be at least that of the source, 10 GiB, got 9"):
        volumes.ask(A, size=9, source="source")
    volumes.operator.delete_volume("source")
    with pytest.raises(errors.Conflict, match="is deleting, not available"):
        volumes.ask(A, size=10, source="source")


IMAGE = {"name": "linux", "location": "/images/linux.raw", "min_disk": 3, "checksum": f"sha256:{64 * 'a'}"}


def test_a_volume_begins_with_an_image(volumes: Volumes) -> None:
    """The backend gets what it needs to read it. The size is at least what the image needs, and that by default."""
    image = volumes.operator.create_image(IMAGE)
    uuid = volumes.ask(A, size=None, image="linux")
    shown = volumes.operator.show_volume(uuid)
    assert (3, "linux") == (shown["size_gb"], shown["image"])
    spec = volumes.volume_scheduler.requests[0][0]
    assert (image["uuid"], None) == (spec["image_id"], spec["resource_backend"])
    (sent,) = volumes.volume_progress.of_host(A[0], [uuid])
    assert sent.image is not None
    assert (IMAGE["location"], IMAGE["checksum"], "raw") == (
        *(sent.image.location, sent.image.checksum, sent.image.disk_format),
    )
    with pytest.raises(errors.InvalidInput, match="must be at least what the image needs, 3 GiB, got 2"):
        volumes.ask(A, size=2, image="linux")
    with pytest.raises(errors.InvalidInput, match="request.image cannot be given together with source"):
        volumes.ask(A, image="linux", source=uuid)
    with pytest.raises(errors.NotFound, match="other"):
        volumes.ask(A, image="other")
    volumes.operator.create_image({"name": "small", "location": "/images/small", "size": 5 * 2**30 + 1})
    assert 6 == volumes.operator.show_volume(volumes.ask(A, size=None, image="small"))["size_gb"]
    volumes.operator.create_image({"name": "unknown", "location": "/images/unknown"})
    with pytest.raises(errors.InvalidInput, match="request.size is required"):
        volumes.ask(A, size=None, image="unknown")


def test_an_image_that_no_backend_can_use_is_not_tried_again(volumes: Volumes) -> None:
    """Another backend reads the same bytes."""
    volumes.operator.create_image(IMAGE)
    uuid = volumes.ask(A, B, size=None, image="linux")
    failure = Failure("creating", "ImageUnacceptable", "Image linux is unacceptable: has the checksum …")
    volumes.volume_progress.fail(context(), Attempt(uuid, 1, A[0]), "creating", failure)
    assert ("error", None, 1, None) == volumes.row(uuid)
    assert (
        "was tried 1 time: m1@fast#p1 in step creating: Image linux is"
        in (volumes.operator.show_volume(uuid)["failure"]["message"])
    )


def test_a_volume_that_cannot_be_extended_is_refused(volumes: Volumes) -> None:
    """With the numbers of its pool, its status, or its size."""
    uuid = volumes.available()
    with pytest.raises(errors.PoolSpaceUnavailable, match="lacks 1 GiB: free 90 of 100"):
        volumes.operator.extend_volume(uuid, 101)
    with pytest.raises(errors.InvalidInput, match="must be more than the present 10 GiB, got 10"):
        volumes.operator.extend_volume(uuid, 10)
    with pytest.raises(errors.InvalidInput, match="size"):
        volumes.operator.extend_volume(uuid, 0)
    volumes.operator.delete_volume(uuid)
    with pytest.raises(errors.Conflict, match="is deleting, not available"):
        volumes.operator.extend_volume(uuid, 20)
    assert [(10, 1), (0, 0)] == volumes.allocated()


def test_an_extension_waits_for_its_backend_until_its_deadline(volumes: Volumes) -> None:
    """Only this backend can do it, and it may have done it: the growth stays claimed. A late report counts."""
    uuid = volumes.available()
    volumes.operator.extend_volume(uuid, 30)
    volumes.clock.advance(500)
    volumes.volume_sweeper.sweep()
    assert ("extending", "working", 2, "m1@fast#p1") == volumes.row(uuid)
    volumes.clock.advance(101)
    volumes.volume_sweeper.sweep()
    assert ("error_extending", None, 2, "m1@fast#p1") == volumes.row(uuid)
    failure = volumes.operator.show_volume(uuid)["failure"]
    assert "The volume was not extended within 600 s: lost in step working on backend m1@fast." == failure["message"]
    assert [(30, 1), (0, 0)] == volumes.allocated()
    assert "error_extending" == volumes.done(uuid, "extending", attempt=1)
    assert "available" == volumes.done(uuid, "extending")
    shown = volumes.operator.show_volume(uuid)
    assert (30, None) == (shown["size_gb"], shown["failure"])


def test_a_late_extension_is_asked_for_again(volumes: Volumes) -> None:
    """To no less than what was claimed. A report that it failed gives the growth back."""
    uuid = volumes.available()
    volumes.operator.extend_volume(uuid, 30)
    volumes.clock.advance(601)
    volumes.volume_sweeper.sweep()
    with pytest.raises(errors.InvalidInput, match="must be at least 30 GiB, got 20"):
        volumes.operator.extend_volume(uuid, 20)
    volumes.operator.extend_volume(uuid, 40)
    assert [(40, 1), (0, 0)] == volumes.allocated()
    volumes.clock.advance(601)
    volumes.volume_sweeper.sweep()
    volumes.fails(uuid, status="extending")
    assert ("available", [(10, 1), (0, 0)]) == (volumes.row(uuid)[0], volumes.allocated())
    volumes.operator.delete_volume(uuid)
    assert "deleted" == volumes.done(uuid, "deleting")
    assert [(0, 0), (0, 0)] == volumes.allocated()


def test_a_volume_may_be_deleted_while_it_is_made(volumes: Volumes) -> None:
    """The report that it is made comes too late, and changes nothing."""
    uuid = volumes.ask(A)
    volumes.operator.delete_volume(uuid)
    assert "deleting" == volumes.done(uuid)
    assert "deleted" == volumes.done(uuid, "deleting")


def test_pools_are_listed_with_the_state_of_their_agent(volumes: Volumes) -> None:
    """Their names are locations; a name without pool lists those of a backend."""
    names = [each["name"] for each in volumes.operator.list_pools()]
    assert ["m1@fast#p1", "m2@slow#p2"] == names
    (pool,) = volumes.operator.list_pools("m1@fast")
    assert ("up", False, 1.0) == (pool["state"], pool["disabled"], pool["over_subscription"])
    with pytest.raises(errors.NotFound):
        volumes.operator.list_pools("m1@nowhere")


def test_a_list_of_pools_reads_no_hosts(volumes: Volumes, database: Database) -> None:
    """Any member may ask for the zones of volumes, which are those of the pools. A fleet may have 100,000 hosts."""
    with databases.statements(database.engine) as read:
        assert 2 == len(volumes.operator.list_pools())
    (of_services,) = [each for each in read if "FROM services" in each]
    assert "binary" in of_services.partition("WHERE")[2].partition("ORDER BY")[0]


def test_a_report_that_is_refused_does_not_hold_back_others(volumes: Volumes) -> None:
    """The answer says which was refused, and why. The pool keeps its last good report."""
    good = {"total_capacity_gb": 7, "free_capacity_gb": 7}
    reports = [
        {"host": A[0], "pool": A[1], "capabilities": {"total_capacity_gb": -1, "free_capacity_gb": 1}},
        {"host": A[0], "pool": "new", "capabilities": good},
    ]
    refused, accepted = volumes.volume_progress.report(reports, {A[0]: [A[1], "new"]})
    assert (False, True) == (refused["accepted"], accepted["accepted"])
    assert "total_capacity_gb" in refused["reason"]
    assert [7.0, 100.0] == [each["total_capacity_gb"] for each in volumes.operator.list_pools(A[0])]
    volumes.volume_progress.report([], {A[0]: ["new"]})
    assert ["m1@fast#new"] == [each["name"] for each in volumes.operator.list_pools(A[0])]


def test_a_backend_that_is_gone_is_removed_with_its_pools(volumes: Volumes) -> None:
    """Not while it is up, nor while it has volumes."""
    uuid = volumes.available(name="data")
    with pytest.raises(errors.Conflict, match="up"):
        volumes.operator.delete_service(A[0], "fleet-volume")
    volumes.clock.advance(61)
    with pytest.raises(errors.Conflict, match="Storage backend m1@fast has 1 volume"):
        volumes.operator.delete_service(A[0], "fleet-volume")
    volumes.operator.delete_volume(uuid)
    volumes.done(uuid, "deleting")
    volumes.operator.delete_service(A[0], "fleet-volume")
    assert ["m2@slow#p2"] == [each["name"] for each in volumes.operator.list_pools()]


def test_a_list_of_what_does_not_exist_is_an_error(volumes: Volumes) -> None:
    """A place or a type without volumes has an empty list. A type that was deleted is known as long as volumes have it."""
    volumes.operator.create_volume_type({"name": "fast"})
    uuid = volumes.ask(A, volume_type="fast")
    volumes.operator.delete_volume_type("fast")
    volumes.operator.create_volume_type({"name": "slow"})
    for filters in ({"host": A[0]}, {"host": A[0], "pool": A[1]}, {"volume_type": "fast"}):
        assert [uuid] == [each["uuid"] for each in volumes.operator.list_volumes(filters)]
    for filters in ({"host": B[0]}, {"volume_type": "slow"}, {"volume_type": "fast", "host": B[0]}):
        assert [] == volumes.operator.list_volumes(filters)
    for filters, said in (
        ({"host": "m9@gone"}, "Storage pool m9@gone"),
        ({"host": A[0], "pool": "p9"}, "Storage pool m1@fast#p9"),
        ({"volume_type": "other"}, "Volume type other"),
    ):
        with pytest.raises(errors.NotFound, match=said):
            volumes.operator.list_volumes(filters)


def test_an_empty_list_reads_no_volumes(volumes: Volumes, database: Database) -> None:
    """Whether a place or a type has volumes, one of them shows: there may be 100,000."""
    volumes.operator.create_volume_type({"name": "fast"})
    volumes.ask(A, volume_type="fast")
    with databases.statements(database.engine) as read:
        for where in ({"host": A[0]}, {"host": "m9@gone"}, {"volume_type": "fast"}):
            with contextlib.suppress(errors.NotFound):
                assert [] == volumes.operator.list_volumes({"name": "nothing", **where})
    of_volumes = [each for each in read if "FROM volumes" in each]
    assert [True] * len(of_volumes) == ["LIMIT" in each for each in of_volumes]


def test_the_volumes_of_a_backend_are_read_in_parts(volumes: Volumes) -> None:
    """By uuid, and none twice or left out."""
    made = sorted(volumes.ask(A) for _each in range(5))
    found: list[str] = []
    while part := volumes.volume_progress.of_host(A[0], None, 2, found[-1] if found else None):
        assert len(part) <= 2
        found += [each.uuid for each in part]
    assert made == found == [each.uuid for each in volumes.volume_progress.of_host(A[0], None)]


def test_volumes_are_found_by_name_and_by_the_beginning_of_their_uuid(volumes: Volumes) -> None:
    """A name that several volumes have is refused."""
    uuid = volumes.ask(A, name="data")
    assert uuid == volumes.operator.show_volume("data")["uuid"] == volumes.operator.show_volume(uuid[:8])["uuid"]
    volumes.ask(A, name="data")
    with pytest.raises(errors.Conflict, match="stands for several; use a uuid"):
        volumes.operator.show_volume("data")
    assert 2 == len(volumes.operator.list_volumes({"name": "data", "host": A[0]}))
    for wrong in ({"colour": "red"}, {"uuids": 5}, {"uuids": [{}]}, {"status": ["error"]}, {"host": {"a": 1}}):
        (name,) = wrong
        for method in (volumes.operator.list_volumes, volumes.operator.list_snapshots):
            with pytest.raises(errors.InvalidInput, match=f"filters.{name}"):
                method(wrong)


def test_a_volume_that_no_other_pool_can_take_says_why_the_first_failed(volumes: Volumes) -> None:
    """The scheduler only knows that it has no more pools: the backend's own reason is in the failure as well."""
    uuid = volumes.ask(A)
    volumes.volume_scheduler.answers.append(no_valid_host())
    volumes.fails(uuid)
    volumes.clock.advance(4)
    VolumeSweeper(volumes.database, volumes.volume_placement, LIMITS, volumes.clock).sweep()
    volumes.serve()
    failure = volumes.operator.show_volume(uuid)["failure"]
    assert "NoValidHost" == failure["error"]
    assert failure["message"].endswith("Tried before: m1@fast#p1 in step creating: the disk is full")
    assert ["m1@fast#p1"] == [each["backend"] for each in failure["details"]["attempts"]]


def test_steps_of_several_volumes_share_a_transaction(volumes: Volumes) -> None:
    """A refused claim is answered alone, and nothing of it is written; the others are recorded."""
    placing = [each["uuid"] for each in volumes.operator.create_volumes({"size": 10, "count": 3})["volumes"]]
    ctx = volumes.volume_placement.step_context()
    for uuid in placing:
        volumes.database.write(VolumeMachine().take, [uuid], 1, ctx)
    place, gone = Place(*A, {}), Place("m9@gone", "p9", {})
    steps = [(uuid, (uuid, 1, where, [], ctx)) for uuid, where in zip(placing, (place, gone, place), strict=True)]
    made = together.transaction(
        [together.Step(claims.claim, uuid, (args[2].host, args[2].nodename), args) for uuid, args in steps]
    )
    first, refused, last = volumes.database.write(made)
    assert [placing[0], placing[2]] == [first.uuid, last.uuid]
    assert isinstance(refused, errors.PoolSpaceUnavailable)
    assert ("creating", "placing", 1, None) == volumes.row(placing[1])
    assert [(20, 2), (0, 0)] == volumes.allocated()


@pytest.mark.parametrize("renamed", [1, 2, 3], ids=["the last that was shown", "the next", "one after it"])
@pytest.mark.parametrize("name", ["a", "z"])
def test_a_volume_that_is_renamed_keeps_its_place_in_a_list(volumes: Volumes, renamed: int, name: str) -> None:
    """A client that reads a list by several calls gets each volume once, also if one is renamed between two calls."""
    made = volumes.operator.create_volumes({"size": 1, "name": "m", "count": 11})["volumes"]
    listed = volumes.operator.list_volumes()
    assert [f"m-{number}" for number in range(1, 12)] == [each["name"] for each in listed]
    whole = [each["uuid"] for each in made]
    first = [each["uuid"] for each in volumes.operator.list_volumes(limit=2)]
    volumes.operator.update_volume(whole[renamed], {"name": name})
    assert whole == first + [each["uuid"] for each in volumes.operator.list_volumes(limit=20, marker=first[-1])]
