# SPDX-License-Identifier: Apache-2.0
"""The methods by which compute agents read and write the ledger.

Read ``api`` (registration, inventory, the instances of a host, claims), ``guests`` (a guest stopped or runs again),
``manager`` (the RPC surface).
"""
