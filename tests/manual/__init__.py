# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of the manual: ``python -m tests.manual`` compares, ``python -m tests.manual --write`` rewrites.

A block of language ``console`` holds commands (``$ fleet host list``) and what they print. ``page`` reads and rewrites the
blocks, ``session`` runs the commands on a trio started like ``make up``, ``normal`` takes out what differs between two runs.
``tests/functional/test_manual.py`` fails if a page shows anything else than the product prints.
"""
