"""JSON Schema in TypeScript's words: shorter to tell a model than the schema itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

_SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}

Schema = Mapping[str, Any]


def parameters(schema: Schema) -> str:
    """The properties of an object's schema as a list of parameters: `(path: string, limit?: number)`."""
    return f"({', '.join(_members(schema, schema.get('$defs', {}), ()))})"


def _members(schema: Schema, defs: Schema, inside: tuple[str, ...]) -> list[str]:
    """A parameter that may be left out needs no null: leaving it out says the same."""
    required = schema.get("required", ())
    members = []
    for name, field in schema.get("properties", {}).items():
        types = _union(field, defs, inside)
        if name not in required and len(types) > 1:
            types = [each for each in types if each != "null"]
        members.append(f"{name}{'' if name in required else '?'}: {' | '.join(types)}")
    return members


def _union(schema: Any, defs: Schema, inside: tuple[str, ...]) -> list[str]:
    """The types that a value of `schema` may have. `inside` are the definitions that this one is part of."""
    if not isinstance(schema, Mapping):
        return ["any"]
    if reference := schema.get("$ref"):
        name = str(reference).rpartition("/")[2]
        return ["any"] if name in inside else _union(defs.get(name), defs, (*inside, name))
    if "const" in schema:
        return [_literal(schema["const"])]
    if "enum" in schema:
        return [_literal(value) for value in schema["enum"]]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _distinct(each for one in schema[key] for each in _union(one, defs, inside))
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return _distinct(each for kind in kinds for each in _union({**schema, "type": kind}, defs, inside))
    if kinds == "array":
        return [_array(schema, defs, inside)]
    if kinds == "object":
        return [_object(schema, defs, inside)]
    return [_SIMPLE.get(str(kinds), "any")]


def _array(schema: Schema, defs: Schema, inside: tuple[str, ...]) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(' | '.join(_union(each, defs, inside)) for each in schema['prefixItems'])}]"
    items = _union(schema.get("items"), defs, inside)
    return f"{items[0]}[]" if len(items) == 1 else f"({' | '.join(items)})[]"


def _object(schema: Schema, defs: Schema, inside: tuple[str, ...]) -> str:
    if schema.get("properties"):
        return f"{{ {'; '.join(_members(schema, defs, inside))} }}"
    values = schema.get("additionalProperties")
    return f"Record<string, {' | '.join(_union(values, defs, inside))}>"


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _distinct(types: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(types))
