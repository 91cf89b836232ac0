# SPDX-License-Identifier: Apache-2.0
"""The domain of volumes: cinder's test vectors, and every filter and weigher against a slow reference."""
