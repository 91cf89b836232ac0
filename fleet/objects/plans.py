# SPDX-License-Identifier: Apache-2.0
"""The plan of a move or a volume, a column of JSON in the ledger: destinations, attempts and failures.

The types have the keys that this release writes. A reader keeps keys that it does not know. Written by the machines of
moves and volumes.
"""

from __future__ import annotations

from typing_extensions import TypedDict

from fleet.json_codec import JSONObject


class StoredPlace(TypedDict):
    """A ``Place`` as ``to_wire`` returns it."""

    host: str
    nodename: str | None
    limits: JSONObject | None


class StoredFailure(TypedDict):
    """The error for which a move or a volume failed, or is being undone.

    :param error: the name of a class of ``fleet.errors``
    """

    error: str
    message: str
    details: JSONObject


class MovePlan(TypedDict, total=False):
    """The plan of a move: what it was asked for, what the scheduler has chosen, and how far it is.

    ``destination``, ``preferred``, ``confirms`` and ``promised`` are written when it is accepted, and hold for each attempt.

    :param destination: host that the user named: the only one
    :param preferred: host of the plan of a recovery or a maintenance: the only one for the first attempt
    :param limits: of the claim on the destination
    :param alternates: the scheduler's other choices, best first
    :param tried: host and node of each destination that failed
    :param why: the failure of the last of them
    :param follows: whether the move waits for the moves of its group
    :param copied: per cent of the guest that is copied
    :param confirms: whether a resize is confirmed when the guest runs on its new host
    :param waits: whether the move waits for a slot; missing if it never did
    :param promised: whether the move is given up if it would break a tolerance
    """

    destination: str
    preferred: str
    limits: JSONObject | None
    alternates: list[StoredPlace]
    tried: list[list[str | None]]
    why: str
    follows: bool
    copied: int
    confirms: bool
    waits: bool
    promised: bool


class TriedPool(TypedDict):
    """An attempt on a pool that failed. :param backend: ``machine@backend#pool``"""

    backend: str | None
    attempt: int
    step: str | None
    result: str
    reason: str


class VolumePlan(TypedDict, total=False):
    """The plan of a volume.

    :param to: location that the user named
    :param alternates: the scheduler's other choices, best first
    :param copy_from: address of the data on the source
    :param old_copy: whether the destination may have an old copy
    :param tried: attempts that failed
    :param refusals: how often no scheduler had a pool
    :param copied: per cent of the volume that is copied
    :param unextended_gb: GiB that an extension was to reach, of which a failure was reported
    """

    to: str
    alternates: list[StoredPlace]
    copy_from: str | None
    old_copy: bool
    tried: list[TriedPool]
    refusals: int
    copied: int
    unextended_gb: int
