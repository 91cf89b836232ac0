# SPDX-License-Identifier: Apache-2.0
"""What compute agents read from the ledger and write to it.

Read ``api`` (registration, inventory, the instances of a host, claims), ``guests`` (a guest stopped or runs again),
``manager`` (the RPC surface).
"""
