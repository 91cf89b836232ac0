# SPDX-License-Identifier: Apache-2.0
"""The work of operators: audits, diagnosis, removal, retention, history of use, privileges; the clock of the database."""
