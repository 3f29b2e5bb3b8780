"""How calls travel between model and loop: two pure functions a protocol, `decode` and `render`."""

from __future__ import annotations

from .native import NativeProtocol
from .plain import PlainProtocol
from .protocol import Decoded, Protocol
from .thoughts import ThoughtsProtocol

PROTOCOLS: dict[str, Protocol] = {
    "native": NativeProtocol(),
    "plain": PlainProtocol(),
    "thoughts": ThoughtsProtocol(),
}

__all__ = ["PROTOCOLS", "Decoded", "NativeProtocol", "PlainProtocol", "Protocol", "ThoughtsProtocol"]
