"""The money side of an attempt: its prices, its purse, and the gateway over both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from agentctl.base.cancel import Cancel
from agentctl.base.paths import resolve

from .clients import Clients
from .manifest import PriceRecord, Spend, read_manifest
from .models.cache import markers_of
from .models.capabilities import check_can, check_sees
from .models.gateway import Gateway
from .models.journal import EarlierBooks, Journal
from .models.make import LOCAL_ROUTES
from .models.near import is_near
from .models.protocol import ModelClient, ModelSpec
from .models.route import DEFAULT_BODY, DEFAULT_WINDOW, Route, check_priced
from .price_overrides import price_table
from .price_table import PriceTable
from .pricing import Free, Price, Pricing, ServiceTier, Unknown
from .purse import Purse
from .roles import named
from .scaffold import HelperRole
from .spec import AttemptSpec

REPLAY = "replay:"  # how the name of a recording's model begins


class Account:
    """What one attempt may spend, and on which models.

    SetupError where a model's price is not known, InputError where one can't be what it is asked to be.
    """

    def __init__(self, spec: AttemptSpec, clients: Clients, carried: EarlierBooks, cancel: Cancel) -> None:
        files = [spec.prices.file] if spec.prices.file else []
        table = price_table(flags=spec.prices.lines, files=files)
        self._routes: dict[str, Route] = {}
        for role in ("main", *get_args(HelperRole)):
            with named(role if role in spec.helpers else "main"):
                self._routes[role] = _route(spec, role, clients.of(role), table)
                check_priced(self._routes[role])
        self._purse = Purse(spec.limits.cost_usd, carried_spent=carried.spent, carried_uncertain=carried.uncertain)
        self._first_send = carried.sends + 1
        self._cancel = cancel
        self.cap = spec.limits.cost_usd
        self.prices = _price_record(table, {role: route.price for role, route in self._routes.items()})

    def gateway(self, journal: Journal) -> Gateway:
        """The gateway that spends from this account and writes to `journal`."""
        return Gateway(self._routes, self._purse, journal, self._cancel, first_send=self._first_send)

    def spend(self) -> Spend:
        """The books as they stand."""
        return Spend(cap=self.cap, books=self._purse.books())


def _route(spec: AttemptSpec, role: str, client: ModelClient, table: PriceTable) -> Route:
    model = spec.model_of(role)
    facts = table.facts(_asked(model.name, role))
    if client.kind == "live":
        check_can(model, facts, native=role == "main" and spec.scaffold.protocol == "native")
        if role == "vision" and "vision" in spec.scaffold.tools:
            check_sees(model, facts, section="vision" if role in spec.helpers else "model")
    return Route(
        spec=model,
        client=client,
        price=_price(model, role, client, table),
        context_window=model.context_window or facts.max_input_tokens or DEFAULT_WINDOW,
        reasoning=bool(facts.reasoning),
        service=ServiceTier(model.service),
        markers=markers_of(model),
        most_output=facts.max_output_tokens,
        body_limit=model.body_limit or DEFAULT_BODY,
    )


def _asked(name: str, role: str) -> str:
    """The model that replies are from: of a recording, the one that was asked then. Its window is what decided then."""
    while name.startswith(REPLAY):
        name = read_manifest(resolve(name.removeprefix(REPLAY))).spec.model_of(role).name
    return name


def _price(model: ModelSpec, role: str, client: ModelClient, table: PriceTable) -> Pricing:
    """What the model costs. A recording costs what it cost then: nothing is paid, but its books can be read again."""
    name = model.name
    if client.kind == "live":
        found = table.lookup(name)
        own = model.api_base is not None and is_near(model.api_base)
        if isinstance(found, Unknown) and (own or name.startswith(LOCAL_ROUTES)):
            return found.model_copy(update={"remedy": f"for a server of your own add --price '{name}=free'"})
        return found
    if client.kind == "replay":
        recording = resolve(name.removeprefix(REPLAY))
        schedules = read_manifest(recording).prices.of(role)
        if schedules:
            return Price.model_validate({"name": name, "source": str(recording), "schedules": schedules})
    return Free(name=name)


def _price_record(table: PriceTable, prices: Mapping[str, Pricing]) -> PriceRecord:
    schedules = {
        role: price.model_dump(mode="json")["schedules"] if isinstance(price, Price) else {}
        for role, price in prices.items()
    }
    main = schedules.pop("main")
    others = {role: each for role, each in schedules.items() if each != main}
    return PriceRecord(origin=table.origin, schedules=main, helpers=others)
