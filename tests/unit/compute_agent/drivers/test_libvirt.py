# SPDX-License-Identifier: Apache-2.0
"""The parts of the driver libvirt that need no libvirt. ``tests/guests`` has the rest."""

from __future__ import annotations

import base64
import dataclasses
import errno
import importlib
import io
import json
import os
import pathlib
import shutil
import threading
from typing import Any
from xml.etree import ElementTree

import pycdlib
import pytest
import yaml

from compute_agent.drivers import libvirt
from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.drivers.libvirt.disks import seed
from compute_agent.drivers.libvirt.disks.guest_disks import GuestDisks
from compute_agent.drivers.libvirt.disks.image_cache import ImageCache
from compute_agent.drivers.libvirt.domains import domain_xml, extra, interfaces, pci_devices, volumes
from compute_agent.drivers.libvirt.domains.capabilities import Capabilities
from compute_agent.drivers.libvirt.domains.domain_xml import Disk, Machine
from fleet import errors
from fleet.agent import commands, image, time_limit
from fleet.objects import Attachment, BootData, ImageRecord, Instance, VolumeConnection, pci
from tests import factories
from tests.unit.compute_agent import builders

needs_qemu_img = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
UUID = "5b2d9d2e-6d3f-4a55-9d0e-2f1a4b3c2d1e"
MIB = 2**20
DISKS = [
    Disk(pathlib.Path("/guests/disk"), "qcow2", "vda"),
    Disk(pathlib.Path("/guests/seed"), "raw", "vdz", readonly=True),
]
CAPABILITIES = """
<capabilities>
  <host>
    <cpu><arch>x86_64</arch><model>Skylake</model><vendor>Intel</vendor>
      <topology sockets='1' dies='1' cores='2' threads='2'/><feature name='vmx'/><feature name='aes'/></cpu>
    <topology><cells num='2'>
      <cell id='0'><memory unit='KiB'>4194304</memory>
        <pages unit='KiB' size='4'>1000000</pages><pages unit='KiB' size='2048'>64</pages>
        <pages unit='KiB' size='1048576'>0</pages>
        <cpus num='2'><cpu id='0' socket_id='0' siblings='0,2'/><cpu id='2' socket_id='0' siblings='0,2'/></cpus></cell>
      <cell id='1'><memory unit='KiB'>4194304</memory>
        <cpus num='2'><cpu id='1' socket_id='1' siblings='1'/><cpu id='3' socket_id='1' siblings='3'/></cpus></cell>
    </cells></topology>
  </host>
  <guest><os_type>hvm</os_type><arch name='x86_64'><domain type='qemu'/><domain type='kvm'/></arch></guest>
  <guest><os_type>xen</os_type><arch name='x86_64'><domain type='xen'/></arch></guest>
</capabilities>
"""


PLUG = {
    "uuid": factories.uuid(51), "network": factories.uuid(52), "name": "lab", "bridge": "br0", "prefix": 24,
    "address": "192.0.2.10", "mac": "02:00:00:00:00:01", "gateway": "192.0.2.1", "dns": ["192.0.2.2"],
}  # fmt: skip
BARE = {"bridge": "br1", "address": "10.0.0.9", "prefix": 8, "mac": "02:00:00:00:00:02", "gateway": None, "dns": []}


def domain(instance: Instance | None = None, **machine: Any) -> ElementTree.Element:
    made = Machine(**{"kind": "kvm", "cpu_mode": "none", "cell_cpus": {0: [0, 2], 1: [1, 3]}, **machine})
    text = domain_xml.build(made, instance or builders.an_instance(), "h1", DISKS, pathlib.Path("/guests/console.log"))
    return ElementTree.fromstring(text)


def test_the_inventory_comes_from_the_capabilities() -> None:
    """Cells with pages and siblings; only fully virtualized guests; pages that the machine has."""
    found = Capabilities.parse(CAPABILITIES)
    pages = [{"size_kb": 4, "total": 1000000}, {"size_kb": 2048, "total": 64}]
    first = {"id": 0, "cpuset": [0, 2], "memory": 4096, "socket": 0, "siblings": [[0, 2]], "mempages": pages}
    second = {"id": 1, "cpuset": [1, 3], "memory": 4096, "socket": 1, "siblings": [], "mempages": []}
    assert (first, second) == found.cells
    assert [["x86_64", "qemu", "hvm"], ["x86_64", "kvm", "hvm"]] == found.supported_instances
    assert (True, False) == (found.can_run("kvm"), found.can_run("xen"))
    assert ("Intel", ["aes", "vmx"]) == (found.cpu_info["vendor"], found.cpu_info["features"])


