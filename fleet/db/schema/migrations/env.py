# SPDX-License-Identifier: Apache-2.0
"""Run by alembic: ``fleet.db.schema.migration`` hands the open connection over in ``config.attributes``."""

from alembic import context

from fleet.db.tables import models

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=models.METADATA,
    # SQLite cannot alter a table in place.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
