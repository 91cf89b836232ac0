# SPDX-License-Identifier: Apache-2.0
"""The cache: what the feed and casts tell of the hosts, and the bookings."""
