"""What a user may choose of an attempt: one definition of names, types and defaults for flags, environment and file.

A setting is named `section.name`, as `limits.cost_usd`. Most sections are parts of an attempt's spec, so that what the
spec takes can be set. `config` reads the settings from where they are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, TypeAdapter
from pydantic.fields import FieldInfo

from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.price_overrides import parse_flag
from agentctl.agents.spec import Keep, Limits, Prices
from agentctl.base.errors import InputError
from agentctl.base.values import Frozen
from agentctl.tools.sandbox.protocol import NetworkPolicy, SandboxSpec

Key: TypeAlias = tuple[str, ...]  # ("limits", "cost_usd"); one more part for an entry of a table


class ModelSettings(ModelSpec):
    """The model. Without a name a shipped recording is played, where there is one."""

    name: str = ""


class HelperSettings(ModelSettings):
    """The model of a helper's role. Without a name it is the main model, with what is said here."""


def _is_price(line: str) -> str:
    try:
        parse_flag(f"model={line}")
    except InputError:
        raise ValueError("should be 'IN,OUT' in dollars a million tokens, or 'free'") from None
    return line


PriceLine: TypeAlias = Annotated[str, AfterValidator(_is_price)]


class SandboxSettings(SandboxSpec):
    """The sandbox. A recording is played with the network that it was recorded with."""

    network: NetworkPolicy = "registries"


class PriceSettings(Frozen):
    """Prices of models that the bundled table does not know, or that are other than there."""

    lines: dict[str, PriceLine] = Field(default_factory=dict)  # by the model's name
    file: Path | None = None

    def prices(self) -> Prices:
        """The same as an attempt's spec has it."""
        return Prices(lines=tuple(f"{name}={line}" for name, line in self.lines.items()), file=self.file)


class DataSettings(Frozen):
    """Where tasks are. Without both the shipped examples are meant."""

    dataset: str | None = None  # name of one, or a file with the capsules' entries
    capsules: Path | None = None  # folder that holds the capsules' folders


class RecordSettings(Frozen):
    """What attempts leave, and where."""

    folder: Path = Path("runs")  # in it a record gets a name of its own, where none is given
    keep: Keep = "changes"


FactorValue: TypeAlias = StrictStr | StrictInt | StrictFloat


class Settings(Frozen):
    """All of them."""

    scaffold: str = "core-agent"  # a shipped one, or the path of a .yaml file
    with_: tuple[str, ...] = Field(default=(), alias="with")  # factors that are switched on in it
    without: tuple[str, ...] = ()  # ... off
    factors: dict[str, FactorValue] = Field(default_factory=dict)  # values that are set in it
    model: ModelSettings = Field(default_factory=ModelSettings)
    fast: HelperSettings = Field(default_factory=HelperSettings)  # writes summaries
    vision: HelperSettings = Field(default_factory=HelperSettings)  # sees images
    limits: Limits = Field(default_factory=Limits)
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    prices: PriceSettings = Field(default_factory=PriceSettings)
    data: DataSettings = Field(default_factory=DataSettings)
    records: RecordSettings = Field(default_factory=RecordSettings)

    def value(self, key: Key) -> Any:
        """The value of one setting, or of one entry of a table."""
        found: Any = self
        for part in key:
            found = found[part] if isinstance(found, dict) else getattr(found, f"{part}_" if iskeyword(part) else part)
        return found


@cache
def fields() -> dict[Key, FieldInfo]:
    """All settings, in order, with their types and defaults."""
    return dict(_fields(Settings, ()))


def _fields(model: type[BaseModel], above: Key) -> Iterator[tuple[Key, FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _fields(field.annotation, (*above, name))
        else:
            yield (*above, field.alias or name), field


def adapter(key: Key) -> TypeAdapter[Any]:
    """What makes a value of a setting, or of an entry of a table, out of what is given for it."""
    return _adapter(setting_of(key) or key, key not in fields())


@cache
def _adapter(setting: Key, entry: bool) -> TypeAdapter[Any]:
    field = fields()[setting]
    wanted: Any = get_args(field.annotation)[1] if entry else Annotated[field.annotation, Field(), *field.metadata]
    return TypeAdapter(wanted, config=ConfigDict(allow_inf_nan=False))


def setting_of(key: Key) -> Key | None:
    """The setting that `key` names or is an entry of; None where there is none."""
    return next((known for known in (key, key[:-1]) if known in fields() and (known == key or is_table(known))), None)


def is_table(key: Key) -> bool:
    """Whether the setting holds values by name."""
    return _origin(key) is dict


def is_list(key: Key) -> bool:
    return _origin(key) is tuple


def holds_texts(key: Key) -> bool:
    """Whether each entry of a table is a text."""
    return get_args(fields()[key].annotation)[-1] in (str, PriceLine)


def _origin(key: Key) -> object:
    annotation = fields()[key].annotation if key in fields() else None  # an entry of a table is neither
    return getattr(annotation, "__origin__", annotation)


def dotted(key: Key) -> str:
    return ".".join(key)
