"""CORE-Bench: computational reproducibility of published papers."""

from .scoring import CoreScore, score_report

__all__ = ["CoreScore", "score_report"]
