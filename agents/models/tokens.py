"""About how many tokens a text, an image or a message has: for what must fit a window.

Money is never counted so: what a prompt can cost at most is `bound`'s to say. Text is counted by OpenAI's cl100k
vocabulary, which litellm ships, so no network is needed; other tokenizers make up to a third more or
less of the same text, so whoever can compares with what was billed. It is loaded at the first count (0.3 s).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache
from hashlib import sha1
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentctl.base.jsonio import dumps
from agentctl.base.messages import ImageRef
from agentctl.base.text import clean

if TYPE_CHECKING:
    from tiktoken import Encoding

    from .protocol import EncodedMessage, EncodedTool

MESSAGE = 8  # tokens of role marks and separators around one message
LEAST_IMAGE = 85  # tokens that OpenAI charges for the smallest image
MOST_IMAGE = 4_784  # tokens that the models with the sharpest eyes charge for the largest (Claude, long side 2,576)
_PATCH = 28  # pixels: one token is about one square of so many, after width x height / 750

_URL = b"https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"  # its SHA-1 names the file
# How byte-pair tokenizers part text before they look pieces up: words, up to three digits, signs, white space.
_PIECES = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+"
_AT_ONCE = 8_192  # characters; the time for one long run of the same letter grows faster than its length


def count_tokens(text: str) -> int:
    """Tokens of `text`. What a model's own alphabet marks specially (`<|endoftext|>`) counts as the text it is."""
    encoding = _encoding()
    whole = clean(text)
    pieces = (whole[start : start + _AT_ONCE] for start in range(0, len(whole), _AT_ONCE))
    return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)


def image_tokens(image: ImageRef) -> int:
    """Tokens of an image by its size on the screen, never by the length of its file: `LEAST_IMAGE`..`MOST_IMAGE`."""
    patches = -(-image.width // _PATCH) * -(-image.height // _PATCH)
    return max(LEAST_IMAGE, min(patches, MOST_IMAGE))


def message_tokens(message: EncodedMessage) -> int:
    """Tokens of a message, its images included."""
    return MESSAGE + message.image_tokens + sum(count_tokens(text) for text in _texts(message.tree))


def tool_tokens(tool: EncodedTool) -> int:
    """Tokens of a tool's declaration."""
    return MESSAGE + count_tokens(dumps(tool.tree).decode("utf-8"))


def _texts(tree: Any) -> Iterator[str]:
    """All that a model reads as text in a message: an image's data is none."""
    match tree:
        case str():
            yield tree
        case {"type": "image_url"}:
            pass
        case dict():
            for value in tree.values():
                yield from _texts(value)
        case list():
            for value in tree:
                yield from _texts(value)


@cache
def _encoding() -> Encoding:
    from tiktoken import Encoding

    litellm = find_spec("litellm")  # only found, not loaded
    assert litellm is not None and litellm.origin is not None, "litellm is one of our dependencies"
    path = Path(litellm.origin).with_name("litellm_core_utils") / "tokenizers" / sha1(_URL).hexdigest()
    lines = (line.split() for line in path.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return Encoding("cl100k", pat_str=_PIECES, mergeable_ranks=ranks, special_tokens={})
