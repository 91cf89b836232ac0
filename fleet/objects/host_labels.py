# SPDX-License-Identifier: Apache-2.0
"""Labels of hosts: ``rack=r7``. The hosts with one value of a label are a *failure domain*.

Called by :mod:`conductor_stub.operators.manager`, :mod:`fleet.db.hosts.labels` and the columns of the scheduler. A
host reports labels of its configuration (``host_labels``) under ``LABELS`` in its ``stats``. The administrator sets
labels in the ledger; these win. An empty value removes a reported label.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import pydantic

from fleet import errors
from fleet.objects import fields

#: Key of ``stats``: the labels of the host's configuration.
LABELS = "labels"
MOST = 32

_Key = fields.Matching(
    r"[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?",
    "ASCII letters, digits and ._/- between them, without blanks",
)
_VALUE = r"[^\x00-\x20\x7f-\xa0,=|]"
_WORD = "without blanks, control characters, commas, = and |"

Key = Annotated[str, pydantic.Strict(), pydantic.StringConstraints(max_length=63), _Key]
#: No comma and no "=", so that a label is one word in options and commands.
Value = Annotated[
    str,
    pydantic.Strict(),
    pydantic.StringConstraints(max_length=63),
    fields.Matching(f"{_VALUE}+", f"1 to 63 characters {_WORD}"),
]
Labels = Annotated[dict[Key, Value], pydantic.Field(max_length=MOST)]
#: None removes the administrator's value, an empty text hides what the host reports.
_Change = Annotated[
    str,
    pydantic.Strict(),
    pydantic.StringConstraints(max_length=63),
    fields.Matching(f"{_VALUE}*", f"at most 63 characters {_WORD}"),
]
Changes = Annotated[dict[Key, _Change | None], pydantic.Field(max_length=MOST)]


def require(labels: object, field: str) -> dict[str, str]:
    """:raises errors.InvalidInput: naming the label"""
    return fields.parse(Labels, labels, field)


def effective(reported: object, administered: Mapping[str, str] | None) -> dict[str, str]:
    """Return the labels that count, in the order of their keys.

    :param reported: ``stats[LABELS]`` of a row. What is not a label, of an agent that is not checked, is left out
    :param administered: column ``labels`` of a row
    """
    known = dict(reported) if isinstance(reported, Mapping) else {}
    known.update(administered if isinstance(administered, Mapping) else {})
    return {key: known[key] for key in sorted(known) if isinstance(known[key], str) and known[key]}


def changed(labels: Mapping[str, str] | None, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the administrator's labels after ``changes``. :raises errors.InvalidInput: there would be too many"""
    after = {key: value for key, value in {**(labels or {}), **changes}.items() if value is not None}
    if len(after) > MOST:
        raise errors.InvalidInput(field="labels", reason=f"would be {len(after)}, and a host can have {MOST}")
    return after
