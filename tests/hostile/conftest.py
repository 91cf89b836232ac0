# SPDX-License-Identifier: Apache-2.0
"""``world`` is one fleet for a whole file; what a request changes in it is undone by its test.

Each answer is held against the document of the API.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api_document import ApiDocument
from tests.hostile import objects, world
from tests.hostile.objects import Objects
from tests.hostile.world import HostileWorld


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HostileWorld, Objects, Objects]]:
    with ApiDocument().held() as wrong, world.opened(tmp_path_factory.mktemp("hostile")) as made:
        yield made, *objects.build(made)
    assert [] == sorted(set(wrong))


@pytest.fixture
def world_(opened: tuple[HostileWorld, Objects, Objects]) -> HostileWorld:
    return opened[0]


@pytest.fixture
def theirs(opened: tuple[HostileWorld, Objects, Objects]) -> Objects:
    """What the others attack."""
    return opened[2]
