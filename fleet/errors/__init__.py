# SPDX-License-Identifier: Apache-2.0
"""Every error that crosses a service boundary.

An error carries its facts as keyword arguments and builds its message from them. oslo.messaging rebuilds a remote error from
``kwargs``, so both ends of a call see the same attributes. A refusal (a full host, a stale message) is an expected answer.
Any other exception that reaches a boundary is a bug.

On the wire each class is ``fleet.errors.NAME``, whichever module of this package defines it. Read ``base`` first, then
``placement``, ``builds``, ``services``, ``database`` and ``configuration``.
"""

from fleet.errors.base import Conflict, FleetError, InvalidInput, NotFound, NotSupported, QuotaExceeded
from fleet.errors.builds import (
    BuildAbort,
    ComputeResourcesUnavailable,
    CPUPinningInvalid,
    CPUPinningUnknown,
    FlavorDiskTooSmall,
    GroupAffinityViolation,
    ImageUnacceptable,
    InvalidReference,
    PoolSpaceUnavailable,
    RequestUnreadable,
    StaleBuild,
)
from fleet.errors.configuration import ClassNotFound, ConfigError, FilterNotFound, NotConfigured
from fleet.errors.database import DatabaseError, DatabaseFailed, DatabaseUnavailable, SchemaMismatch
from fleet.errors.placement import (
    MaxRetriesExceeded,
    MetricNotFound,
    NoValidHost,
    PluginFailed,
    RequestExpired,
    StaleState,
)
from fleet.errors.services import (
    ClockSkewed,
    ForeignExchange,
    ForeignLedger,
    HostTaken,
    NotTrusted,
    ReportRefused,
    ServiceDown,
    StaleIncarnation,
    VersionPinned,
)

__all__ = [
    "BuildAbort",
    "CPUPinningInvalid",
    "CPUPinningUnknown",
    "ClassNotFound",
    "ClockSkewed",
    "ComputeResourcesUnavailable",
    "ConfigError",
    "Conflict",
    "DatabaseError",
    "DatabaseFailed",
    "DatabaseUnavailable",
    "FilterNotFound",
    "FlavorDiskTooSmall",
    "FleetError",
    "ForeignExchange",
    "ForeignLedger",
    "GroupAffinityViolation",
    "HostTaken",
    "ImageUnacceptable",
    "InvalidInput",
    "InvalidReference",
    "MaxRetriesExceeded",
    "MetricNotFound",
    "NoValidHost",
    "NotConfigured",
    "NotFound",
    "NotSupported",
    "NotTrusted",
    "PluginFailed",
    "PoolSpaceUnavailable",
    "QuotaExceeded",
    "ReportRefused",
    "RequestExpired",
    "RequestUnreadable",
    "SchemaMismatch",
    "ServiceDown",
    "StaleBuild",
    "StaleIncarnation",
    "StaleState",
    "VersionPinned",
]
