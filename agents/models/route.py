"""A role's way to its model: which one, by which client, at which price, within which limits."""

from __future__ import annotations

from dataclasses import dataclass

from agentctl.agents.pricing import CacheMarkers, Price, Pricing, ServiceTier, Unknown
from agentctl.base.errors import SetupError

from .protocol import ModelClient, ModelSpec

THINKING_ROOM = 8_192  # tokens that a reasoning model may think besides the few that a helper is asked to say
DEFAULT_WINDOW = 128_000  # tokens, where neither the model's spec nor the price table tells
DEFAULT_BODY = 20_000_000  # bytes of a request: Bedrock's and Gemini's limit; Anthropic takes 32 MB, OpenAI 50 MB


@dataclass(frozen=True)
class Route:
    """One role's way to its model."""

    spec: ModelSpec
    client: ModelClient
    price: Pricing
    context_window: int = DEFAULT_WINDOW  # tokens
    reasoning: bool = False  # it may make output that its replies don't show
    service: ServiceTier = ServiceTier.STANDARD
    markers: CacheMarkers = CacheMarkers.NONE
    most_output: int | None = None  # tokens that the model can give at most, where that is known
    body_limit: int = DEFAULT_BODY  # bytes of a request
    timeout: float = 600.0  # seconds that one send may take

    def output_limit(self, asked: int | None = None) -> int:
        """Tokens that a reply may have; `asked`, for what it says, takes the place of the model's own limit.

        A window holds prompt and reply: half of a small one is left for the prompt.
        """
        half = max(1, self.context_window // 2)
        thought = self.spec.thinking_budget or (THINKING_ROOM if self.hidden_output else 0)
        return min(asked + thought if asked else self.spec.output_limit, self.most_output or half, half)

    @property
    def hidden_output(self) -> bool:
        """Whether a reply may have cost more tokens than it shows."""
        return self.reasoning or self.spec.effort is not None or self.spec.thinking_budget is not None


def check_priced(route: Route) -> None:
    """A cap needs a price: refuse a route without one."""
    if isinstance(route.price, Unknown):
        raise SetupError(f"{route.price.problem}, so a cap can't hold", field="model", remedy=route.price.remedy)
    if isinstance(route.price, Price) and route.service not in route.price.schedules:
        raise SetupError(
            f"no {route.service} price is known for {route.price.name}, so a cap can't hold",
            field="model",
            remedy="use the standard service",
        )
