# SPDX-License-Identifier: Apache-2.0
"""Real clusters that lose a node: ``make ha``. ``test_databases.py`` is a part of ``make test``, too."""
