"""Figures as SVG in which every word is text, so that a person, a search or a program can read them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

__version__ = "1.0"

WIDTH, HEIGHT = 640, 400  # pixels
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 50, 70  # margins of the plotting area, pixels


def bars(path: Path, labels: Sequence[str], values: Sequence[float], *, title: str, x_label: str, y_label: str) -> None:
    """Write a bar chart to `path`: one bar a label, its value above it. Values are zero or more."""
    top = _round_up(max(values))
    body = []
    for place, label, value in zip(_places(len(labels)), labels, values, strict=True):
        y, base = _height(value, 0, top), _height(0, 0, top)
        body.append(f'<rect x="{place - 30:.1f}" y="{y:.1f}" width="60" height="{base - y:.1f}" fill="#4477aa"/>')
        body.append(_text(f"{value:g}", place, y - 6))
        body.append(_text(label, place, HEIGHT - BOTTOM + 20))
    _write(path, body, 0, top, title, x_label, y_label)


def intervals(
    path: Path,
    labels: Sequence[str],
    points: Sequence[tuple[float, float, float]],
    *,
    title: str,
    x_label: str,
    y_label: str,
) -> None:
    """Write a chart of estimates with their intervals to `path`: `points` holds (low, estimate, high), one a label."""
    top = _round_up(max(high for _, _, high in points))
    lowest = min(low for low, _, _ in points)
    bottom = -_round_up(-lowest) if lowest < 0 else 0.0
    body = []
    for place, label, (low, middle, high) in zip(_places(len(labels)), labels, points, strict=True):
        y_low, y, y_high = (_height(value, bottom, top) for value in (low, middle, high))
        body.append(f'<path d="M{place:.1f} {y_low:.1f}V{y_high:.1f}" stroke="#222222"/>')
        body.append(f'<circle cx="{place:.1f}" cy="{y:.1f}" r="5" fill="#aa3377"/>')
        body.append(_text(label, place, HEIGHT - BOTTOM + 20))
    _write(path, body, bottom, top, title, x_label, y_label)


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ... that is not below `value`; 1 for what is not positive."""
    step = 1.0
    while step < value:
        for factor in (2, 2.5, 2):
            step *= factor
            if step >= value:
                break
    return step


def _places(count: int) -> list[float]:
    width = (WIDTH - LEFT - RIGHT) / count
    return [LEFT + width * (n + 0.5) for n in range(count)]


def _height(value: float, bottom: float, top: float) -> float:
    return HEIGHT - BOTTOM - (value - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM)


def _text(text: str, x: float, y: float, anchor: str = "middle", turn: bool = False) -> str:
    turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>{escape(text)}</text>'


def _write(path: Path, body: list[str], bottom: float, top: float, title: str, x_label: str, y_label: str) -> None:
    ticks = [bottom + (top - bottom) * n / 5 for n in range(6)]
    axes = [
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#222222"/>',
        *(_text(f"{tick:g}", LEFT - 8, _height(tick, bottom, top) + 4, "end") for tick in ticks),
        _text(title, WIDTH / 2, 26),
        _text(x_label, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18),
        _text(y_label, 24, (TOP + HEIGHT - BOTTOM) / 2, turn=True),
    ]
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">'
    lines = [head, f'<rect {size} fill="#ffffff"/>', *axes, *body, "</svg>", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
