# SPDX-License-Identifier: Apache-2.0
"""Host names of guests, given or made of names."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.objects import InstanceChanges, host_name

HOST_NAMES = [("Web 1", "web-1"), ("--a_b--", "a-b"), ("名前", "guest"), ("", "guest"), ("a" * 70, "a" * 63)]


@pytest.mark.parametrize(("name", "expected"), HOST_NAMES)
def test_of_a_name(name: str, expected: str) -> None:
    """Of a name, what a host name may have."""
    assert expected == host_name.of(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("web", "web-2"), ("web.example.com", "web-2.example.com"), ("a" * 63, "a" * 61 + "-2")],
)
def test_of_several(name: str, expected: str) -> None:
    """The first label gets the number, and stays short enough."""
    assert expected == host_name.numbered(name, 1)


@pytest.mark.parametrize("name", ["a", "Web-1", "1.2.3", "a" * 63, ".".join(["a" * 63] * 3)])
def test_that_is_right(name: str) -> None:
    assert {"hostname": name} == InstanceChanges.from_wire({"hostname": name}).details({})


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "a_b", "a b", "a..b", "a.", "a" * 64, ".".join(["a" * 63] * 5), "ä", 5]
)
def test_that_is_wrong(name: object) -> None:
    with pytest.raises(errors.InvalidInput, match="hostname"):
        InstanceChanges.from_wire({"hostname": name})


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("access_ip_v4", "192.0.2.1", "192.0.2.1"),
        ("access_ip_v4", "", ""),
        ("disk_config", "AUTO", "AUTO"),
        ("access_ip_v6", "2001:DB8:0::1", "2001:db8::1"),
    ],
)
def test_an_address(field: str, given: str, kept: str) -> None:
    assert {field: kept} == InstanceChanges.from_wire({field: given}).details({})


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("access_ip_v4", "::1"),
        ("access_ip_v4", "1.2.3"),
        ("access_ip_v6", "192.0.2.1"),
        ("access_ip_v6", 5),
        ("disk_config", "auto"),
    ],
)
def test_an_address_that_is_none(field: str, given: object) -> None:
    with pytest.raises(errors.InvalidInput, match=field):
        InstanceChanges.from_wire({field: given})
