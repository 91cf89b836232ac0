# SPDX-License-Identifier: Apache-2.0
"""Bodies and queries that clients send about servers, and the requests of the conductor that they become."""
