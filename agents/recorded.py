"""Replies out of a record, as a model would give them again."""

from __future__ import annotations

from agentctl.base.messages import Call, Message, Opaque, Text

from .events import MessageAdded, Replied
from .models.protocol import FinishReason, RawCall, RawReply
from .reading import RecordReader


def raw_reply(message: Message) -> RawReply:
    """The reply that `message` was decoded from. Its calls carry our ids; what they were is the same to the letter."""
    calls = tuple(
        RawCall(id=part.id, name=part.name, arguments=part.written())
        for part in message.parts
        if isinstance(part, Call) and not part.in_text
    )
    return RawReply(
        parts=tuple(part for part in message.parts if isinstance(part, Text | Opaque)),
        calls=calls,
        finish=FinishReason(message.finish or FinishReason.STOP),
    )


def recorded_replies(reader: RecordReader) -> list[tuple[str, RawReply]]:
    """All replies of a record with the role of the model that gave them, in order."""
    replies: list[tuple[str, RawReply]] = []
    for event in reader.events:
        if isinstance(event, MessageAdded) and event.message.role == "assistant":
            replies.append(("main", raw_reply(event.message)))
        elif isinstance(event, Replied) and event.helper is not None:
            replies.append((event.came.role, event.helper))
    return replies
