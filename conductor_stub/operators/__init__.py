# SPDX-License-Identifier: Apache-2.0
"""The methods behind the ``fleet`` command.

Read ``manager`` (the RPC surface of instances), ``hosts`` (that of hosts and services), ``catalog`` (that of flavors,
images and aggregates), ``groups`` (server groups), ``quotas`` (how much projects may have), ``key_pairs`` (public keys
of users), ``tenancy`` (what a caller that acts for a project may ask for), ``redaction`` (what it does not learn from
the answers), ``details`` (name, description, metadata and tags of instances), ``console`` (what guests have printed),
``announcements`` (schedulers are notified of a changed aggregate), ``dry_run`` (the scheduler request of a build that
is not made), ``use`` (how much was in use over time), ``events`` (what happens, for readers that follow it), ``trace``
(what ``fleet trace`` reads), ``diagnosis`` (what ``fleet doctor`` reads), ``views`` (rows as operators see them).
"""
