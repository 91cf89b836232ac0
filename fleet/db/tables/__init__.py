# SPDX-License-Identifier: Apache-2.0
"""The tables, as SQLAlchemy models."""
