"""The query_vision_language_model tool: a question about images in the workspace."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentctl.base.messages import ImageRef, Text

from ..files.paths import FAILURES, failure, shown, size_text, stat_file
from ..sandbox.protocol import Sandbox
from ..tool import Arguments, ToolContext, ToolResult
from .images import MOST_BYTES, Picture, read_picture
from .kinds import NotUsable

MOST_IMAGES = 20  # of one question
_MOST_READ = 40_000_000  # bytes of one file
_MOST_SENT = 14_000_000  # bytes of all images of a question: less than 20 MB in base64, as some providers allow


class QueryArguments(Arguments):
    prompt: str = Field(min_length=1, description="The question.")
    input_image_paths: list[Annotated[str, Field(min_length=1)]] = Field(
        min_length=1,
        max_length=MOST_IMAGES,
        description="The image files that it is about; relative paths are taken from the workspace, "
        "or from the task's folder in it.",
    )


class QueryImages:
    """Puts a question about images to the attempt's vision model. Either all of the images are sent, or none."""

    name = "query_vision_language_model"
    description = (
        "Ask a vision language model about one or several images: figures, plots, screenshots. It sees the images and"
        " the prompt and nothing else. PNG, JPEG, GIF, WebP, TIFF and BMP files are taken, in the workspace and not in"
        " /tmp; make images of PDF pages first, with pdftoppm. An SVG file is text, which tells its labels."
    )
    arguments = QueryArguments

    def run(self, arguments: QueryArguments, context: ToolContext) -> ToolResult:
        pictures: list[Picture] = []
        problems: list[str] = []
        most = min(MOST_BYTES, _MOST_SENT // len(arguments.input_image_paths))
        for path in arguments.input_image_paths:
            context.cancel.check()
            try:
                pictures.append(read_picture(_read(context.sandbox, path), path, most_bytes=most))
            except NotUsable as error:
                problems.append(str(error))
            except FAILURES as error:
                words = failure(context.sandbox, path, error).text()  # of a link, it may name the target alone
                problems.append(words if shown(path) in words else f"{shown(path)}: {words}")
        if problems:
            return ToolResult.error("\n".join(["Nothing was asked.", *problems]))
        refs: list[ImageRef] = [
            context.keep_image(picture.data, picture.media_type, picture.width, picture.height) for picture in pictures
        ]
        answer = context.ask("vision", (Text(text=arguments.prompt), *refs))
        notes = [
            f"[{shown(path)} was shown {', '.join(picture.notes)}]"
            for path, picture in zip(arguments.input_image_paths, pictures, strict=True)
            if picture.notes
        ]
        return ToolResult.of("\n".join([answer, *notes]))

    def close(self) -> None:
        pass


def _place(sandbox: Sandbox, path: str) -> str:
    """`path`, or the same in the folder of the task's material: some scaffolds' commands work there."""
    material = sandbox.workspace.material
    if material is None or path.startswith("/"):
        return path
    try:
        stat_file(sandbox, path)
    except FileNotFoundError:
        return f"{material}/{path}"
    except FAILURES:
        pass
    return path


def _read(sandbox: Sandbox, path: str) -> bytes:
    """The bytes of a regular file inside. NotUsable where there are too many."""
    path = _place(sandbox, path)
    info = stat_file(sandbox, path)
    if info.size > _MOST_READ:
        raise NotUsable(f"{shown(path)} is too large: {size_text(info.size)}, where {size_text(_MOST_READ)} are taken")
    return sandbox.read(path, limit=_MOST_READ)
