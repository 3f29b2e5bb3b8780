"""How an agent says that it is done, and what is looked at before it is let go."""

from __future__ import annotations

from .check import Checks, FinishCheck, Refused
from .giving_up import GivingUp
from .keys import KeySet
from .make import make_checks
from .report import ReportForm
from .tool import Finish

__all__ = ["Checks", "Finish", "FinishCheck", "GivingUp", "KeySet", "Refused", "ReportForm", "make_checks"]
