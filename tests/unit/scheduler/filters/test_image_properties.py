# SPDX-License-Identifier: Apache-2.0
"""Hosts that can run the image."""

from __future__ import annotations

import pytest

from fleet import errors
from scheduler.compute import filters
from scheduler.compute.domain import guest_kinds
from tests import factories
from tests.factories import node, request
from tests.unit.scheduler.judging import passed

HOSTS = [
    node("kvm", supported_instances=[("x86_64", "kvm", "hvm"), ("i686", "kvm", "hvm")], hypervisor_version=6000001),
    node("xen", supported_instances=[("x86_64", "xen", "xen")], hypervisor_version=4011000),
    node("silent", supported_instances=[], hypervisor_version=0),
]
ALL = ["kvm", "xen", "silent"]
CASES = [
    ("the image asks nothing", {}, ALL),
    ("architecture", {"architecture": "x86_64"}, ["kvm", "xen"]),
    ("architecture, by nova's later name", {"hw_architecture": "i686"}, ["kvm"]),
    ("the later name goes first", {"hw_architecture": "i686", "architecture": "x86_64"}, ["kvm"]),
    ("another word for it", {"architecture": "AMD64"}, ["kvm", "xen"]),
    ("an old member of the family", {"architecture": "i386"}, ["kvm"]),
    ("an architecture that nobody has", {"architecture": "s390x"}, []),
    ("hypervisor type", {"hypervisor_type": "kvm"}, ["kvm"]),
    ("hypervisor type, another word for it", {"img_hv_type": "XAPI"}, ["xen"]),
    ("vm mode", {"vm_mode": "hvm"}, ["kvm"]),
    ("vm mode, another word for it", {"hw_vm_mode": "hv"}, ["kvm"]),
    ("the place in the triple is not looked at", {"vm_mode": "pv"}, ["xen"]),
    ("all of one kind of guest", {"architecture": "i686", "hypervisor_type": "kvm", "vm_mode": "hvm"}, ["kvm"]),
    ("of different kinds of guests", {"architecture": "i686", "vm_mode": "xen"}, []),
    ("a version", {"vm_mode": "hvm", "hypervisor_version_requires": ">=6.0"}, ["kvm"]),
    ("a version not met", {"vm_mode": "hvm", "img_hv_requested_version": ">=6.0.2"}, []),
    ("two conditions", {"architecture": "x86_64", "img_hv_requested_version": ">=4.0, <5.0"}, ["xen"]),
    ("a version alone is not looked at", {"hypervisor_version_requires": ">=9.0"}, ALL),
    ("an empty property asks nothing", {"architecture": ""}, ALL),
]


@pytest.mark.parametrize(("properties", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_image_properties(properties, expected):
    """Hosts pass that support what the image names."""
    hosts = factories.candidates(*HOSTS)
    assert set(expected) == passed(filters.ImagePropertiesFilter(), hosts, request(image={"properties": properties}))


@pytest.mark.parametrize("version", [0, -1])
def test_a_host_that_does_not_tell_its_version(version):
    """The version is not held against it. A negative number is none: the conversion to text would never end."""
    kinds = [("x86_64", "kvm", "hvm")]
    hosts = factories.candidates(node("host1", supported_instances=kinds, hypervisor_version=version))
    asked = request(image={"properties": {"vm_mode": "hvm", "hypervisor_version_requires": ">=6.0"}})
    assert {"host1"} == passed(filters.ImagePropertiesFilter(), hosts, asked)


@pytest.mark.parametrize("properties", [{"architecture": "amd64"}, {"vm_mode": "hvm"}, {"hypervisor_type": "kvm"}])
def test_hosts_may_use_other_words(properties):
    """Values of hosts and images are translated to the same names; an unknown value stays as it is."""
    hosts = factories.candidates(node("host1", supported_instances=[("amd64", "KVM", "hv"), ("vax", "simh", "odd")]))
    asked = request(image={"properties": properties})
    assert {"host1"} == passed(filters.ImagePropertiesFilter(), hosts, asked)


def test_default_architecture():
    """Images that name no architecture need that of the option; others what they name."""
    hosts = factories.candidates(*HOSTS)
    each = filters.ImagePropertiesFilter("i686")
    assert {"kvm"} == passed(each, hosts, request())
    assert {"kvm", "xen"} == passed(each, hosts, request(image={"properties": {"architecture": "x86_64"}}))


@pytest.mark.parametrize(
    ("bits", "expected"),
    [(40, ["wide", "narrow", "silent"]), ("46", ["wide", "silent"]), (None, ["wide", "narrow", "silent"])],
)
def test_width_of_physical_addresses(bits, expected):
    """A host whose processor forms narrower addresses is dropped; one that does not say is not."""
    hosts = factories.candidates(
        node("wide", cpu_info='{"maxphysaddr": {"bits": 46}}'),
        node("narrow", cpu_info='{"maxphysaddr": {"bits": 42}}'),
        node("silent", cpu_info='{"arch": "x86_64"}'),
    )
    asked = request(image={"properties": {"hw_maxphysaddr_bits": bits}})
    assert set(expected) == passed(filters.ImagePropertiesFilter(), hosts, asked)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("architecture", "quantum", "'quantum' is no architecture"),
        ("img_hv_type", "vapour", "'vapour' is no hypervisor type"),
        ("vm_mode", "dream", "'dream' is no vm mode"),
        ("hypervisor_version_requires", "6.0", "6.0"),
        ("hypervisor_version_requires", ">=six", "six"),
        ("hw_maxphysaddr_bits", "many", "many"),
    ],
)
def test_properties_without_sense(name, value, reason):
    """The request is refused by the name of the property to correct."""
    with pytest.raises(errors.InvalidInput) as refused:
        filters.ImagePropertiesFilter().mask(factories.candidates(*HOSTS), request(image={"properties": {name: value}}))
    assert f"request_spec.image.properties.{name}" == refused.value.field
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("canonical", "name", "expected"),
    [
        *((guest_kinds.architecture, name, "i686") for name in ("i386", "i486", "i586", "i686", "x86_32", "x86_32p")),
        (guest_kinds.architecture, "AMD64", "x86_64"),
        (guest_kinds.architecture, "PPC64LE", "ppc64le"),
        (guest_kinds.hypervisor_type, "xapi", "xen"),
        (guest_kinds.hypervisor_type, "QEMU", "qemu"),
        (guest_kinds.hypervisor_type, "local", "local"),
        (guest_kinds.vm_mode, "pv", "xen"),
        (guest_kinds.vm_mode, "hv", "hvm"),
        (guest_kinds.vm_mode, "baremetal", "hvm"),
        (guest_kinds.vm_mode, "EXE", "exe"),
    ],
)
def test_canonical_names(canonical, name, expected):
    """Names are told apart without case, and some have other names."""
    assert expected == canonical(name)
