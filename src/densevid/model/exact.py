"""Numbers that shall not depend on what else is computed with them."""

from __future__ import annotations

from torch import Tensor


def exact(values: Tensor) -> Tensor:
    """In double precision, so that sums do not depend on what came before or beside; mps has none."""
    return values if values.device.type == "mps" else values.double()
