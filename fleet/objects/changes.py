# SPDX-License-Identifier: Apache-2.0
"""Changes that users may make to an instance or a volume: name, description and metadata; of an instance tags, too.

Conductors parse it from the message. fleet-api checks the metadata and tags of bodies with its types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Annotated, Literal, Self

import pydantic

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields, uuid_like
from fleet.objects.access_address import AccessV4, AccessV6
from fleet.objects.host_name import HostName

#: nova's limits.
MOST_TAGS, LONGEST_TAG, MOST_METADATA = 50, 60, 128
_NOT_IN_TAGS = frozenset("/,?#%\\")


def _plain_tag(tag: str) -> str:
    """Refuse what would end a path of a client, or lead out of it: clients put a tag there without quoting it."""
    if not _NOT_IN_TAGS.isdisjoint(tag) or tag in (".", ".."):
        raise ValueError(
            f"must not have one of the characters '{''.join(sorted(_NOT_IN_TAGS))}', and not be '.' or '..'"
        )
    return tag


def _settable(metadata: dict[str, str | None]) -> dict[str, str | None]:
    for key, value in metadata.items():
        if value is not None:
            try:
                fields.METADATA_KEY.check(key)
            except ValueError as wrong:
                raise ValueError(f"has a key that {wrong}") from None
    return metadata


def _once(tags: list[str]) -> list[str]:
    return sorted(set(tags))


Tag = Annotated[fields.Name, pydantic.StringConstraints(max_length=LONGEST_TAG), pydantic.AfterValidator(_plain_tag)]
#: What clients may write about the partitions of a guest's disk. It is kept and shown, and nothing is done with it.
DiskConfig = Literal["AUTO", "MANUAL"]
#: Of :class:`InstanceChanges`, what older conductors do not know, with the version that introduced it.
NEWER = {"access_ip_v4": "1.18", "access_ip_v6": "1.18", "hostname": "1.18", "disk_config": "1.19"}
#: Sorted, each tag once.
Tags = Annotated[list[Tag], pydantic.Field(max_length=MOST_TAGS), pydantic.AfterValidator(_once)]
#: Those that only earlier releases accepted, too.
_FormerTags = Annotated[list[fields.Name], pydantic.Field(max_length=MOST_TAGS)]
#: Keys and values that are set, none of them removed.
NewMetadata = Annotated[dict[fields.MetadataKey, fields.Text], pydantic.Field(max_length=MOST_METADATA)]
#: One key with its value.
OneMetadata = Annotated[NewMetadata, pydantic.Field(min_length=1, max_length=1)]
#: None removes a key. It may be one that only earlier releases accepted.
ChangedMetadata = Annotated[
    dict[fields.Name, fields.Text | None],
    pydantic.Field(max_length=MOST_METADATA),
    pydantic.AfterValidator(_settable),
]


@dataclasses.dataclass(frozen=True)
class Changes:
    """A field that is None stays as it is.

    ``metadata`` is merged with the keys that are there, and a key with None is removed; with ``replace_metadata`` it takes
    their place.
    """

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    name: uuid_like.GivenName | None = None
    description: fields.Text | None = None
    metadata: ChangedMetadata | None = None
    replace_metadata: fields.Flag = False

    @classmethod
    def from_wire(cls, data: object, field: str = "changes") -> Self:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data, field)

    def details(self, before: JSONMapping) -> JSONObject:
        """Return the changes other than the name.

        :param before: ``metadata`` (and of an instance ``tags``) as they are
        :raises errors.InvalidInput: there would be too many keys or tags
        """
        found: JSONObject = {}
        if self.description is not None:
            found["description"] = self.description
        if self.metadata is not None:
            given = {} if self.replace_metadata else dict(before["metadata"])
            given.update(self.metadata)
            found["metadata"] = {key: value for key, value in given.items() if value is not None}
            _require_few("metadata", found["metadata"], MOST_METADATA)
            fields.require_small(found["metadata"], "changes.metadata")
        return found


@dataclasses.dataclass(frozen=True)
class InstanceChanges(Changes):
    """``tags`` take the place of the tags that are there; then ``add_tags`` and ``remove_tags`` are applied."""

    tags: Tags | None = None
    add_tags: Tags = dataclasses.field(default_factory=list)
    remove_tags: _FormerTags = dataclasses.field(default_factory=list)
    access_ip_v4: AccessV4 | None = None
    access_ip_v6: AccessV6 | None = None
    hostname: HostName | None = None
    disk_config: DiskConfig | None = None

    def details(self, before: JSONMapping) -> JSONObject:
        found = super().details(before)
        if self.tags is not None or self.add_tags or self.remove_tags:
            kept = before["tags"] if self.tags is None else self.tags
            found["tags"] = sorted({*kept, *self.add_tags} - set(self.remove_tags))
            _require_few("tags", found["tags"], MOST_TAGS)
        given = {name: getattr(self, name) for name in NEWER}
        return {**found, **{name: value for name, value in given.items() if value is not None}}


@dataclasses.dataclass(frozen=True)
class VolumeChanges(Changes):
    """Changes that users may make to a volume or a snapshot.

    :param bootable: of a volume: whether it has a system to boot
    """

    bootable: fields.Flag | None = None

    def details(self, before: JSONMapping) -> JSONObject:
        found = super().details(before)
        return found if self.bootable is None else {**found, "bootable": self.bootable}


def _require_few(field: str, given: Iterable[str], most: int) -> None:
    count = len(list(given))
    if count > most:
        raise errors.InvalidInput(field=f"changes.{field}", reason=f"would have {count} entries; {most} are allowed")
