"""Replies out of a record, as a model would give them again."""

from __future__ import annotations

from agentctl.base.messages import Call, Message, Opaque, Role, Text

from .events import Ended, MessageAdded, Replied
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
    silent: RawReply | None = None  # the last reply, as long as no message tells its words
    for event in reader.events:
        match event:
            case MessageAdded(message=Message(role=Role.ASSISTANT)):
                replies.append(("main", raw_reply(event.message)))
                silent = None
            case Replied(helper=RawReply() as reply):
                replies.append((event.came.role, reply))
            case Replied():
                silent = RawReply(parts=(), finish=event.came.finish)
            case MessageAdded() | Ended():
                if silent is not None:  # what came after it stands there, so it was empty
                    replies.append(("main", silent))
                silent = None
            case _:
                pass
    return replies