def test_a_processor_without_known_siblings_is_in_no_core() -> None:
    """libvirt leaves them out where the kernel does not show them."""
    text = CAPABILITIES.replace("<cpus num='2'><cpu id='0'", "<cpus num='3'><cpu id='4'/><cpu id='0'")
    first, _second = Capabilities.parse(text).cells
    assert ([0, 2, 4], [[0, 2]]) == (first["cpuset"], first["siblings"])


def test_a_domain_has_what_the_flavor_says() -> None:
    """Memory, vcpus, disks in their order, and a console with a log."""
    made = domain(builders.an_instance(flavor=builders.a_flavor(vcpus=3, memory_mb=700)))
    assert ("700", "MiB") == (made.findtext("memory"), made.find("memory").get("unit"))  # type: ignore[union-attr]
    assert "3" == made.findtext("vcpu")
    disks = [(disk.find("source").get("file"), disk.find("readonly") is not None) for disk in made.iter("disk")]  # type: ignore[union-attr]
    assert [("/guests/disk", False), ("/guests/seed", True)] == disks
    assert "/guests/console.log" == made.find("devices/serial/log").get("file")  # type: ignore[union-attr]
    assert made.find("cputune") is None
    assert "host-passthrough" == domain(cpu_mode="host-passthrough").find("cpu").get("mode")  # type: ignore[union-attr]


@pytest.mark.parametrize(("kind", "attribute"), [("file", "file"), ("block", "dev")])
def test_a_volume_is_a_disk_with_its_uuid_as_serial_number(kind: Any, attribute: str) -> None:
    where = VolumeConnection(kind, "/srv/<volume>", "qcow2")
    attachment = Attachment(UUID, factories.uuid(1), UUID, "vdc", "attaching", 1, "m1@files#p", where)
    disk = ElementTree.fromstring(domain_xml.disk_text(volumes.disk_of(attachment)))
    found = {name: disk.find(name).attrib for name in ("driver", "source", "target")}  # type: ignore[union-attr]
    assert {
        "driver": {"name": "qemu", "type": "qcow2"},
        "source": {attribute: "/srv/<volume>"},
        "target": {"dev": "vdc", "bus": "virtio"},
    } == found
    assert (kind, factories.uuid(1)) == (disk.get("type"), disk.findtext("serial"))


NAMES = ["web", "<script>&amp;", "a\x00b\nc]]>", "'\"><disk/>", "名前", "\ud7ff\x1b[31m", "x" * 1000]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_stays_a_name(name: str) -> None:
    """Whatever users write, the XML is valid, has no more elements, and libvirt's own names have no part of it."""
    made = domain(builders.an_instance(uuid=UUID, name=name))
    assert [each.tag for each in made] == [each.tag for each in domain()]
    assert f"fleet-{UUID}" == made.findtext("name")
    assert domain_xml.printable(name) == made.findtext("title")


def test_a_domain_tells_which_build_made_it() -> None:
    """Domains of something else have no such mark."""
    text = ElementTree.tostring(domain(builders.an_instance(attempt=2, node="n1")), encoding="unicode")
    assert {"host": "h1", "attempt": "2", "node": "n1"} == domain_xml.mark_of(text, "h1")
    assert domain_xml.mark_of("<domain><name>theirs</name></domain>", "h1") is None


