"""From the names of checks to the checks."""

from __future__ import annotations

from collections.abc import Container, Iterable

from .check import Checks, FinishCheck
from .giving_up import GivingUp
from .keys import KeySet
from .report import ReportForm


def make_checks(names: Iterable[str], *, faults: Container[str] = ()) -> Checks:
    """The checks `report`, `keys` and `giving-up`, for one attempt, in the order of `names`.

    Of `faults`, `delete-report` and `report-in-capsule` are faults of the key check's original.
    """
    in_material = "report-in-capsule" in faults
    made: dict[str, FinishCheck] = {
        "report": ReportForm(),
        "keys": KeySet(delete="delete-report" in faults, in_material=in_material),
        "giving-up": GivingUp(),
    }
    return Checks([made[name] for name in names])
