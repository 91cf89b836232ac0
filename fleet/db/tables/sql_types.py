# SPDX-License-Identifier: Apache-2.0
"""Short names for statements, columns and rows whose types SQLAlchemy cannot name.

The queries of :mod:`fleet.db` are annotated with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

#: Values of columns by the names of the columns
Values = Mapping[str, Any]
Columns = dict[str, Any]
Column = sa.Column[Any]
Element = sa.ColumnElement[Any]
Select = sa.Select[Any]
#: A row of a query that no class describes
AnyRow = sa.Row[*tuple[object, ...]]
