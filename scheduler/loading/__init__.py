# SPDX-License-Identifier: Apache-2.0
"""Classes by their dotted names (``named_classes``), a check of their methods, and older paths of packages (``face``).

The file of ``scheduler_json_config_location``, too. The drivers of hosts and of pools load by them.
"""
