"""From a scaffold to its history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from agentctl.tools.tool import spec_of

from ..asking import Asker
from ..context import ContextItem
from ..events import Event
from ..models.wire import encode_tool
from ..protocols import Protocol as CallProtocol
from ..protocols.protocol import Tools
from ..scaffold import RoleParameters, Scaffold
from ..spec import Limits
from ..transcript import Transcript
from .autogpt import SUMMARY_TOKENS, AutogptHistory
from .condense import CondensedHistory
from .full import FullHistory
from .protocol import History


def make_history(
    scaffold: Scaffold,
    protocol: CallProtocol,
    transcript: Transcript,
    context: Sequence[ContextItem],
    asker: Asker,
    emit: Callable[[Event], None],
    tools: Tools,
    limits: Limits,
    kept: Callable[[], Decimal | None] = lambda: None,
) -> History:
    """The history that `scaffold` names, of an attempt that begins. It asks through `asker`; `emit` records events.

    `kept` tells the dollars that a summary must leave.
    """
    if scaffold.history == "autogpt":
        summary = scaffold.roles.get("fast", RoleParameters()).output_limit or SUMMARY_TOKENS
        return AutogptHistory(protocol, transcript, context, asker, emit, summary_tokens=summary)
    if scaffold.history == "condense":
        offered = [encode_tool(spec) for spec in protocol.wire_tools([spec_of(tool) for tool in tools.values()])]
        return CondensedHistory(protocol, transcript, context, asker, emit, offered, limits.steps, kept)
    return FullHistory(protocol, transcript, context)
