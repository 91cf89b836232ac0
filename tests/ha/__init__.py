# SPDX-License-Identifier: Apache-2.0
"""Real clusters that lose a node: ``make ha``. It is no part of ``make test``."""
