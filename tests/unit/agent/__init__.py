# SPDX-License-Identifier: Apache-2.0
"""Tests of fleet.agent, which agents of hosts and of storage backends share."""