def test_a_domain_holds_the_cells_that_are_claimed() -> None:
    """Pinned vcpus on their CPUs, others on those of their cell; memory on the cells; huge pages where they are claimed."""
    pinned = {
        "id": 1,
        "cpuset": [0, 1],
        "memory": 512,
        "pagesize": 2048,
        "pcpuset": [0, 1],
        "cpu_pinning": {"0": 3, "1": 1},
    }
    shared = {"id": 0, "cpuset": [2], "memory": 256, "pagesize": 4}
    flavor = builders.a_flavor(vcpus=3, memory_mb=768)
    made = domain(builders.an_instance(flavor=flavor, claimed_numa_topology={"cells": [pinned, shared]}))
    assert [("0", "3"), ("1", "1"), ("2", "0,2")] == [
        (each.get("vcpu"), each.get("cpuset")) for each in made.iter("vcpupin")
    ]
    assert "0,1,2,3" == made.find("cputune/emulatorpin").get("cpuset")  # type: ignore[union-attr]
    assert [("0", "1"), ("1", "0")] == [(each.get("cellid"), each.get("nodeset")) for each in made.iter("memnode")]
    assert [("2048", "0")] == [(each.get("size"), each.get("nodeset")) for each in made.iter("page")]
    assert [("0,1", "524288"), ("2", "262144")] == [
        (each.get("cpus"), each.get("memory")) for each in made.findall("cpu/numa/cell")
    ]


NODE_DEVICE = """
<device><name>pci_0000_81_00_1</name>
  <capability type='pci'><domain>0</domain><bus>129</bus><slot>0</slot><function>1</function>
    <product id='0x10ed'>82599</product><vendor id='0x8086'>Intel</vendor>{more}</capability></device>
"""
NIC = {"address": "0000:81:00.1", "vendor_id": "8086", "product_id": "10ed"}


@pytest.mark.parametrize(
    ("more", "allowed", "found"),
    [
        ("", ["8086:10ed"], [{**NIC, "dev_type": "type-PCI", "numa_node": None}]),
        ("<numa node='1'/>", ["0000:81:00.1"], [{**NIC, "dev_type": "type-PCI", "numa_node": 1}]),
        (
            "<capability type='phys_function'><address/></capability>",
            ["8086:10ed"],
            [{**NIC, "dev_type": "type-VF", "numa_node": None}],
        ),
        (
            "<capability type='virt_functions' maxCount='7'/>",
            ["8086:10ed"],
            [{**NIC, "dev_type": "type-PF", "numa_node": None}],
        ),
        ("<capability type='pci-bridge'/>", ["8086:10ed"], []),
        ("", ["8086:10ee", "0000:81:00.0"], []),
    ],
)
def test_devices_that_guests_may_have(more: str, allowed: list[str], found: list[dict[str, Any]]) -> None:
    """Those that the list names, with what requests are compared with; never a bridge."""
    assert found == pci_devices.inventory([NODE_DEVICE.format(more=more)], allowed)
    assert len(found) == len(pci.devices_from_wire(found))


@pytest.mark.parametrize("wrong", ["81:00.1", "0000:81:00.9", "8086", "8086:10EDX", "*"])
def test_a_list_of_devices_that_makes_no_sense(wrong: str) -> None:
    """The agent does not start."""
    with pytest.raises(errors.ConfigError, match="got"):
        pci_devices.require_valid(["8086:10ed", wrong])


def test_a_domain_has_the_devices_of_its_claim() -> None:
    """libvirt takes them from the machine, and gives them back."""
    (made,) = domain(builders.an_instance(claimed_pci_devices=[NIC])).iter("hostdev")
    assert {"mode": "subsystem", "type": "pci", "managed": "yes"} == made.attrib
    wanted = {"domain": "0x0000", "bus": "0x81", "slot": "0x00", "function": "0x1"}
    assert wanted == made.find("source/address").attrib  # type: ignore[union-attr]
    with pytest.raises(errors.InvalidInput, match="claimed_pci_devices"):
        domain(builders.an_instance(claimed_pci_devices=[{**NIC, "address": "'/><disk"}]))


