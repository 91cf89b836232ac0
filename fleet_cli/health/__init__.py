# SPDX-License-Identifier: Apache-2.0
"""``doctor`` with its examinations and the ``finding_list`` that it prints; ``top`` with its ``metric_pages``.

Registered in :mod:`fleet_cli.command_list`.
"""
