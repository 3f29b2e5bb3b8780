"""switch(): from a scaffold to another that differs from it in the named factors, and in nothing else."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentctl.base.errors import InputError
from agentctl.base.values import plain_decimal
from agentctl.prompts.hints import HINT_FILES, load_hint

from .coherence import check_coherent
from .factors import FINISH_TOOLS, VALUES, Factor, hint_factor, switches_of, tool_factor
from .plugins import names_code
from .scaffold import Scaffold, load_part
from .switches import Switch, hint_switch, switch_of

TEXTS = ("system", "role", "task")  # values that are texts: given by the name of a shipped one, or as a file


def switch(
    scaffold: Scaffold,
    *,
    with_: Iterable[str] = (),
    without: Iterable[str] = (),
    set_: Mapping[str, object] | None = None,
) -> Scaffold:
    """`scaffold` with factors switched on (`with_`) and off (`without`), and values set (`set_`).

    The order in which they are named does not matter: values are set first, then groups of hints are switched, then
    all else. A name in `with_` may be the path of a hint's file. What was switched is added to `changes`.

    InputError for a name that is no factor (with near ones), for what is so already or was switched before, since an
    arm that differs in nothing is a mistake, and for a combination that can't work.
    """
    values = dict(set_ or {})
    names_on, names_off = list(with_), list(without)
    factors = {factor.name: factor for factor in switches_of(scaffold)} if names_on or names_off else {}
    on, off = (_named(scaffold, factors, *each) for each in ((names_on, "--with"), (names_off, "--without")))
    if both := on.keys() & off.keys():
        raise InputError(f"{min(both)} is both with and without", field="--with", remedy="leave one of them out")
    changed = scaffold
    for name, value in sorted(values.items()):
        changed = _set(changed, name, value)
    for whole_groups in (True, False):
        for wanted, named in ((True, on), (False, off)):
            for each in named.values():
                if (each.factor.kind == "hints") is whole_groups:
                    changed = _switched(changed, each, wanted)
    told = (f"{name}={_told(changed, name, value)}" for name, value in values.items())
    changes = (*(f"+{name}" for name in on), *(f"-{name}" for name in off), *told)
    for change in changes:
        _refuse_second(scaffold, change)
    result = changed.model_copy(update={"changes": tuple(sorted({*scaffold.changes, *changes}, key=_by_name))})
    check_coherent(result)
    return result


def _told(scaffold: Scaffold, name: str, value: object) -> object:
    """A value as `changes` tells it: however it was written, 4.0 is 4. A text by the name that it was given by."""
    value = value if name in TEXTS else value_of(scaffold, VALUES[name])
    return plain_decimal(value) if isinstance(value, Decimal) else value


def value_of(scaffold: Scaffold, factor: Factor) -> Any:
    """What a value is in `scaffold`; of a text its name."""
    found: Any = scaffold
    for part in factor.name.split("."):
        found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
    return getattr(found, "name", found)


def _switched(scaffold: Scaffold, how: Switch, wanted: bool) -> Scaffold:
    if how.state(scaffold) is wanted:
        raise InputError(
            f"{scaffold.label} {'has' if wanted else 'does not have'} it",
            field=f"{'--with' if wanted else '--without'} {how.factor.name}",
            remedy="leave the switch out: an arm that differs in nothing is no arm",
        )
    return how.put(scaffold, wanted)


def _set(scaffold: Scaffold, name: str, value: object) -> Scaffold:
    """`scaffold` with one value set. Also one given as text is read as its type."""
    factor = VALUES.get(name)
    if factor is None:
        raise InputError("no such factor", field=f"--set {name}", remedy=_near(name, list(VALUES)))
    if name in TEXTS:
        value = None if (name, value) == ("task", "none") else load_part(name, str(value)).model_dump()
    field, *inner = name.split(".")
    tree = scaffold.model_dump()
    if inner:
        role, parameter = inner
        roles = tree["roles"]
        tree["roles"] = roles | {role: roles.get(role, {}) | {parameter: value}}
    else:
        tree[field] = value
    try:
        made = Scaffold.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"{first['msg'].replace('Input should', 'should')}, not {str(value)!r}", field=f"--set {name}"
        ) from None
    if made == scaffold:
        raise InputError(
            f"{scaffold.label} has that value",
            field=f"--set {name}",
            remedy="leave it out: an arm that differs in nothing is no arm",
        )
    return made


def _named(scaffold: Scaffold, factors: Mapping[str, Factor], names: Iterable[str], field: str) -> dict[str, Switch]:
    """How each of `names` is switched, by the factor's name."""
    found: dict[str, Switch] = {}
    for name in names:
        if Path(name).suffix in HINT_FILES:
            hint = load_hint(name)
            how = hint_switch(hint_factor(hint), [hint])
        elif names_code(name):
            how = switch_of(scaffold, tool_factor(name, scaffold))
        elif name in factors:
            how = switch_of(scaffold, factors[name])
        elif name in FINISH_TOOLS:
            raise InputError("an agent must be able to say that it is done", field=f"{field} {name}")
        elif name in VALUES:
            raise InputError("has a value", field=f"{field} {name}", remedy=f"set it: --set {name}=VALUE")
        else:
            raise InputError("no such factor", field=f"{field} {name}", remedy=_near(name, list(factors)))
        if how.factor.name in found:
            raise InputError(f"{how.factor.name} is named twice", field=field)
        found[how.factor.name] = how
    order = {name: rank for rank, name in enumerate(factors)}
    return dict(sorted(found.items(), key=lambda each: (order.get(each[0], len(order)), each[0])))


def _refuse_second(scaffold: Scaffold, change: str) -> None:
    if earlier := [each for each in scaffold.changes if _by_name(each) == _by_name(change)]:
        raise InputError(
            f"{_by_name(change)} was switched before ({earlier[0]})", remedy="switch the scaffold as it was loaded"
        )


def _by_name(change: str) -> str:
    """The name of the factor in a change."""
    return change.lstrip("+-").partition("=")[0]


def _near(name: str, known: Sequence[str]) -> str:
    near = [each for each in known if each.rpartition("/")[2] == name]
    near = near or difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else "agentctl scaffold factors lists them"
