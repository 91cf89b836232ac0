# SPDX-License-Identifier: Apache-2.0
"""The tables in a database: ``schema`` checks them, ``migration`` changes them, ``identity`` is the uuid of the ledger.

``sync_lock`` and ``resumption`` are for migrations: one at a time, and on after an interruption.
"""
