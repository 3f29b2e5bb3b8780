"""The adapters of an attempt's models, by role."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from .models.human import Person
from .models.make import make_client
from .models.protocol import Kind, ModelClient
from .roles import named
from .spec import AttemptSpec


class Clients:
    """One adapter for each model that is different. Roles told by the same file or person share one: see `told`."""

    def __init__(self, main: ModelClient, others: Mapping[str, ModelClient]) -> None:
        self._main = main
        self._others = dict(others)

    @classmethod
    @contextmanager
    def opened(
        cls, spec: AttemptSpec, environment: Mapping[str, str], person: Person | None = None
    ) -> Iterator[Clients]:
        """Those of `spec`, closed at the end. Raises what `make_client` does, naming the role."""
        with ExitStack() as stack:
            made: dict[str, ModelClient] = {}
            by_role: dict[str, ModelClient] = {}
            for role, model in {"main": spec.model, **spec.other_models()}.items():
                key = model.name if model.told else model.model_dump_json()
                if key not in made:
                    with named(role):
                        made[key] = make_client(model, environment, person)
                    stack.callback(made[key].close)
                by_role[role] = made[key]
            yield cls(by_role["main"], by_role)

    def of(self, role: str) -> ModelClient:
        """The adapter for the model of `role`."""
        return self._others.get(role, self._main)

    @property
    def kind(self) -> Kind:
        """The kind of the main model: of whose making the attempt's steps are."""
        return self._main.kind
