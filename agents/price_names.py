"""Names of a price table that are like one it does not have: mostly somebody misspelt a model's name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

_ALIKE = 0.75  # of difflib's measure: gpt4o is like gpt-4o, a model of one's own is like none
_TALKING = ("chat", "responses", "completion")  # modes of models that an agent can have


def names_like(name: str, entries: Mapping[str, Any]) -> list[str]:
    """Up to two names of `entries`, a table in litellm's form, that are like `name`, each as one asks for it.

    Of the provider that `name` begins with where that has any, else of those who made the model; the most alike first.
    """
    route, _, rest = name.rpartition("/")
    makers, sellers = _by_last_part(entries, bare=True), _by_last_part(entries, bare=False)
    same = {short: full for names in (sellers, makers) for short, full in names.items() if full.startswith(f"{route}/")}
    for names in (same, makers):
        if close := difflib.get_close_matches(rest.lower(), names, n=2, cutoff=_ALIKE):
            return [names[short] for short in close]
    return []


def _by_last_part(entries: Mapping[str, Any], *, bare: bool) -> dict[str, str]:
    """Names with their provider in front, by what stands behind it in small letters.

    `bare`: of those that the table has without provider, which are the makers' own; else of the others.
    """
    found = {}
    for key, entry in entries.items():
        if ("/" in key) is bare or not isinstance(entry, dict) or entry.get("mode", "chat") not in _TALKING:
            continue
        provider = str(entry.get("litellm_provider", "")).partition("-")[0].removesuffix("_converse")
        if provider:  # else it stands for another entry
            full = f"{provider}/{key}" if bare else key
            found[full.partition("/")[2].lower()] = full
    return found
