# SPDX-License-Identifier: Apache-2.0
"""``fleet-api``: the HTTP door. It speaks the part of OpenStack's compute API that a placement service can answer.

It has no database and keeps nothing: it asks the conductor by RPC. Any number of processes may run.

Read in this order:

- ``conf`` (options), ``main`` (the daemon) and ``http_server`` (what serves the sockets)
- ``application`` (the routes), ``microversions`` (discovery, and the version of each request), ``identity`` with ``users``,
  ``tokens`` (keystone's), ``sessions`` and ``policies`` (who may do what), ``faults`` (errors as HTTP answers),
  ``conductor`` (the calls), ``bodies`` (parsing of what clients send), ``openapi`` (the document of all this), ``paging``
- the resources: ``servers`` with ``server_request``, ``server_view``, ``server_change``, ``server_details``
  (metadata and tags), ``attachments`` (volumes of servers), ``actions`` and ``instance_actions``; ``migrations`` and
  ``server_migrations``; ``flavors``; ``images``; ``hosts`` (hypervisors, services, zones); ``aggregates``; ``groups``;
  ``key_pairs``; ``limits``, ``quotas`` and ``projects``
- volumes: the package ``block_storage``
- ours beside nova's: ``own`` (``/fleet/v1``) with ``calls`` (those of the ``fleet`` command) and ``events``, and ``page``
  (``/ui/``, with its files in ``static/``)
"""
