# SPDX-License-Identifier: Apache-2.0
"""Checks that a host can open a volume: it must have the data, in a file that is named after the volume.

Called by the modules beside it and those of :mod:`compute_agent.work.moves`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from compute_agent.node.host import Host
from fleet import errors
from fleet.objects import Attachment
from fleet.objects.attachment import reaches


class VolumeUnreachable(errors.FleetError):
    """This host does not have the data of a volume. Set ``volume_hosts`` if it does, or use a volume that it reaches."""

    template = "Host {host} does not reach the volume on {place}: {reason}"


def require(host: Host, attachment: Attachment) -> None:
    """:raises VolumeUnreachable:"""
    machine, path = attachment.machine, attachment.connection.path
    if not machine:
        return
    reason = ""
    if not reaches(host.name, host.policy.volume_hosts, machine):
        reason = f"its data are on machine {machine}, which the option volume_hosts of this host does not name"
    elif attachment.volume_uuid not in os.path.basename(path):
        # The agent of a backend must not choose among the files of this host.
        reason = f"{path}, where its data are said to be, is not named after the volume"
    elif not os.path.exists(path):
        reason = f"there is no {path} on this host"
    if reason:
        raise VolumeUnreachable(host=host.name, place=attachment.volume_host, reason=reason)


def require_all(host: Host, attachments: Iterable[Attachment]) -> None:
    """Check the volumes that a guest is to start with.

    :raises VolumeUnreachable:
    :raises errors.NotSupported: the driver starts guests without volumes only
    """
    for each in attachments:
        if not host.driver.takes_volumes:
            raise errors.NotSupported(what="A guest that starts with volumes", driver=type(host.driver).__name__)
        require(host, each)


def given(host: Host, attachments: Sequence[Attachment]) -> dict[str, Sequence[Attachment]]:
    """The argument of a driver's method that starts a guest: all of its volumes."""
    return {"volumes": attachments} if host.driver.takes_volumes else {}
