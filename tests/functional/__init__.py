# SPDX-License-Identifier: Apache-2.0
"""Parts of the service against a real database, in one process: the same suite on SQLite, PostgreSQL and MariaDB."""
