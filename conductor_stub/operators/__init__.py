# SPDX-License-Identifier: Apache-2.0
"""What operators see and change, behind the ``fleet`` command.

Read ``manager`` (the RPC surface), ``api`` (lists, views, services), ``catalog`` (flavors, aggregates and groups are
changed and removed), ``announcements`` (schedulers are notified of a changed aggregate), ``dry_run`` (the scheduler
request of a build that is not made), ``diagnosis`` (what ``fleet doctor`` reads).
"""