def test_the_seed_is_what_cloud_init_reads(tmp_path: pathlib.Path) -> None:
    """A disk with the label cidata, and the files meta-data and user-data, the latter byte for byte."""
    instance = builders.an_instance(name='Web "1"', metadata={"role": "db"})
    user_data = b"#!/bin/sh\n\xff"
    data = BootData("mine", factories.PUBLIC_KEY, base64.b64encode(user_data).decode())
    seed.write(tmp_path / "seed", instance, data)
    disk = pycdlib.PyCdlib()
    disk.open(str(tmp_path / "seed"))
    metadata, userdata = io.BytesIO(), io.BytesIO()
    disk.get_file_from_iso_fp(metadata, rr_path="/meta-data")
    disk.get_file_from_iso_fp(userdata, rr_path="/user-data")
    assert b"cidata" == disk.pvd.volume_identifier.strip()
    read = json.loads(metadata.getvalue())
    assert ("web-1", instance.uuid) == (read["local-hostname"], read["instance-id"])
    assert {"mine": factories.PUBLIC_KEY} == read["public-keys"]
    assert user_data == userdata.getvalue()
    names = {
        child.rock_ridge.name()
        for child in disk.list_children(iso_path="/")
        if child.rock_ridge.name() not in (b"", b".", b"..")
    }
    assert {b"meta-data", b"user-data"} == names
    disk.close()


def files_of(path: pathlib.Path, *names: str) -> list[bytes]:
    disk = pycdlib.PyCdlib()
    disk.open(str(path))
    found = [io.BytesIO() for _name in names]
    for name, file in zip(names, found, strict=True):
        disk.get_file_from_iso_fp(file, rr_path=f"/{name}")
    disk.close()
    return [file.getvalue() for file in found]


def test_the_seed_has_the_addresses(tmp_path: pathlib.Path) -> None:
    """In cloud-init's form and in OpenStack's. A guest without addresses has neither file."""
    seed.write(tmp_path / "seed", builders.an_instance(interfaces=[PLUG, {**PLUG, **BARE}]), BootData())
    config, data = files_of(tmp_path / "seed", "network-config", "openstack/latest/network_data.json")
    subnet = {"type": "static", "address": "192.0.2.10/24", "gateway": "192.0.2.1", "dns_nameservers": ["192.0.2.2"]}
    first, second = json.loads(config)["config"]
    assert {"type": "physical", "name": "eth0", "mac_address": PLUG["mac"], "subnets": [subnet]} == first
    assert ("eth1", [{"type": "static", "address": "10.0.0.9/8"}]) == (second["name"], second["subnets"])
    read = json.loads(data)
    link = {"id": "tap" + PLUG["uuid"][:11], "vif_id": PLUG["uuid"], "type": "bridge", "mtu": None}
    assert {**link, "ethernet_mac_address": PLUG["mac"]} == read["links"][0]
    first, second = read["networks"]
    dns = [{"type": "dns", "address": "192.0.2.2"}]
    assert {
        "id": "network0",
        "network_id": PLUG["network"],
        "link": link["id"],
        "type": "ipv4",
        "ip_address": "192.0.2.10",
        "netmask": "255.255.255.0",
        "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}],
        "services": dns,
    } == first
    assert ("255.0.0.0", [], dns) == (second["netmask"], second["routes"], read["services"])
    seed.write(tmp_path / "bare", builders.an_instance(), BootData())
    for name in ("network-config", "openstack/latest/network_data.json"):
        with pytest.raises(pycdlib.pycdlibexception.PyCdlibInvalidInput):
            files_of(tmp_path / "bare", name)


def test_a_domain_is_plugged_in_behind_the_filter() -> None:
    """Each interface has the bridge and the MAC of its network, and may send from its address only."""
    plugs = list(domain(builders.an_instance(interfaces=[PLUG, {**PLUG, **BARE}])).iter("interface"))
    found = [
        (each.get("type"), each.find("source").get("bridge"), each.find("mac").get("address"))  # type: ignore[union-attr]
        for each in plugs
    ]
    assert [("bridge", "br0", PLUG["mac"]), ("bridge", "br1", BARE["mac"])] == found
    filters = [each.find("filterref") for each in plugs]
    assert ["clean-traffic"] * 2 == [each.get("filter") for each in filters]  # type: ignore[union-attr]
    parameters = [each.find("parameter").attrib for each in filters]  # type: ignore[union-attr]
    assert [{"name": "IP", "value": "192.0.2.10"}, {"name": "IP", "value": "10.0.0.9"}] == parameters
    assert [] == list(domain().iter("interface"))


