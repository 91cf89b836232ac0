# SPDX-License-Identifier: Apache-2.0
"""The growth of thick logical volumes: the new space is zeroed before it counts.

A tag has the size that a volume had. It stays until the growth is zeroed or undone, so both survive a crash.
Called by :mod:`volume_agent.drivers.lvm`.
"""

from __future__ import annotations

from oslo_log import log as logging

from volume_agent.drivers.base import ExtensionUnfinished
from volume_agent.drivers.blocks import Blocks
from volume_agent.drivers.volume_group import LogicalVolume, VolumeGroup

LOG = logging.getLogger(__name__)
#: Tag of a volume whose growth is not zeroed yet; the size that it had follows.
_GROWS = "fleet.grows-from."


def zeroed_to(volume: LogicalVolume) -> int:
    """Return the size of a volume without what an unfinished extension has added."""
    tags = [each for each in volume.tags if each.startswith(_GROWS)]
    return int(tags[0].removeprefix(_GROWS)) if tags else volume.size


def is_unfinished(volume: LogicalVolume) -> bool:
    """Return True if the volume has space that is not known to be zeroed: it may hold data of others."""
    return zeroed_to(volume) < volume.size


def grow(group: VolumeGroup, blocks: Blocks, found: LogicalVolume, size: int) -> None:
    """Grow a thick volume by zeros. Do nothing if it has this size. An extension that was cut short is repeated whole.

    :raises ExtensionUnfinished: it has failed, and is not undone
    :raises OSError: it has failed, and the volume has its old size
    """
    before = zeroed_to(found)
    if before >= size:
        return
    group.tag(found.name, f"{_GROWS}{before}")
    try:
        if found.size < size:
            group.extend(found.name, size)
        blocks.zero(group.device(found.name), before, size - before)
    except OSError as failure:
        _undo(group, found.name, before, failure)
        raise
    try:
        group.untag(found.name, f"{_GROWS}{before}")
    except OSError as failure:
        raise ExtensionUnfinished(f"{found.name} still counts as growing: {failure}") from failure


def _undo(group: VolumeGroup, name: str, before: int, failure: OSError) -> None:
    """:raises ExtensionUnfinished:"""
    try:
        group.reduce(name, before)
    except OSError as second:
        raise ExtensionUnfinished(f"{failure}; {name} cannot get its old size back: {second}") from failure
    _untag(group, name, before)


def undo_unfinished(group: VolumeGroup, volume: LogicalVolume) -> None:
    """Give a volume of an unfinished extension its old size. :raises OSError: it keeps the larger one"""
    group.reduce(volume.name, zeroed_to(volume))
    _untag(group, volume.name, zeroed_to(volume))


def _untag(group: VolumeGroup, name: str, size: int) -> None:
    """Remove the tag of a volume that has its old size. A tag that stays says what is true."""
    try:
        group.untag(name, f"{_GROWS}{size}")
    except OSError as failure:
        LOG.info("%s/%s keeps a tag with its size: %s", group.name, name, failure)
