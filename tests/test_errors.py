"""Errors that reach a person."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError, field_validator

from agentctl.base.errors import refused
from agentctl.base.values import Frozen


class _Inner(Frozen):
    numbers: tuple[int, ...] = ()

    @field_validator("numbers")
    @classmethod
    def small(cls, numbers: tuple[int, ...]) -> tuple[int, ...]:
        if any(number > 9 for number in numbers):
            raise ValueError("should be\nsmall")
        return numbers


class _Outer(Frozen):
    inner: _Inner


@pytest.mark.parametrize(
    ("numbers", "field", "told"),
    [
        (["sk-secret"], "", "f.json: inner.numbers.0: Input should be a valid integer"),
        ([10], "entry", "f.json: entry.inner.numbers: should be small (mend it)"),
    ],
)
def test_what_does_not_fit_is_one_line_without_what_was_given(numbers: list[object], field: str, told: str) -> None:
    with pytest.raises(ValidationError) as wrong:
        _Outer.model_validate({"inner": {"numbers": numbers}})
    line = str(refused(wrong.value, file=Path("f.json"), field=field, remedy="mend it"))
    assert line.startswith(told)
    assert "secret" not in line
    assert "\n" not in line
