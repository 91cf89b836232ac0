# SPDX-License-Identifier: Apache-2.0
"""The compute API besides servers: what they are made of, what they run on, and what limits them."""
