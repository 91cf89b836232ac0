# SPDX-License-Identifier: Apache-2.0
"""The seed: a small ISO 9660 image that cloud-init reads as the data source NoCloud.

Called by :mod:`compute_agent.drivers.libvirt.disks.guest_disks`. NoCloud reads the addresses from ``network-config``.
``network_data.json`` has them for programs that know OpenStack's form.
"""

from __future__ import annotations

import base64
import io
import json
import pathlib
import re
from typing import Any

from compute_agent.drivers.libvirt.domains import extra, interfaces
from fleet.json_codec import JSONObject
from fleet.objects import BootData, Instance, host_name, network

#: cloud-init finds the seed by this label.
_LABEL = "cidata"
_OPENSTACK = "openstack/latest"
#: Characters that JSON and YAML escape in the same way, and that may need it.
_ESCAPED = re.compile("[\x7f-\uffff]")
_NO_USER_DATA = b"#cloud-config\n{}\n"


def write(path: pathlib.Path, instance: Instance, data: BootData) -> None:
    """JSON is YAML, so names need no quoting of their own."""
    metadata = {
        "instance-id": instance.uuid,
        "local-hostname": data.hostname or host_name.of(instance.name),
        "fleet": {"name": instance.name, "project_id": instance.project_id, "metadata": dict(instance.metadata)},
    }
    if data.public_key:
        metadata["public-keys"] = {data.key_name: data.public_key}
    files = {
        "meta-data": _json(metadata),
        "user-data": base64.b64decode(data.user_data) or _NO_USER_DATA,
    }
    if data.admin_password:
        # Vendor data: user data override them.
        files["vendor-data"] = b"#cloud-config\n" + _json(_password(data.admin_password))
    if plugs := network.interfaces_from_wire(instance.interfaces):
        files["network-config"] = _json(interfaces.network_config(plugs))
        files[f"{_OPENSTACK}/network_data.json"] = _json(interfaces.network_data(plugs))
    image = extra.module("pycdlib").PyCdlib()
    image.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=_LABEL)
    for number, (path_of, content) in enumerate(sorted(files.items())):
        directory, name = _directory(image, path_of)
        known = {"rr_name": name, "joliet_path": f"/{path_of}"}
        image.add_fp(io.BytesIO(content), len(content), f"{directory}/FILE{number}.;1", **known)
    with open(path, "xb") as file:
        image.write_fp(file)
    image.close()


def _password(password: str) -> JSONObject:
    """The part of a cloud-config that sets the password of the default user."""
    return {"password": password, "chpasswd": {"expire": False}}


def _directory(image: Any, path: str) -> tuple[str, str]:
    """Make the directories of ``path``; return the image's own name of the last one, and the name of the file."""
    *parents, name = path.split("/")
    for depth, each in enumerate(parents, 1):
        short, long = ("/".join(parents[:depth]).upper(), "/".join(parents[:depth]))
        image.add_directory(f"/{short}", rr_name=each, joliet_path=f"/{long}")
    return "".join(f"/{each.upper()}" for each in parents), name


def _json(value: object) -> bytes:
    """Return JSON that is YAML with the same value.

    JSON escapes a character beyond U+FFFF as two halves. YAML reads two characters, which cannot be written as UTF-8:
    such a character stays as it is. Not all others may stand in YAML: they are escaped.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return (_ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n").encode()
