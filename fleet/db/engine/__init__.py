# SPDX-License-Identifier: Apache-2.0
"""Transactions and statements.

``database`` runs functions in a ``transaction``, or reads with a ``reader``; ``failures`` says what to repeat.
``statements``, ``claimed`` and ``now`` (the database's time) are shared by queries. ``prepared_query`` is the
fast way to read. ``unreadable`` is what happens to a row whose JSON cannot be read.
"""
