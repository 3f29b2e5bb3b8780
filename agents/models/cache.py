"""Cache markers: which providers want to be told how far a prompt should be kept, and up to where it should be.

The markers are no part of the request that the record proves: they follow from the model and the list of messages, and
the adapter adds them in the provider's own form. So a message's bytes are the same with and without one.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.agents.pricing import CacheMarkers

from .protocol import EncodedMessage, ModelSpec

_ROUTES = ("anthropic", "bedrock", "vertex_ai", "azure_ai", "claude")  # litellm's, where Claude models are served


def wants_markers(model: ModelSpec) -> bool:
    """Whether the way to `model` takes markers: a Claude model, through litellm."""
    return not model.direct and "claude" in model.name and model.name.startswith(_ROUTES)


def markers_of(model: ModelSpec) -> CacheMarkers:
    """The markers that requests to `model` hold."""
    if model.cache == "off" or not wants_markers(model):
        return CacheMarkers.NONE
    return CacheMarkers.ONE_HOUR if model.cache == "1h" else CacheMarkers.FIVE_MINUTES


def marked(messages: Sequence[EncodedMessage]) -> tuple[int, ...]:
    """The places of the messages up to which a prompt should be kept, at most four as providers allow, in order.

    Tools and system message; the task; the last message of the request before, which is there already; the last one.
    Without a reply in it a prompt is the first, or is built anew each time: then nothing behind the task comes again.
    """
    roles = [message.tree["role"] for message in messages[:2]]
    last = len(messages) - 1
    answered = next((n for n in range(last, 0, -1) if messages[n].tree["role"] == "assistant"), 0)
    places = {n for n, role in enumerate(roles) if role in ("system", "user")}
    return tuple(sorted(places | {answered - 1, last} if answered else places))
