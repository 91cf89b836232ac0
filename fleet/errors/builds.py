# SPDX-License-Identifier: Apache-2.0
"""Errors of a build or a move on its host.

Agents raise them, and conductors read from them whether another host may succeed.
"""

from collections.abc import Mapping
from typing import ClassVar

from fleet.errors.base import FleetError
from fleet.reasons import Reason


class ComputeResourcesUnavailable(FleetError):
    """A host refused a claim: it has less room than the scheduler had counted. The next alternate is tried."""

    code = 400
    reason_code = Reason.RACE_LOST
    template = "Insufficient compute resources: {reason}."
    reason: str


class PoolSpaceUnavailable(FleetError):
    """A storage pool has less room than the scheduler had counted. The next alternate is tried."""

    code = 400
    reason_code = Reason.RACE_LOST
    template = "Insufficient space: {reason}."
    hidden: ClassVar[Mapping[str, object]] = {"reason": "no pool that the request may use has room for it"}
    reason: str


class InvalidReference(FleetError):
    """The data to manage do not exist on the pool, or cannot be a volume. Name another, or change it."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    final = True
    template = "{reference} cannot be managed: {reason}."
    reference: str
    reason: str


class GroupAffinityViolation(FleetError):
    """The instance on this host would break its group's policy. The check runs when the claim is recorded."""

    reason_code = Reason.RACE_LOST
    hidden: ClassVar[Mapping[str, object]] = {"host": "(hidden)"}
    template = "Instance {instance_uuid} on host {host} would violate the {policy} policy of group {group_uuid}."


class RequestUnreadable(FleetError):
    """The stored request of an instance or a volume cannot be read, so nothing can be placed by it. Delete it."""

    final = True
    template = "The stored request of {kind} {uuid} cannot be read; delete it and send the request again"
    kind: str
    uuid: str


class StaleBuild(FleetError):
    """A message of an attempt that is over: the build has another attempt or host, or is deleted. Drop the work."""

    code = 409
    template = "Build of instance {instance_uuid} attempt {attempt} is no longer expected here: {reason}"
    instance_uuid: str
    attempt: int
    reason: str


class BuildAbort(FleetError):
    """The build cannot succeed on any host, or cannot be cleaned up on this one. No other host is tried."""

    final = True
    template = "Build of instance {instance_uuid} aborted: {reason}"
    instance_uuid: str
    reason: str


class ImageUnacceptable(FleetError):
    """A driver cannot use the image, and no other host could. Use another image."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    final = True
    template = "Image {image_id} is unacceptable: {reason}"
    image_id: str
    reason: str


class FlavorDiskTooSmall(FleetError):
    """The flavor's root disk is too small for the image. Use a flavor with a larger disk."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    final = True
    template = "Root disk of {flavor_gb} GB is too small for image {image_id}, which has {image_bytes} bytes"
    flavor_gb: int
    image_id: str
    image_bytes: int


class CPUPinningUnknown(FleetError):
    """An instance holds CPUs that its host cell does not have. The host's hardware has changed."""

    code = 400
    template = "CPUs {requested} are not among those that may be pinned: {available}."


class CPUPinningInvalid(FleetError):
    """CPUs to be pinned are pinned already: the fit was computed for another state of the host."""

    code = 400
    template = "CPUs {requested} are not all free: {free} are."
