# SPDX-License-Identifier: Apache-2.0
"""Commands of ``fleet-manage``: ledger, audit, retention, privileges, and checks before an upgrade or a switch from nova."""
