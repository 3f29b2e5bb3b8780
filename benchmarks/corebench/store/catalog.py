"""Which datasets have a name of their own, as data: `datasets.yaml`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import Field, ValidationError

from agentctl.base.errors import InputError, refused
from agentctl.base.values import Frozen

PUBLISHED_CAPSULES = "https://corebench.cs.princeton.edu/capsules/{id}.tar.gz"
PUBLISHED_COLLECTION = "corebench"
_TAKEN = (PUBLISHED_COLLECTION, "examples")

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$"
Name = Annotated[str, Field(pattern=NAME)]

CapsuleAddress = Annotated[str, Field(pattern=r"^https?://[^/]+/.*\{id\}")]  # of an archive; {id} is the capsule's id


class Edition(Frozen):
    """A dataset by its name: which version it is, and where its file and its capsules come from."""

    name: Name
    version: str = ""
    split: str = ""
    file: str | None = None  # address of the dataset's file; None for one that a user brought
    sha256: str | None = None  # of the file
    passphrase: str | None = None  # the published one of an encrypted file
    capsules: CapsuleAddress = PUBLISHED_CAPSULES
    collection: Name = PUBLISHED_COLLECTION
    licence: str = ""
    source: str = ""
    note: str = ""

    @classmethod
    def brought(
        cls,
        name: str,
        *,
        version: str = "",
        capsules: str | None = None,
        passphrase: str | None = None,
        source: str = "",
    ) -> Edition:
        """A dataset that a user brings. Capsules with an address of their own are a collection of their own."""
        if name in _TAKEN:
            raise InputError(f"{name} is a name of agentctl's own", field="--name", remedy="choose another name")
        try:
            return cls(
                name=name,
                version=version,
                passphrase=passphrase,
                capsules=capsules or PUBLISHED_CAPSULES,
                collection=name if capsules else PUBLISHED_COLLECTION,
                source=source,
            )
        except ValidationError as error:
            told = refused(error)
            raise InputError(told.problem, field=f"--{told.field}") from None

    def address(self, capsule_id: str, *, mirror: str | None = None) -> str:
        """Where a capsule's archive is: at the published address, or below `mirror`."""
        template = self.capsules if mirror is None else f"{mirror.rstrip('/')}/{{id}}.tar.gz"
        return template.replace("{id}", capsule_id)


@cache
def published() -> dict[str, Edition]:
    """The datasets that anyone can fetch, by name."""
    import yaml

    text = files(__package__).joinpath("datasets.yaml").read_text(encoding="utf-8")
    return {name: Edition(name=name, **fields) for name, fields in yaml.safe_load(text).items()}
