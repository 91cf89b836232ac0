# SPDX-License-Identifier: Apache-2.0
"""Changes after a generation: ``feed`` with its ``feed_queries``; ``recent_events`` for readers."""
