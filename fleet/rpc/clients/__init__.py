# SPDX-License-Identifier: Apache-2.0
"""One class for each topic and namespace of ``docs/wire-contract.md``. Services call each other through these classes
only.
"""

from fleet.rpc.clients.api import API, MANDATORY
from fleet.rpc.clients.compute import ComputeAPI
from fleet.rpc.clients.compute_task import ComputeTaskAPI
from fleet.rpc.clients.conductor import HEARTBEAT_TIMEOUT_S, ConductorAPI
from fleet.rpc.clients.migration import MigrationAPI
from fleet.rpc.clients.operator.api import BaseAPI, NovaOperatorAPI, OperatorAPI
from fleet.rpc.clients.operator.calls import OperatorCalls
from fleet.rpc.clients.scheduler import SchedulerAPI
from fleet.rpc.clients.volume import VolumeAPI
from fleet.rpc.clients.volume_scheduler import VolumeSchedulerAPI
from fleet.rpc.clients.volume_task import VolumeTaskAPI

__all__ = [
    "API",
    "BaseAPI",
    "ComputeAPI",
    "ComputeTaskAPI",
    "ConductorAPI",
    "HEARTBEAT_TIMEOUT_S",
    "MANDATORY",
    "MigrationAPI",
    "NovaOperatorAPI",
    "OperatorAPI",
    "OperatorCalls",
    "SchedulerAPI",
    "VolumeAPI",
    "VolumeSchedulerAPI",
    "VolumeTaskAPI",
]
