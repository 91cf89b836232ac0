# SPDX-License-Identifier: Apache-2.0
"""Work on volumes: ``volume`` does what a volume's status asks for; ``recovery`` compares a backend with the ledger."""
