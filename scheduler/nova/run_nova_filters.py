# SPDX-License-Identifier: Apache-2.0
"""Runs nova's own filters. A program for the Python of an installed nova: it can import nova, and nothing of this project.

``python run_nova_filters.py --config-file FILE``. Standard input: a JSON list of ``{"spec": RequestSpec as nova stores it,
"offers": {uuid of a compute node: [allocation request of placement]}}``. Standard output: as many lists of the compute nodes
that pass. Reads only.
"""

import json
import sys

from nova import config, context, objects
from nova.scheduler import host_manager


def main() -> None:
    config.parse_args(["nova-scheduler", *sys.argv[1:]])
    objects.register_all()
    hosts = host_manager.HostManager()
    print(json.dumps([_passing(hosts, **each) for each in json.load(sys.stdin)]))


def _passing(hosts: host_manager.HostManager, spec: dict, offers: dict) -> list:
    request = objects.RequestSpec.obj_from_primitive(spec)
    states = list(hosts.get_host_states_by_uuids(context.get_admin_context(), list(offers), request))
    for state in states:
        # Filters of nova 34 drop a host without any.
        if hasattr(state, "allocation_candidates"):
            state.allocation_candidates = offers[state.uuid]
    return [state.uuid for state in hosts.get_filtered_hosts(states, request)]


if __name__ == "__main__":
    main()
