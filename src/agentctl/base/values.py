"""The base of all typed values, and dollars."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema


class Frozen(BaseModel):
    """A value: immutable, equal by content, and strict about unknown fields."""

    # Built when first used: of all the values there are, a command uses few.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def plain_decimal(value: Decimal) -> str:
    """`value` without exponent or trailing zeros: Decimal('1E-7') gives '0.0000001', Decimal('4.00') gives '4'."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


Usd: TypeAlias = Annotated[
    Decimal,
    PlainSerializer(plain_decimal, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string"}, mode="serialization"),
]
"""US dollars, exact. Written to JSON as a plain decimal string."""
