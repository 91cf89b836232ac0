# SPDX-License-Identifier: Apache-2.0
"""Decisions as they were made, by request id, for ``fleet explain --request``.

``record`` makes what is kept of one decision; ``store`` is the file, which is written by a thread of its own.
"""
