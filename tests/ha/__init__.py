# SPDX-License-Identifier: Apache-2.0
"""Real clusters that lose a node: ``make ha``. ``test_broker`` and ``test_databases`` are a part of ``make long``, too."""
