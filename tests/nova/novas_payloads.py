# SPDX-License-Identifier: Apache-2.0
"""Run by nova's own Python: prints the payload of nova's notification about each RequestSpec on standard input.

Each comes as a pair: that of the versioned notification, and the request in the older one.
"""

import json
import sys
import tempfile

import nova.conf
from nova import objects, rpc
from nova.notifications.objects import request_spec as payloads
from nova.objects import base

#: Payloads are filled in only where they would be sent.
_CONFIG = """\
[DEFAULT]
transport_url = fake://
[notifications]
notification_format = both
[oslo_messaging_notifications]
driver = messagingv2
"""


def payload(primitive):
    spec = objects.RequestSpec.obj_from_primitive(primitive)
    older = base.NovaObjectSerializer().serialize_entity(None, spec.to_legacy_request_spec_dict())
    made = payloads.RequestSpecPayload(spec)
    made.obj_reset_changes(recursive=True)
    return made.obj_to_primitive(), older


if __name__ == "__main__":
    objects.register_all()
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as written:
        written.write(_CONFIG)
        written.flush()
        nova.conf.CONF(["--config-file", written.name], project="nova")
    rpc.init(nova.conf.CONF)
    print(json.dumps([payload(each) for each in json.load(sys.stdin)]))
