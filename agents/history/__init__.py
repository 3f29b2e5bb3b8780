"""Renderers of one state: which messages a request holds."""

from __future__ import annotations

from .full import FullHistory
from .protocol import History, NoRoom

__all__ = ["FullHistory", "History", "NoRoom"]
