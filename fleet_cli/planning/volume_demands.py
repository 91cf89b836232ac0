# SPDX-License-Identifier: Apache-2.0
"""The requests of ``fleet whatif`` for volumes: of a trace, of one size, or of the volumes on backends.

Called by :mod:`fleet_cli.planning.whatif_domains`.
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterable, Mapping, Sequence

from oslo_config import cfg

from fleet.client import connection
from fleet.client.calls import Calls
from fleet.json_codec import JSONObject
from fleet.objects.answers.volumes import VolumeTypeView
from fleet.objects.whatif import Demand
from fleet_cli.planning import explain, planning, trace_arguments
from fleet_trial.replaying.volume_traces import VolumeTraceRequest


def of_size(conductor: Calls, parsed_args: argparse.Namespace) -> list[Demand]:
    """Return ``--count`` requests for one volume each."""
    asked = explain.volume_asked(conductor, parsed_args)
    return [Demand(_named(asked["request_spec"]), asked["filter_properties"], [None]) for _ in range(parsed_args.count)]


def of_trace(conductor: Calls, parsed_args: argparse.Namespace) -> list[Demand]:
    """:raises connection.CommandFailed: the trace cannot be read, or it names a volume type that does not exist"""
    requests = trace_arguments.read_volume_trace(parsed_args)
    named = any(each.volume_type for each in requests)
    types = {each["name"]: each for each in conductor.operator.list_volume_types()} if named else {}
    return [_demand(each, types) for each in requests]


def of_backends(conf: cfg.ConfigOpts, hosts: Iterable[str]) -> Sequence[Demand]:
    """Return the requests that place the volumes of backends anew, as migrations."""
    return [
        Demand(
            {
                "volume_id": row.uuid,
                "volume_properties": {
                    "size": row.size_gb,
                    "availability_zone": row.availability_zone,
                    "project_id": row.project_id,
                    "user_id": row.user_id,
                },
                "volume_type": row.spec.get("volume_type"),
                "operation": "migrate_volume_to_host",
            },
            {"scheduler_hints": row.spec.get("scheduler_hints", {})},
            [None],
            name=row.uuid,
        )
        for row in planning.volumes_of(conf, hosts, "whatif")
    ]


def _demand(asked: VolumeTraceRequest, types: Mapping[str, VolumeTypeView]) -> Demand:
    if asked.volume_type and asked.volume_type not in types:
        raise connection.CommandFailed(f"no volume type is named {asked.volume_type}; see 'fleet volume type list'")
    spec = {
        "volume_properties": {"size": asked.size_gb},
        "volume_type": types[asked.volume_type] if asked.volume_type else None,
        "operation": "create_volume",
    }
    return Demand(_named(spec), {}, asked.lifetimes_s, asked.at_s, asked.size)


def _named(spec: JSONObject) -> JSONObject:
    return {**spec, "volume_id": str(uuid.uuid4())}