@pytest.mark.parametrize(
    "wrong", [{"bridge": "br0'/><x"}, {"address": "192.0.2.10'/>"}, {"mac": "02:00:00:00:00:0g"}, {"prefix": 33}]
)
def test_a_plug_that_is_no_plug(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput, match=f"instance.interfaces.0.{next(iter(wrong))}"):
        domain(builders.an_instance(interfaces=[{**PLUG, **wrong}]))


def test_the_bridges_of_a_machine(tmp_path: pathlib.Path) -> None:
    """All that the kernel has, or those that the configuration names."""
    for name in ("br1/bridge", "br0/bridge", "eth0/device"):
        (tmp_path / name).mkdir(parents=True)
    assert ["br0", "br1"] == interfaces.bridges([], tmp_path)
    assert ["br1", "lab"] == interfaces.bridges(["lab", "br1"], tmp_path)
    assert [] == interfaces.bridges([], tmp_path / "nothing")


def test_the_seed_has_a_host_name_and_a_password(tmp_path: pathlib.Path) -> None:
    """The host name in place of one that is made of the name; the password, if there is one, for the default user."""
    data = BootData(admin_password='se"cret', hostname="db.example")
    seed.write(tmp_path / "seed", builders.an_instance(name="Web"), data)
    metadata, vendor = files_of(tmp_path / "seed", "meta-data", "vendor-data")
    assert "db.example" == json.loads(metadata)["local-hostname"]
    head, _, config = vendor.partition(b"\n")
    assert (b"#cloud-config", {"password": 'se"cret', "chpasswd": {"expire": False}}) == (head, json.loads(config))
    assert 'se"cret' not in repr(data)
    seed.write(tmp_path / "bare", builders.an_instance(), BootData())
    with pytest.raises(pycdlib.pycdlibexception.PyCdlibInvalidInput):
        files_of(tmp_path / "bare", "vendor-data")


STRANGE = ["\U0001f600", "\u540d\u00e9", "\ufffe\ufeff", "\u2028\x85\x7f", "\"\\': {- #", "no", "\ud83d"]


@pytest.mark.parametrize("text", STRANGE)
def test_the_seed_has_every_character_for_yaml(tmp_path: pathlib.Path, text: str) -> None:
    """cloud-init reads metadata and the password as YAML, whose escapes are not all of JSON's."""
    seed.write(tmp_path / "seed", builders.an_instance(metadata={text: text}), BootData(admin_password=text))
    metadata, vendor = (yaml.safe_load(each) for each in files_of(tmp_path / "seed", "meta-data", "vendor-data"))
    assert ({text: text}, text) == (metadata["fleet"]["metadata"], vendor["password"])


class Images:
    """A cache, and guests that use it."""

    def __init__(self, root: pathlib.Path) -> None:
        self.now = 1000.0
        self.cache = ImageCache(root / "bases", lambda: self.now)
        self.disks = GuestDisks(root / "guests", self.cache)
        self.cache.start()
        self.disks.start()
        self.source = root / "source"
        commands.run("qemu-img", "create", "-q", "-f", "raw", str(self.source), "1M")

    def record(self, **values: Any) -> ImageRecord:
        return ImageRecord(**{"name": "linux", "uuid": UUID, "location": str(self.source), **values})

    def files(self) -> list[str]:
        return sorted(path.name for path in self.disks.directory.parent.glob("bases/*"))


@pytest.fixture
def images(tmp_path: pathlib.Path) -> Images:
    return Images(tmp_path)


