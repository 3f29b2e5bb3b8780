"""Prices that a user gives, by flag or file: they count before any table.

A flag is `MODEL=IN,OUT[,CACHE_READ[,CACHE_WRITE]]` in dollars per million tokens, or `MODEL=free`. A JSON or YAML file
maps names to `free`, to `{input, output, cache_read, cache_write, cache_write_1h}` in dollars per million tokens, or to
an entry with litellm's keys in dollars per token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentctl.base.errors import InputError

from .price_table import Entries, Entry, PriceTable, decimal, price_of
from .pricing import Free, Price

_MILLION = Decimal(1_000_000)
_FLAG_FORM = "write --price 'MODEL=IN,OUT[,CACHE_READ[,CACHE_WRITE]]' in dollars per million tokens, or 'MODEL=free'"
_KEYS = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
}
_FILE_FORM = "give 'free', or input and output in dollars per million tokens, or litellm's own keys"


def price_table(*, flags: Iterable[str] = (), files: Iterable[Path] = (), entries: Entries | None = None) -> PriceTable:
    """The table that a run uses: flags before files, a later file before an earlier one, all before the bundled table.

    InputError names the flag or the file and field that can't be used.
    """
    prices: dict[str, Price | Free] = {}
    extra: dict[str, Entry] = {}
    for path in files:
        for name, value in _read(path).items():
            prices.pop(name, None)
            extra.pop(name, None)
            if value == "free":
                prices[name] = Free(name=name, source=str(path))
            else:
                extra[name] = _entry(name, value, path)
    for flag in flags:
        given = parse_flag(flag)
        prices[given.name] = given
    return PriceTable(entries or Entries.bundled(), prices, extra)


def parse_flag(text: str) -> Price | Free:
    """The price in one `--price`. InputError says what is wrong with it."""
    name, equals, rest = text.rpartition("=")
    name = name.strip()
    if not equals or not name:
        raise InputError(f"{text!r} is no price", field="--price", remedy=_FLAG_FORM)
    if rest.strip().lower() == "free":
        return Free(name=name, source="--price")
    numbers = [decimal(part.strip()) for part in rest.split(",")]
    if not 2 <= len(numbers) <= 4 or None in numbers:
        raise InputError(f"{rest!r} is no price of {name}", field="--price", remedy=_FLAG_FORM)
    keys = list(_KEYS.values())
    entry = {key: number / _MILLION for key, number in zip(keys, numbers, strict=False) if number is not None}
    price = price_of(name, entry, "--price")
    if price is None:
        raise InputError(f"{rest!r} is no price of {name}", field="--price", remedy=_FLAG_FORM)
    return price


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError("no such price file", file=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't read the price file: {error}", file=path) from None
    data = _parse_json(text, path) if path.suffix == ".json" else _parse_yaml(text, path)
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise InputError("a price file maps names of models to prices", file=path, remedy=_FILE_FORM)
    return data


def _parse_json(text: str, path: Path) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"not JSON: {error.msg} at {where}", file=path) from None


def _parse_yaml(text: str, path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"not YAML: {getattr(error, 'problem', None) or error}{where}", file=path) from None


def _entry(name: str, value: object, path: Path) -> Entry:
    """A file's value for `name` as an entry in litellm's form, checked: it must state a price."""
    if not isinstance(value, Mapping):
        raise InputError(f"{value!r} is no price", file=path, field=name, remedy=_FILE_FORM)
    entry: dict[str, Any] = {"source": str(path)}
    for key, given in value.items():
        money = key in _KEYS or "cost" in str(key)
        if money and decimal(given) is None:
            raise InputError(f"{given!r} is no amount of dollars", file=path, field=f"{name}.{key}", remedy=_FILE_FORM)
        if key in _KEYS:
            entry[_KEYS[key]] = Decimal(str(given)) / _MILLION
        elif "_" not in str(key):
            remedy = f"known are {', '.join(_KEYS)}, or litellm's own keys"
            raise InputError("unknown field", file=path, field=f"{name}.{key}", remedy=remedy)
        else:
            entry[str(key)] = given
    if price_of(name, entry, "") is None:
        raise InputError("input and output have no price", file=path, field=name, remedy=_FILE_FORM)
    return entry
