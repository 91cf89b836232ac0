# SPDX-License-Identifier: Apache-2.0
"""Facts about a column that the table keeps without reading it."""

from __future__ import annotations

import random

import numpy
import pytest

from scheduler.engine.hosts.table import HostTable


def table(*counts: float) -> HostTable:
    """A row per count; ``failed`` is watched, ``used`` is not."""
    made = HostTable({"failed": int, "used": int}, often_uniform=("failed",))
    for number, count in enumerate(counts):
        made.write(made.add((f"host{number}", "node")), {"failed": count, "used": 1})
    return made


def increase(of: HostTable) -> None:
    of.increase(0, {"failed": 1})


CHANGES = {
    "nothing else happens": (lambda of: None, 3),
    "another column is written": (lambda of: of.write(0, {"used": 9}), 3),
    "the same is written": (lambda of: of.write(1, {"failed": 3}), 3),
    "another number is written": (lambda of: of.write(1, {"failed": 4}), None),
    "a pick takes of it": (increase, None),
    "a host goes": (lambda of: of.remove(("host0", "node")), 3),
    "a host with another number comes": (lambda of: of.write(of.add(("new", "node")), {"failed": 0}), None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_number_that_all_hosts_share_is_known_until_one_has_another(name):
    """A column with two numbers is never uniform."""
    change, expected = CHANGES[name]
    of = table(3, 3)
    change(of)
    assert expected == of.uniform("failed")


def test_only_columns_that_are_often_uniform_are_watched():
    """Of others nothing is known."""
    assert table(3, 3).uniform("used") is None


def test_a_full_comparison_looks_again():
    """One host that failed once does not cost every later decision."""
    of = table(3, 3)
    of.write(0, {"failed": 4})
    of.write(0, {"failed": 3})
    of.compact()
    assert 3 == of.uniform("failed")


def test_columns_show_rows_that_came_later():
    """A view that was handed out before a row was added is not handed out again."""
    of = table(1)
    assert [1] == of.column("failed").tolist()
    for number in range(200):
        of.write(of.add((f"later{number}", "node")), {"failed": number})
    assert [1, *range(200)] == of.column("failed").tolist()


def test_which_rows_have_changed_since_a_version(monkeypatch):
    """Each once and in order, whether the table still remembers them or must look at all."""
    monkeypatch.setattr("scheduler.engine.hosts.table._REMEMBERED", 3)
    of, chance = table(*range(5)), random.Random(1)
    changes = [(of.version, set(range(5)))]
    for _number in range(40):
        rows = chance.sample(range(5), chance.choice([1, 1, 1, 2]))
        if len(rows) == 1:
            of.write(rows[0], {"used": 2})
        else:
            of.touch(numpy.array(rows))
        changes.append((of.version, set(rows)))
        for number, (version, _rows) in enumerate(changes):
            later = set().union(*(changed for _version, changed in changes[number + 1 :]))
            assert sorted(later) == of.changed_rows(version).tolist()
