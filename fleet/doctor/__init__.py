# SPDX-License-Identifier: Apache-2.0
"""The checks of ``fleet doctor``: findings with advice, which the page shows as well.

A *finding* is the result of one check (``fleet.checks.findings``). ``examination`` asks broker and daemons; it begins with
``daemons``. ``cluster_examination`` has the checks on clusters of brokers and databases, ``storage_examination`` those on
volumes, ``filter_examination`` and ``maintenance_examination`` those on filters and on maintenances.
"""
