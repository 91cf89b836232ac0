# SPDX-License-Identifier: Apache-2.0
"""What openstacksdk's users do, one check for each: ``sdk_checks.py URL`` in the virtual environment of the client.

It prints a line for each check: its name, a tab, and ``ok`` or what went wrong. The fleet needs an image ``cirros``, flavors
``tiny`` and ``double`` (larger), a network ``lab`` that is the default one, and two storage pools.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

import openstack
from openstack import exceptions

Check = Callable[[], object]
_CHECKS: list[tuple[str, Check]] = []
_URL = sys.argv[1]
_AUTH = {"auth_type": "none", "auth": {"endpoint": f"{_URL}/v2.1"}}
cloud = openstack.connection.Connection(**_AUTH, block_storage_endpoint_override=f"{_URL}/v3", image_api_version="2")
compute, storage = cloud.compute, cloud.block_storage
#: What earlier checks have made, by name.
made: dict[str, Any] = {}


def check(function: Check) -> Check:
    _CHECKS.append((function.__name__, function))
    return function


def same(expected: object, actual: object) -> None:
    assert expected == actual, f"{expected!r} != {actual!r}"


def refused(kind: type[Exception], work: Callable[[], object]) -> None:
    try:
        work()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def server(status: str = "ACTIVE") -> Any:
    return compute.wait_for_server(compute.get_server(made["server"].id), status=status, wait=120)


def volume(status: str = "available") -> Any:
    return storage.wait_for_status(storage.get_volume(made["volume"].id), status, ["error"], wait=120)


# Catalog


@check
def flavors_are_listed() -> None:
    assert {"tiny", "double"} <= {each.name for each in compute.flavors()}


@check
def a_flavor_is_found_by_its_name() -> None:
    made["tiny"], made["double"] = compute.find_flavor("tiny"), compute.find_flavor("double")
    same((512, 1, 1), (made["tiny"].ram, made["tiny"].vcpus, made["tiny"].disk))


@check
def a_flavor_is_made_changed_and_deleted() -> None:
    new = compute.create_flavor(name="sdk", ram=64, vcpus=1, disk=1, description="one", is_public=False)
    same(("one", False), (new.description, new.is_public))
    same("two", compute.update_flavor(new, description="two").description)
    compute.flavor_add_tenant_access(new, "web")
    same(["web"], [each["tenant_id"] for each in compute.get_flavor_access(new)])
    compute.flavor_remove_tenant_access(new, "web")
    compute.create_flavor_extra_specs(new, {"hw:cpu_policy": "shared"})
    same("shared", compute.get_flavor_extra_specs_property(new, "hw:cpu_policy"))
    compute.delete_flavor_extra_specs_property(new, "hw:cpu_policy")
    compute.delete_flavor(new)
    assert compute.find_flavor("sdk") is None


@check
def images_are_listed_and_found() -> None:
    made["image"] = cloud.image.find_image("cirros")
    assert "cirros" in {each.name for each in cloud.image.images()}


@check
def networks_are_listed() -> None:
    made["network"] = cloud.network.find_network("lab")
    assert made["network"].id in {each.id for each in cloud.network.networks()}
    assert list(cloud.network.subnets(network_id=made["network"].id))


@check
def zones_are_listed() -> None:
    same(["nova"], [each.name for each in compute.availability_zones()])


@check
def a_key_pair_is_made_and_deleted() -> None:
    # Keys are made by the client: the fleet never has a private one.
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE6DEXY4SZk4nPGTWBvEuKAJOk9eX1xYf8tUUhDkNvBB me"
    made["key"] = compute.create_keypair(name="sdk", public_key=key)
    same("sdk", compute.find_keypair("sdk").name)
    compute.delete_keypair("sdk")
    assert compute.find_keypair("sdk") is None


@check
def limits_are_shown() -> None:
    same(-1, compute.get_limits().absolute.instances)


@check
def quotas_are_shown_set_and_reset() -> None:
    same(7, compute.update_quota_set("shop", instances=7).instances)
    same(7, compute.get_quota_set("shop").instances)
    compute.revert_quota_set("shop")
    same(-1, compute.get_quota_set("shop").instances)


# Servers


@check
def a_server_is_made_and_waited_for() -> None:
    made["server"] = compute.create_server(
        name="sdk", image_id=made["image"].id, flavor_id=made["tiny"].id, networks=[{"uuid": made["network"].id}]
    )
    same("ACTIVE", server().status)


@check
def the_cloud_layer_keeps_a_server_with_an_address() -> None:
    found = cloud.create_server("layer", image="cirros", flavor="tiny", wait=True, timeout=120)
    same("ACTIVE", found.status)
    assert [each["addr"] for each in found.addresses["lab"]]
    assert cloud.delete_server("layer", wait=True)


@check
def servers_are_listed_and_found() -> None:
    same(made["server"].id, compute.find_server("sdk").id)
    same(["sdk"], [each.name for each in compute.servers(name="^sdk$")])
    same([], list(compute.servers(status="ERROR")))


@check
def a_list_has_parts() -> None:
    same(1, len(list(compute.servers(limit=1, paginated=True))))


@check
def addresses_of_a_server() -> None:
    (address,) = list(compute.server_ips(made["server"]))
    same("lab", address.network_label)
    same(1, len(list(compute.server_interfaces(made["server"]))))


@check
def metadata_of_a_server() -> None:
    compute.set_server_metadata(made["server"], a="1", b="2")
    compute.delete_server_metadata(made["server"], ["a"])
    same({"b": "2"}, compute.get_server_metadata(made["server"]).metadata)


@check
def tags_of_a_server() -> None:
    compute.add_tag_to_server(made["server"], "one")
    same(["one"], compute.get_server(made["server"].id).fetch_tags(compute).tags)
    compute.remove_tags_from_server(made["server"])


@check
def a_server_is_changed() -> None:
    same("renamed", compute.update_server(made["server"], name="renamed").name)
    compute.update_server(made["server"], name="sdk")


@check
def a_server_is_stopped_and_started() -> None:
    compute.stop_server(made["server"])
    server("SHUTOFF")
    compute.start_server(made["server"])
    server()


@check
def a_server_is_rebooted() -> None:
    compute.reboot_server(made["server"], "HARD")
    server()


@check
def a_server_is_suspended_and_resumed() -> None:
    compute.suspend_server(made["server"])
    server("SUSPENDED")
    compute.resume_server(made["server"])
    server()


@check
def a_server_is_locked_and_unlocked() -> None:
    compute.lock_server(made["server"], locked_reason="mine")
    found = compute.get_server(made["server"].id)
    same((True, "mine"), (found.is_locked, found.locked_reason))
    compute.unlock_server(made["server"])


@check
def a_server_is_rebuilt() -> None:
    compute.rebuild_server(made["server"], image=made["image"].id, name="sdk")
    server()


@check
def a_server_is_shelved_and_unshelved() -> None:
    compute.shelve_server(made["server"])
    server("SHELVED_OFFLOADED")
    compute.unshelve_server(made["server"])
    server()


@check
def a_server_is_resized_and_confirmed() -> None:
    compute.resize_server(made["server"], made["double"].id)
    server("VERIFY_RESIZE")
    compute.confirm_server_resize(made["server"])
    server()


@check
def a_resize_is_reverted() -> None:
    compute.resize_server(made["server"], made["tiny"].id)
    server("VERIFY_RESIZE")
    compute.revert_server_resize(made["server"])
    same("double", server().flavor.name)


@check
def a_server_is_migrated_while_it_runs() -> None:
    before = server().hypervisor_hostname
    compute.live_migrate_server(made["server"], block_migration="auto")
    assert before != server().hypervisor_hostname


@check
def the_state_of_a_server_is_set() -> None:
    compute.reset_server_state(made["server"], "error")
    same("ERROR", compute.get_server(made["server"].id).status)
    compute.reset_server_state(made["server"], "active")
    server()


@check
def a_console_is_read() -> None:
    assert "login" in compute.get_server_console_output(made["server"])["output"]


@check
def what_was_done_with_a_server() -> None:
    actions = {each.action for each in compute.server_actions(made["server"])}
    assert {"create", "stop", "rebuild", "shelve", "resize"} <= actions, actions


@check
def groups_of_servers() -> None:
    group = compute.create_server_group(name="apart", policy="anti-affinity")
    same(group.id, compute.find_server_group("apart").id)
    compute.delete_server_group(group)


# Volumes


@check
def types_of_volumes() -> None:
    kind = storage.create_type(name="gold", is_public=False)
    storage.add_type_access(kind, "web")
    same(["web"], [each["project_id"] for each in storage.get_type_access(kind)])
    storage.remove_type_access(kind, "web")
    storage.update_type_extra_specs(kind, tier="1")
    same("two", storage.update_type(kind, description="two").description)
    storage.delete_type(kind)


@check
def a_volume_is_made_and_waited_for() -> None:
    made["volume"] = storage.create_volume(name="sdk", size=1)
    same("available", volume().status)


@check
def volumes_are_listed_and_found() -> None:
    same(made["volume"].id, storage.find_volume("sdk").id)
    assert made["volume"].id in {each.id for each in storage.volumes(details=True)}


@check
def a_volume_is_changed() -> None:
    same("renamed", storage.update_volume(made["volume"], name="renamed").name)
    storage.update_volume(made["volume"], name="sdk")
    storage.set_volume_metadata(made["volume"], a="1")
    same({"a": "1"}, storage.get_volume(made["volume"].id).metadata)


@check
def a_volume_is_extended() -> None:
    storage.extend_volume(made["volume"], 2)
    same(2, volume().size)


@check
def a_volume_is_bootable() -> None:
    storage.set_volume_bootable_status(made["volume"], True)
    assert volume().is_bootable


@check
def a_snapshot_is_made_and_a_volume_of_it() -> None:
    snapshot = storage.create_snapshot(volume_id=made["volume"].id, name="sdk")
    storage.wait_for_status(snapshot, "available", ["error"], wait=120)
    copy = storage.create_volume(name="copy", snapshot_id=snapshot.id, size=2)
    storage.wait_for_status(copy, "available", ["error"], wait=120)
    storage.delete_volume(copy)
    storage.delete_snapshot(snapshot)
    storage.wait_for_delete(snapshot, wait=120)


@check
def a_volume_is_attached_and_detached() -> None:
    compute.create_volume_attachment(made["server"], volume_id=made["volume"].id)
    volume("in-use")
    same([made["volume"].id], [each.volume_id for each in compute.volume_attachments(made["server"])])
    compute.delete_volume_attachment(made["server"], made["volume"].id)
    volume()


@check
def a_volume_migrates() -> None:
    before = volume().host
    (other,) = [each.name for each in storage.backend_pools() if each.name != before]
    storage.migrate_volume(made["volume"], host=other)
    for _status in ("migrating", "available"):
        volume()
    same((other, "success"), (volume().host, storage.get_volume(made["volume"].id).migration_status))


@check
def quotas_of_volumes() -> None:
    same(9, storage.update_quota_set("shop", volumes=9).volumes)
    storage.revert_quota_set("shop")


# The fleet


@check
def hypervisors_are_shown() -> None:
    found = list(compute.hypervisors(details=True))
    assert found
    assert "up" in compute.get_hypervisor(found[0].id).uptime


@check
def services_are_shown_disabled_and_enabled() -> None:
    found = next(each for each in compute.services() if each.binary == "nova-compute")
    same("disabled", compute.disable_service(found, disabled_reason="mine").status)
    same("enabled", compute.enable_service(found).status)
    assert list(storage.services())


@check
def aggregates_and_their_hosts() -> None:
    group = compute.create_aggregate(name="ssds")
    host = next(compute.hypervisors(details=True)).service_details["host"]
    same([host], compute.add_host_to_aggregate(group, host).hosts)
    compute.set_aggregate_metadata(group, {"ssd": "true"})
    compute.remove_host_from_aggregate(group, host)
    compute.delete_aggregate(group)


@check
def the_use_of_projects() -> None:
    assert list(compute.usages())


@check
def moves_are_listed() -> None:
    assert list(compute.migrations())


@check
def what_is_wrong_is_named() -> None:
    wrong = {"name": "x", "image_id": made["image"].id, "networks": "none"}
    refused(exceptions.BadRequestException, lambda: compute.create_server(flavor_id="none", **wrong))
    tiny = made["tiny"].id
    refused(
        exceptions.BadRequestException,
        lambda: compute.create_server(flavor_id=tiny, availability_zone="mars", **wrong),
    )
    refused(exceptions.NotFoundException, lambda: compute.get_server("no-such-server"))
    refused(exceptions.ConflictException, lambda: compute.start_server(made["server"]))


@check
def all_is_deleted_and_waited_for() -> None:
    compute.delete_server(made["server"])
    compute.wait_for_delete(made["server"], wait=120)
    storage.delete_volume(made["volume"])
    storage.wait_for_delete(made["volume"], wait=120)
    same([], [each.name for each in compute.servers() if each.name == "sdk"])


def main() -> None:
    for name, each in _CHECKS:
        try:
            each()
        except Exception as failure:
            traceback.print_exc()
            print(name, f"{type(failure).__name__}: {failure}".replace("\n", " "), sep="\t", flush=True)
        else:
            print(name, "ok", sep="\t", flush=True)


main()
