# SPDX-License-Identifier: Apache-2.0
"""The seed: a small ISO 9660 image that cloud-init reads as the data source NoCloud."""

from __future__ import annotations

import base64
import io
import json
import pathlib
import re

from compute_agent.drivers.libvirt import extra
from fleet.objects import BootData, Instance

#: cloud-init finds the seed by this label.
_LABEL = "cidata"
_NOT_IN_HOST_NAMES = re.compile(r"[^a-z0-9-]+")
_LONGEST_HOST_NAME = 63
_NO_USER_DATA = b"#cloud-config\n{}\n"


def write(path: pathlib.Path, instance: Instance, data: BootData) -> None:
    """JSON is YAML, so names need no quoting of their own."""
    metadata = {
        "instance-id": instance.uuid,
        "local-hostname": host_name(instance.name),
        "fleet": {"name": instance.name, "project_id": instance.project_id, "metadata": dict(instance.metadata)},
    }
    if data.public_key:
        metadata["public-keys"] = {data.key_name: data.public_key}
    files = {
        "meta-data": f"{json.dumps(metadata, indent=1)}\n".encode(),
        "user-data": base64.b64decode(data.user_data) or _NO_USER_DATA,
    }
    image = extra.module("pycdlib").PyCdlib()
    image.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=_LABEL)
    for number, (name, content) in enumerate(sorted(files.items())):
        image.add_fp(io.BytesIO(content), len(content), f"/FILE{number}.;1", rr_name=name, joliet_path=f"/{name}")
    with open(path, "xb") as file:
        image.write_fp(file)
    image.close()


def host_name(name: str) -> str:
    """The part of a name that a host name may have; ``guest`` if there is none."""
    return _NOT_IN_HOST_NAMES.sub("-", name.lower()).strip("-")[:_LONGEST_HOST_NAME].rstrip("-") or "guest"
