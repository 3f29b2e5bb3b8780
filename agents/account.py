"""The money side of an attempt: its prices, its purse, and the gateway over both."""

from __future__ import annotations

from agentctl.base.cancel import Cancel
from agentctl.base.paths import resolve

from .manifest import PriceRecord, Spend, read_manifest
from .models.cache import markers_of
from .models.capabilities import check_can
from .models.gateway import DEFAULT_WINDOW, Gateway, Route, check_priced
from .models.journal import EarlierBooks, Journal
from .models.make import LOCAL_ROUTES, is_near
from .models.protocol import ModelClient
from .price_overrides import price_table
from .price_table import PriceTable
from .pricing import Free, Price, Pricing, ServiceTier, Unknown
from .purse import Purse
from .spec import AttemptSpec


class Account:
    """What one attempt may spend, and on which model.

    SetupError where the model's price is not known, InputError where it can't be what it is asked to be.
    """

    def __init__(self, spec: AttemptSpec, client: ModelClient, carried: EarlierBooks, cancel: Cancel) -> None:
        files = [spec.prices.file] if spec.prices.file else []
        table = price_table(flags=spec.prices.lines, files=files)
        price = _price(spec, client, table)
        facts = table.facts(spec.model.name)
        if client.kind == "live":
            check_can(spec.model, facts, native=spec.scaffold.protocol == "native")
        self._route = Route(
            spec=spec.model,
            client=client,
            price=price,
            context_window=spec.model.context_window or facts.max_input_tokens or DEFAULT_WINDOW,
            reasoning=bool(facts.reasoning),
            service=ServiceTier(spec.model.service),
            markers=markers_of(spec.model),
            most_output=facts.max_output_tokens,
        )
        check_priced(self._route)
        self._purse = Purse(spec.limits.cost_usd, carried_spent=carried.spent, carried_uncertain=carried.uncertain)
        self._first_send = carried.sends + 1
        self._cancel = cancel
        self.cap = spec.limits.cost_usd
        self.prices = _price_record(table, price)

    def gateway(self, journal: Journal) -> Gateway:
        """The gateway that spends from this account and writes to `journal`."""
        return Gateway({"main": self._route}, self._purse, journal, self._cancel, first_send=self._first_send)

    def spend(self) -> Spend:
        """The books as they stand."""
        return Spend(cap=self.cap, books=self._purse.books())


def _price(spec: AttemptSpec, client: ModelClient, table: PriceTable) -> Pricing:
    """What the model costs. A recording costs what it cost then: nothing is paid, but its books can be read again."""
    name = spec.model.name
    if client.kind == "live":
        found = table.lookup(name)
        own = spec.model.api_base is not None and is_near(spec.model.api_base)
        if isinstance(found, Unknown) and (own or name.startswith(LOCAL_ROUTES)):
            return found.model_copy(update={"remedy": f"for a server of your own add --price '{name}=free'"})
        return found
    if client.kind == "replay":
        recording = resolve(name.removeprefix("replay:"))
        schedules = read_manifest(recording).prices.schedules
        if schedules:
            return Price.model_validate({"name": name, "source": str(recording), "schedules": schedules})
    return Free(name=name)


def _price_record(table: PriceTable, price: Pricing) -> PriceRecord:
    schedules = price.model_dump(mode="json")["schedules"] if isinstance(price, Price) else {}
    return PriceRecord(origin=table.origin, schedules=schedules)
