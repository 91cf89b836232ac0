# SPDX-License-Identifier: Apache-2.0
"""What operators see and change, behind the ``fleet`` command.

Read ``api`` (lists and views), ``catalog`` (flavors, aggregates and groups are changed and removed), ``announcements``
(schedulers are notified of a changed aggregate), ``dry_run`` (the scheduler request of a build that is not made),
``diagnosis`` (what ``fleet doctor`` reads), ``catalog_manager`` (the RPC surface of ``catalog``).
"""
