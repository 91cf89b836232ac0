# SPDX-License-Identifier: Apache-2.0
"""Classes by their dotted names, the file of ``scheduler_json_config_location``, and older paths of packages
(``face``).

The drivers of hosts and of pools load by them.
"""
