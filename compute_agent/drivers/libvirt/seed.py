# SPDX-License-Identifier: Apache-2.0
"""The seed: a small ISO 9660 image that cloud-init reads as the data source NoCloud."""

from __future__ import annotations

import io
import json
import pathlib
import re

from compute_agent.drivers.libvirt import extra
from fleet.objects import Instance

#: cloud-init finds the seed by this label.
_LABEL = "cidata"
_NOT_IN_HOST_NAMES = re.compile(r"[^a-z0-9-]+")
_LONGEST_HOST_NAME = 63


def write(path: pathlib.Path, instance: Instance) -> None:
    """JSON is YAML, so names need no quoting of their own."""
    metadata = {
        "instance-id": instance.uuid,
        "local-hostname": host_name(instance.name),
        "fleet": {"name": instance.name, "project_id": instance.project_id, "metadata": dict(instance.metadata)},
    }
    files = {"meta-data": json.dumps(metadata, indent=1) + "\n", "user-data": "#cloud-config\n{}\n"}
    image = extra.module("pycdlib").PyCdlib()
    image.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=_LABEL)
    for number, (name, text) in enumerate(sorted(files.items())):
        data = text.encode()
        image.add_fp(io.BytesIO(data), len(data), f"/FILE{number}.;1", rr_name=name, joliet_path=f"/{name}")
    with open(path, "xb") as file:
        image.write_fp(file)
    image.close()


def host_name(name: str) -> str:
    """The part of a name that a host name may have; ``guest`` if there is none."""
    return _NOT_IN_HOST_NAMES.sub("-", name.lower()).strip("-")[:_LONGEST_HOST_NAME].rstrip("-") or "guest"
