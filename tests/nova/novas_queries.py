# SPDX-License-Identifier: Apache-2.0
"""Run by nova's own Python: prints the allocation candidates query that nova makes of each RequestSpec on standard input."""

import json
import sys

import nova.conf
from nova import objects
from nova.scheduler import request_filter, utils

_FILTERS = (
    request_filter.compute_status_filter,
    request_filter.accelerators_filter,
    request_filter.packed_virtqueue_filter,
    request_filter.ephemeral_encryption_filter,
    request_filter.virtio_sound_filter,
    request_filter.tpm_secret_security_filter,
    request_filter.require_image_type_support,
    request_filter.transform_image_metadata,
)


def query(primitive):
    """Return the query, and the one that nova adds for dedicated CPUs."""
    spec = objects.RequestSpec.obj_from_primitive(primitive)
    for each in _FILTERS:
        each(None, spec)
    made = utils.resources_from_request_spec(None, spec, None)
    if not made.cpu_pinning_requested:
        return made.to_querystring(), None
    other = utils.resources_from_request_spec(None, spec, None, enable_pinning_translate=False)
    return made.to_querystring(), other.to_querystring()


if __name__ == "__main__":
    objects.register_all()
    nova.conf.CONF([], project="nova", default_config_files=[])
    for option in ("query_placement_for_image_type_support", "image_metadata_prefilter"):
        nova.conf.CONF.set_override(option, True, "scheduler")
    print(json.dumps([query(each) for each in json.load(sys.stdin)]))
