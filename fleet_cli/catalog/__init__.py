# SPDX-License-Identifier: Apache-2.0
"""Commands about flavors, images, groups, key pairs and quotas. Registered in :mod:`fleet_cli.command_list`."""
