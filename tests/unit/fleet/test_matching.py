# SPDX-License-Identifier: Apache-2.0
"""A refused text that does not match a pattern: the refusal says what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from fleet.objects import attachment, fields, host_labels

DEVICES = "must be /dev/vdb to /dev/vdy"
WORD = "without blanks, control characters, commas, = and |"
KEYS = "must be ASCII letters, digits and ._/- between them, without blanks"
CASES: list[tuple[str, Any, object, str]] = [
    ("a disk of another bus", attachment.Device, "sda", f"field {DEVICES}, got 'sda'"),
    ("the guest's own disk", attachment.Device, "/dev/vda", f"field {DEVICES}, got '/dev/vda'"),
    ("an end of a line", attachment.Device, "vdb\n", f"field {DEVICES}, got 'vdb\\n'"),
    ("a long text", attachment.Device, "x" * 100, f"field {DEVICES}, got '{'x' * 70}…'"),
    ("a key with a blank", host_labels.Labels, {"a b": "c"}, f"field has a key that {KEYS}, got 'a b'"),
    (
        "a value with a blank",
        host_labels.Labels,
        {"rack": "r 7"},
        f"field.rack must be 1 to 63 characters {WORD}, got 'r 7'",
    ),
    ("no value", host_labels.Labels, {"rack": ""}, f"field.rack must be 1 to 63 characters {WORD}, got ''"),
    (
        "a changed value with a comma",
        host_labels.Changes,
        {"rack": "r7,r8"},
        f"field.rack must be at most 63 characters {WORD}, got 'r7,r8'",
    ),
    (
        "a changed value that is too long",
        host_labels.Changes,
        {"rack": "r" * 64},
        "field.rack must have at most 63 characters",
    ),
]


@pytest.mark.parametrize(("what", "kind", "value", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_refusal_says_what_is_allowed(what: str, kind: Any, value: object, expected: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        fields.parse(kind, value, "field")
    assert expected == refused.value.message


def test_a_change_of_labels_hides_and_removes() -> None:
    """An empty text hides what the host reports, and None removes the administrator's value."""
    changes = {"rack": "", "room": None, "row": "7"}
    assert changes == fields.parse(host_labels.Changes, changes, "labels")
