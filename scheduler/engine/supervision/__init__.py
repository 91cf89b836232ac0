# SPDX-License-Identifier: Apache-2.0
"""Plugins that fail, take too long or answer nonsense: ``supervision`` calls them, some in a ``plugin_thread``, and
``failures`` describes what they raise."""
