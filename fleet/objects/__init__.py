# SPDX-License-Identifier: Apache-2.0
"""Typed values, parsed once at the edge: frozen dataclasses with ``from_wire`` and ``to_wire``.

``fields`` holds the parser. A ``BuildRequest`` is what a client sends; it becomes ``Instance`` rows; the scheduler
receives a ``RequestSpec`` and answers with ``Selection`` values; a host records a ``Claim`` and a ``Finish`` for each build
and describes itself in a ``HostReport``. A storage backend describes each of its pools in a ``PoolReport``. ``location``
names pools. A ``VolumeRequest`` becomes ``Volume`` rows; a ``VolumeType`` is what volumes ask of pools, an ``Attachment``
a volume that a guest has. An ``ImageRecord`` is what the fleet keeps of an image, ``BootData`` what a guest finds at its
first boot (``KeyPair``, user data).
``quota`` says how much a project may have, ``feed_rows`` what a change feed shows to schedulers.
"""

from fleet.objects.aggregate import Aggregate
from fleet.objects.attachment import Attachment, VolumeConnection
from fleet.objects.block_device import BlockDevice
from fleet.objects.boot_data import BootData
from fleet.objects.build_request import BuildRequest
from fleet.objects.build_steps import BuildStep, Claim, FailedAttempt, Finish
from fleet.objects.changes import InstanceChanges, VolumeChanges
from fleet.objects.claimed import Claimed
from fleet.objects.flavor import Flavor
from fleet.objects.guest_cpu import GuestCpu
from fleet.objects.holding import Holding
from fleet.objects.host_limits import HostLimits
from fleet.objects.host_report import HostReport, Inventory
from fleet.objects.image import Image
from fleet.objects.image_record import ImageRecord
from fleet.objects.instance import Instance
from fleet.objects.key_pair import KeyPair
from fleet.objects.migration import Migration, Sizing
from fleet.objects.pool_report import PoolReport
from fleet.objects.rebuild_request import RebuildRequest
from fleet.objects.request_spec import RequestSpec
from fleet.objects.selection import Place, Selection
from fleet.objects.volume import ManageRequest, Volume, VolumeImage, VolumeRequest
from fleet.objects.volume_type import VolumeType
from fleet.objects.zone import Zone

__all__ = [
    "Aggregate",
    "Attachment",
    "BlockDevice",
    "BootData",
    "BuildRequest",
    "BuildStep",
    "Claim",
    "Claimed",
    "FailedAttempt",
    "Finish",
    "Flavor",
    "GuestCpu",
    "Holding",
    "HostLimits",
    "HostReport",
    "Image",
    "ImageRecord",
    "Instance",
    "InstanceChanges",
    "Inventory",
    "KeyPair",
    "ManageRequest",
    "Migration",
    "Place",
    "PoolReport",
    "RebuildRequest",
    "RequestSpec",
    "Selection",
    "Sizing",
    "Volume",
    "VolumeChanges",
    "VolumeConnection",
    "VolumeImage",
    "VolumeRequest",
    "VolumeType",
    "Zone",
]
