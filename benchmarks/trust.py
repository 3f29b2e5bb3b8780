"""A record may be anybody's: what of it could do harm runs only when its reader names it too.

What is named must be what the record says: an attempt is never changed by the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agentctl.agents.models.keys import THIS_MACHINE
from agentctl.agents.plugins import Code, code_named, names_code
from agentctl.agents.spec import AttemptSpec
from agentctl.base.errors import InputError

_LEAVE = "leave it out: what an attempt began with is not changed"


@dataclass(frozen=True)
class Trust:
    """What the reader of a record names of it."""

    kind: str | None = None  # "local": its commands may run outside of any sandbox
    rootfs: Path | None = None  # the given system that they ran in
    code: tuple[Path, ...] = ()  # files with tools of its scaffold, wherever they are by now

    def checked(self, record: Path, spec: AttemptSpec) -> AttemptSpec:
        """`spec` with the places that are named. InputError where something is not named, or is not the record's."""
        refuse_kind(record, spec, self.kind)
        return with_code(record, with_rootfs(record, spec, self.rootfs), self.code)


def refuse_kind(record: Path, spec: AttemptSpec, kind: str | None) -> None:
    """Only its reader can say that its commands may run outside of a sandbox.

    `kind` is the kind of sandbox that the reader names, if any; like all that is named, it must be the record's.
    """
    named = spec.sandbox.kind
    if named == "local" and kind != "local":
        raise InputError(
            "its commands ran without a sandbox",
            file=record,
            field="--sandbox",
            remedy="if you trust it: --sandbox local",
        )
    if kind not in (None, named):
        raise InputError(f"its commands ran in the sandbox {named}", file=record, field="--sandbox", remedy=_LEAVE)


def refuse_addresses(record: Path, spec: AttemptSpec, named: Mapping[str, str | None]) -> None:
    """Only its reader can say that a key may go to the addresses that it names. `named` are the reader's, by role."""
    _refuse_address(record, spec.model.api_base, named.get("main"), "--api-base")
    for role, model in spec.helpers.items():
        _refuse_address(record, model.api_base, named.get(role), f"--set {role}.api_base")


def _refuse_address(record: Path, address: str | None, named: str | None, field: str) -> None:
    if named == address or (address and named is None and urlsplit(address).hostname in THIS_MACHINE):
        return
    if address is None:
        raise InputError("its model is at its provider's own address", file=record, field=field, remedy=_LEAVE)
    raise InputError(
        f"its model is at {address}",
        file=record,
        field=field,
        remedy=f"if that is right, name it: {field}, the same address",
    )


def with_rootfs(record: Path, spec: AttemptSpec, rootfs: Path | None) -> AttemptSpec:
    """`spec` with the system that its reader names, where it has one of its own.

    Only its reader can say which of their folders its commands may see.
    """
    named = spec.sandbox.rootfs
    if named is not None and rootfs is None:
        raise InputError(
            f"its commands ran in the system at {named}",
            file=record,
            field="--rootfs",
            remedy="if that is right, name it, or where it is here: --rootfs DIR",
        )
    if named is None and rootfs is not None:
        raise InputError("its commands ran in the machine's own system", file=record, field="--rootfs", remedy=_LEAVE)
    return spec.model_copy(update={"sandbox": spec.sandbox.model_copy(update={"rootfs": rootfs})})


def with_code(record: Path, spec: AttemptSpec, named: tuple[Path, ...]) -> AttemptSpec:
    """`spec` with the files that its reader names for the tools of its scaffold.

    Only its reader can say that code which is not of agentctl or of an installed package may run with their rights.
    """
    given = [code_named(path) for path in named]
    wanted = {name: code for name, code in spec.scaffold.code.items() if names_code(name) or code.is_file}
    trusted: dict[str, Code] = dict(spec.scaffold.code)
    for name, code in wanted.items():
        found = next((each for each in given if each.digest == code.digest), None)
        if found is None and given:
            raise InputError(f"{named[0]} is not the file that its tool {name} was", file=record, field="--trust-code")
        if found is None:
            raise InputError(
                f"its tool {name} is code, {code.source}",
                file=record,
                field="--trust-code",
                remedy=f"if you trust it: --trust-code {code.source}",
            )
        trusted[name] = found
    if given and not wanted:
        raise InputError(
            "all its tools are agentctl's or a package's", file=record, field="--trust-code", remedy=_LEAVE
        )
    return spec.model_copy(update={"scaffold": spec.scaffold.model_copy(update={"code": trusted})})


def refuse_model_code(record: Path, spec: AttemptSpec) -> None:
    """A model by path is code too, and a record says nothing of what was in it."""
    for model in (spec.model, *spec.helpers.values()):
        if model.name.startswith("python:"):
            raise InputError(f"its model is code, {model.name}", file=record, remedy="start anew: agentctl solve")
