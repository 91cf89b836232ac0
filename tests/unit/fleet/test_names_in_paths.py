# SPDX-License-Identifier: Apache-2.0
"""What users name and clients put into paths without quoting it: it cannot lead to another object."""

from __future__ import annotations

from typing import Any

import pytest
import urllib3

from fleet import errors
from fleet.objects import BuildRequest, InstanceChanges, KeyPair, VolumeRequest, changes, fields
from fleet.objects.volume import ManageRequest
from tests import factories

#: Each leads a library that resolves dot segments, or a path that ends at it, to another object.
LEADING_OUT = ("../../b", "..", ".", "../..", "..?", "..#", "?", "#a", "a/b", "%2e%2e", "..\\b")
REFUSED = (*LEADING_OUT, "", "x" * 256, "a\n", "schlüssel", "a,b")
KEYS = ("a", "...", "..a", "hw:cpu_policy", "a b", "A.b-c_d:e", "x" * 255)


def pair(name: str) -> KeyPair:
    return KeyPair.from_wire({"name": name, "public_key": factories.PUBLIC_KEY})


NEW: dict[str, Any] = {
    "metadata": lambda key: fields.parse(fields.Metadata, {key: "v"}, "metadata"),
    "metadata that is set": lambda key: fields.parse(changes.NewMetadata, {key: "v"}, "metadata"),
    "one key": lambda key: fields.parse(changes.OneMetadata, {key: "v"}, "metadata"),
    "changed metadata": lambda key: InstanceChanges.from_wire({"metadata": {key: "v"}}),
    "a build": lambda key: BuildRequest.from_wire({"flavor": "m1", "metadata": {key: "v"}}),
    "a volume": lambda key: VolumeRequest.from_wire({"size": 1, "metadata": {key: "v"}}),
    "a managed volume": lambda key: ManageRequest.from_wire({"host": "h", "reference": "r", "metadata": {key: "v"}}),
}


@pytest.mark.parametrize("place", NEW)
def test_a_key_of_metadata(place: str) -> None:
    for key in KEYS:
        NEW[place](key)
    for key in REFUSED:
        with pytest.raises(errors.InvalidInput, match="metadata"):
            NEW[place](key)


@pytest.mark.parametrize("key", KEYS)
def test_a_library_leaves_a_key_alone(key: str) -> None:
    """It only quotes blanks."""
    path = urllib3.util.parse_url(f"http://fleet/servers/a/metadata/{key}").path
    assert f"/servers/a/metadata/{key.replace(' ', '%20')}" == path


def test_a_key_of_an_earlier_release_can_be_removed() -> None:
    """By itself, and with all others. It stays while others change."""
    before = {"metadata": {"../../b": "old", "a": "1"}}
    for given, left in (
        ({"metadata": {"../../b": None}}, {"a": "1"}),
        ({"metadata": {"c": "3"}, "replace_metadata": True}, {"c": "3"}),
        ({"metadata": {"a": "2"}}, {"../../b": "old", "a": "2"}),
    ):
        assert {"metadata": left} == InstanceChanges.from_wire(given).details(before)


def test_a_name_of_a_key_pair() -> None:
    for name in ("mine", "alice@laptop", "id_rsa.pub", "a b", "..."):
        assert name == pair(name).name
    for name in (*REFUSED, "a:b"):
        with pytest.raises(errors.InvalidInput, match=r"key_pair\.name must"):
            pair(name)


def test_a_tag() -> None:
    """One of an earlier release can be removed."""
    for tag in ("a", "...", "größe", "a b", "a:b=c"):
        assert [tag] == InstanceChanges.from_wire({"add_tags": [tag]}).add_tags
    for tag in LEADING_OUT:
        for given in ("tags", "add_tags"):
            with pytest.raises(errors.InvalidInput, match=rf"changes\.{given}\.0 must not have one of"):
                InstanceChanges.from_wire({given: [tag]})
        removed = InstanceChanges.from_wire({"remove_tags": [tag]})
        assert {"tags": ["a"]} == removed.details({"metadata": {}, "tags": [tag, "a"]})
