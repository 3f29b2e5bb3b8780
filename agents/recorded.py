"""Replies out of a record, as a model would give them again."""

from __future__ import annotations

from pydantic import JsonValue

from agentctl.base.messages import Call, Message, Opaque, Role, Text

from .events import Ended, Failed, GivenAgain, MessageAdded, Replied
from .models.protocol import DECLINED, FinishReason, RawCall, RawReply
from .reading import RecordReader
from .usage import Usage


def raw_reply(message: Message, usage: Usage | None) -> RawReply:
    """The reply that `message` was decoded from, with the `usage` it was billed by, where that is known.

    Its calls carry our ids; what they were is the same to the letter.
    """
    calls = tuple(
        RawCall(id=part.id, name=part.name, arguments=part.written())
        for part in message.parts
        if isinstance(part, Call) and not part.in_text
    )
    return RawReply(
        parts=tuple(part for part in message.parts if isinstance(part, Text | Opaque)),
        calls=calls,
        finish=FinishReason(message.finish or FinishReason.STOP),
        usage=as_given(usage),
    )


def as_given(usage: Usage | None) -> dict[str, JsonValue] | None:
    """`usage` as an OpenAI-like provider would report it; None where it was not reported but estimated."""
    if usage is None or usage.estimated:
        return None
    lifetimes: dict[str, JsonValue] = {
        "ephemeral_5m_input_tokens": usage.cache_write_5m_tokens,
        "ephemeral_1h_input_tokens": usage.cache_write_1h_tokens,
    }
    prompt: dict[str, JsonValue] = {
        "cached_tokens": usage.cache_read_tokens,
        "cache_creation_tokens": usage.written_tokens,
        "cache_creation_token_details": lifetimes,
        "image_tokens": usage.image_input_tokens,
    }
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": prompt,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def recorded_replies(reader: RecordReader) -> list[tuple[str, RawReply]]:
    """All replies of a record with the role of the model that gave them, in order."""
    replies: list[tuple[str, RawReply]] = []
    billed: Usage | None = None  # of the main model's reply whose words follow
    silent: RawReply | None = None  # the last reply, as long as no message tells its words
    for event in reader.events:
        match event:
            case MessageAdded(message=Message(role=Role.ASSISTANT)):
                replies.append(("main", raw_reply(event.message, billed)))
                silent = billed = None
            case Replied(helper=RawReply() as reply):
                replies.append((event.came.role, reply))
            case GivenAgain():
                replies.append((event.role, event.reply))
            case Failed(failed=failed) if failed.role != "main" and failed.fault in DECLINED:
                none = as_given(Usage())
                declined = RawReply(parts=(), finish=FinishReason.REFUSED, refusal=failed.words, usage=none)
                replies.append((failed.role, declined))
            case Replied():
                billed = event.came.usage
                silent = RawReply(parts=(), finish=event.came.finish, usage=as_given(billed))
            case MessageAdded() | Ended():
                if silent is not None:  # what came after it stands there, so it was empty
                    replies.append(("main", silent))
                silent = billed = None
            case _:
                pass
    return replies
