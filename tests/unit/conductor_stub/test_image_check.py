# SPDX-License-Identifier: Apache-2.0
"""A flavor must be large enough for the image."""

from __future__ import annotations

import pytest

from conductor_stub.steps.flavor_check import check_image
from fleet import errors
from fleet.objects import Flavor, Image

GIB = 1024**3

REFUSED = [
    ("not active", Image(status="queued"), "request.image.status", "must be 'active'"),
    ("more memory", Image(min_ram=513), "request.flavor.memory_mb", "the image needs 513 MB"),
    ("more disk", Image(min_disk=3), "request.flavor.root_gb", "the image needs 3 GB"),
    (
        "a byte too large",
        Image(size=2 * GIB + 1),
        "request.flavor.root_gb",
        "is 2, but the image has 2.0 GB (2147483649",
    ),
]


@pytest.mark.parametrize(("name", "image", "field", "reason"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_flavor_too_small_is_refused(name: str, image: Image, field: str, reason: str) -> None:
    """The error names the field of the request and what the image needs."""
    with pytest.raises(errors.InvalidInput) as refused:
        check_image(image, Flavor(vcpus=1, memory_mb=512, root_gb=2))
    assert field == refused.value.field
    assert reason in refused.value.reason


@pytest.mark.parametrize(("root_gb", "size"), [(2, 2 * GIB), (0, 100 * GIB), (2, 0)])
def test_a_flavor_that_is_large_enough(root_gb: int, size: int) -> None:
    """As large as the root disk is not too large; a root disk of 0 takes the image's size; 0 is not known."""
    check_image(Image(size=size), Flavor(vcpus=1, memory_mb=512, root_gb=root_gb))
