"""The vision tool over a sandbox, for the tests of it: what it would send is kept instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from file_place import open_place
from no_deliverable import NoDeliverable
from PIL import Image

from agentctl.base.cancel import Cancel
from agentctl.base.messages import ImageRef, Part, Text
from agentctl.tools.sandbox.protocol import Sandbox
from agentctl.tools.tool import ToolContext, ToolResult
from agentctl.tools.vision import QueryImages


@dataclass
class Sight:
    """A workspace `folder`, and what the vision model was asked of it."""

    folder: Path
    sandbox: Sandbox
    cancel: Cancel = field(default_factory=Cancel)
    asked: list[tuple[str, tuple[Part, ...]]] = field(default_factory=list)  # the role, and the question
    kept: dict[str, bytes] = field(default_factory=dict)  # images by their digest

    def query(self, *paths: str, prompt: str = "What is it?") -> ToolResult:
        tool = QueryImages()
        arguments = {"prompt": prompt, "input_image_paths": list(paths)}
        return tool.run(tool.arguments.model_validate(arguments), self._context())

    def sent(self) -> list[ImageRef]:
        """The images of the last question."""
        return [part for part in self.asked[-1][1] if isinstance(part, ImageRef)]

    def picture(self, n: int = 0) -> Image.Image:
        """An image of the last question, as a provider would see it."""
        picture = Image.open(BytesIO(self.kept[self.sent()[n].digest]))
        picture.load()
        return picture

    def _context(self) -> ToolContext:
        def ask(role: str, parts: Sequence[Part], limit: int | None = None, *, closing: bool = False) -> str:
            self.asked.append((role, tuple(parts)))
            return "A picture."

        def keep(data: bytes, media_type: str, width: int, height: int) -> ImageRef:
            ref = ImageRef(digest=sha256(data).hexdigest(), media_type=media_type, width=width, height=height)
            self.kept[ref.digest] = data
            return ref

        return ToolContext(
            sandbox=self.sandbox,
            deliverable=NoDeliverable(),
            cancel=self.cancel,
            outputs=self.folder.parent / "outputs",
            ask=ask,
            keep_image=keep,
            emit=lambda kind, text: None,
            seconds_left=lambda: 600.0,
        )


@contextmanager
def open_sight(top: Path, kind: str = "local") -> Iterator[Sight]:
    place = open_place(top, "w", kind)
    try:
        yield Sight(place.folder, place.sandbox)
    finally:
        place.sandbox.close()


def said(question: tuple[Part, ...]) -> list[Any]:
    """A question's parts, for reading: its texts, and `image` for each image."""
    return [part.text if isinstance(part, Text) else part.kind for part in question]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