@needs_qemu_img
def test_parallel_builds_fetch_an_image_once(
    images: Images, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait for the first, and link to what it has fetched."""
    fetched: list[str] = []
    write = image.write
    monkeypatch.setattr(image, "write", lambda record, *rest: (fetched.append(record.uuid), write(record, *rest)))
    given = images.record(), image.Room(MIB)
    threads = [
        threading.Thread(target=images.cache.link, args=(given[0], tmp_path / f"g{n}", given[1])) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [UUID] == fetched
    assert 5 == (tmp_path / "g0").stat().st_nlink


def _with_backing_file(images: Images) -> ImageRecord:
    path = images.source.with_suffix(".qcow2")
    commands.run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", "/etc/passwd", "-u", str(path), "1M")
    return images.record(location=str(path), disk_format="qcow2")


def _with_data_file(images: Images) -> ImageRecord:
    path, data = images.source.with_suffix(".qcow2"), images.source.with_suffix(".data")
    commands.run("qemu-img", "create", "-q", "-f", "qcow2", "-o", f"data_file={data}", str(path), "1M")
    return images.record(location=str(path), disk_format="qcow2")


def _of_another_format(images: Images) -> ImageRecord:
    path = images.source.with_suffix(".vmdk")
    commands.run("qemu-img", "create", "-q", "-f", "vmdk", str(path), "1M")
    return images.record(location=str(path))


def _qcow2_that_is_called_raw(images: Images) -> ImageRecord:
    return ImageRecord("linux", _with_backing_file(images).location, UUID)


REFUSED = [
    ("a backing file", _with_backing_file, "needs another file"),
    ("a data file", _with_data_file, "needs another file"),
    ("another format", _of_another_format, "is in the format vmdk, not raw"),
    ("a header that the record does not name", _qcow2_that_is_called_raw, "is in the format qcow2, not raw"),
    ("a wrong checksum", lambda images: images.record(checksum=f"sha256:{'0' * 64}"), "has the checksum"),
    ("a uuid that is a path", lambda images: images.record(uuid="../../etc/passwd"), "has no uuid"),
]


@needs_qemu_img
@pytest.mark.parametrize(("what", "make", "reason"), REFUSED, ids=[case[0] for case in REFUSED])
def test_an_image_that_is_refused_leaves_nothing(
    images: Images, tmp_path: pathlib.Path, what: str, make: Any, reason: str
) -> None:
    """No base, no part of one, and no link."""
    with pytest.raises(errors.ImageUnacceptable) as refused:
        images.cache.link(make(images), tmp_path / "link", image.Room(MIB))
    assert reason in refused.value.reason
    assert ([], False) == (images.files(), (tmp_path / "link").exists())


@needs_qemu_img
def test_a_cached_image_is_too_large_for_a_smaller_disk(images: Images, tmp_path: pathlib.Path) -> None:
    images.cache.link(images.record(), tmp_path / "one", image.Room(MIB))
    with pytest.raises(errors.ImageUnacceptable) as refused:
        images.cache.link(images.record(), tmp_path / "two", image.Room(MIB // 2))
    assert f"needs {MIB} bytes, the disk has {MIB // 2}" == refused.value.reason


@needs_qemu_img
@pytest.mark.parametrize("cached", [False, True])
def test_a_host_that_is_full_is_no_fault_of_the_image(
    images: Images, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    """Without a size in the flavor the disk is as large as its image: another host may have the room."""
    if cached:
        images.cache.link(images.record(), images.disks.directory / "link", image.Room(MIB))
    guest = builders.an_instance(flavor=builders.a_flavor(root_gb=0))
    images.disks.begin(GuestRecord.of(guest))
    usage = shutil.disk_usage(images.disks.directory)._replace(free=MIB // 2)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(OSError, match="image linux") as full:
        images.disks.fill(guest, images.record(), BootData())
    assert errno.ENOSPC == full.value.errno


@needs_qemu_img
def test_a_host_that_cannot_examine_an_image_does_not_refuse_it(
    images: Images, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host may be able to start the program."""

    def run(*_command: str, **_more: object) -> str:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(commands, "run", run)
    with pytest.raises(OSError, match="Cannot allocate memory"):
        images.cache.link(images.record(), tmp_path / "link", image.Room(MIB))
    assert [] == images.files()


@needs_qemu_img
def test_a_base_stays_while_a_guest_has_it_and_for_its_age(images: Images, tmp_path: pathlib.Path) -> None:
    """The age counts from the last use."""
    images.cache.link(images.record(), tmp_path / "guest", image.Room(MIB))
    images.now += 100
    images.cache.clean(100)
    assert [UUID] == images.files()
    (tmp_path / "guest").unlink()
    images.cache.clean(101)
    assert [UUID] == images.files()
    images.cache.clean(100)
    assert [] == images.files()


@needs_qemu_img
def test_the_files_of_a_guest(images: Images) -> None:
    """The overlay has the size of the flavor, and finds its base beside itself, wherever the directory is."""
    instance = builders.an_instance(flavor=builders.a_flavor(root_gb=2, ephemeral_gb=1, swap=8))
    images.disks.begin(GuestRecord.of(instance))
    images.disks.fill(instance, images.record(), BootData())
    directory = images.disks.of(instance.uuid)
    found = commands.run("qemu-img", "info", "--output=json", str(directory / "disk"))
    assert '"backing-filename": "base"' in found
    assert f'"virtual-size": {2 * 2**30}' in found
    assert ["disk", "ephemeral", "swap", "seed.iso"] == [each.path.name for each in images.disks.disks(instance)]
    assert {instance.uuid} == images.disks.records().keys()
    assert [True, False] == [images.disks.remove(instance.uuid) for _twice in range(2)]
    assert [] == list(images.disks.directory.iterdir())


@needs_qemu_img
def test_files_of_a_later_guest_stay_as_they_are(images: Images) -> None:
    """Each step of a build or rebuild that was abandoned finds that out: the directory is that of a later attempt."""
    first = builders.an_instance(attempt=1)
    second = dataclasses.replace(first, attempt=2)

    def later() -> None:
        images.disks.begin(GuestRecord.of(second))

    def link() -> None:
        images.cache.link(images.record(), images.disks.of(first.uuid) / "base", image.Room(MIB))

    late = builders.abandoned(lambda: images.disks.begin(GuestRecord.of(first)), later)
    assert isinstance(late, time_limit.Overrun)
    for step in (lambda: images.disks.fill(first, images.record(), BootData()), link):
        assert isinstance(builders.abandoned(step, lambda: None), time_limit.Overrun)
    assert {first.uuid: GuestRecord.of(second)} == images.disks.records()
    assert ["guest.json"] == os.listdir(images.disks.of(first.uuid))
    images.disks.fill(second, images.record(), BootData())


def test_a_removal_that_failed_is_repeated(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files go with the next one, which is not a success before. A later guest of the instance can be removed, too."""
    guest = builders.an_instance()

    def fail(path: pathlib.Path) -> None:
        raise OSError("Directory not empty")

    def remove() -> bool:
        return images.disks.remove(guest.uuid)

    for again in (False, True):
        images.disks.begin(GuestRecord.of(guest))
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", fail)
            for _twice in range(2):
                with pytest.raises(OSError, match="Directory not empty"):
                    remove()
        if again:
            images.disks.begin(GuestRecord.of(guest))
        assert (True, []) == (remove(), list(images.disks.directory.iterdir()))
    assert not remove()


@needs_qemu_img
def test_a_guest_that_has_a_directory_keeps_its_record(images: Images) -> None:
    first = builders.an_instance(attempt=1)
    images.disks.begin(GuestRecord.of(first))
    with pytest.raises(SpawnFailed, match="exists on this machine already"):
        images.disks.begin(GuestRecord.of(dataclasses.replace(first, attempt=2)))
    assert ([first.uuid], 1) == (os.listdir(images.disks.directory), images.disks.records()[first.uuid].attempt)


@needs_qemu_img
def test_what_a_crash_leaves_is_removed_at_the_start(images: Images) -> None:
    """Half-fetched bases, half-removed guests, and directories without a record and without disks."""
    instance = builders.an_instance()
    images.disks.begin(GuestRecord.of(instance))
    for name in (
        "bases/.part-x",
        f"guests/destroyed-{UUID}/disk",
        "guests/making-x/guest.json",
        f"guests/{UUID}/seed.iso",
    ):
        path = images.disks.directory.parent / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    images.cache.start()
    images.disks.start()
    assert ([], [instance.uuid]) == (images.files(), os.listdir(images.disks.directory))


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """The agent does not start, and says what to install."""

    def fails(name: str) -> None:
        raise ImportError(name)

    extra.module.cache_clear()
    monkeypatch.setattr(importlib, "import_module", fails)
    driver = libvirt.LibvirtDriver(builders.a_conf(compute_driver="libvirt", instances_path=str(tmp_path)))
    with pytest.raises(errors.ConfigError) as missing:
        driver.init_host("h1")
    assert (
        "libvirt-python is not installed: pip install '.[libvirt]' in the directory of the source"
        in missing.value.reason
    )
