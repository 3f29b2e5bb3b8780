"""An image file as a model can be sent it: told by its content, decoded whole, upright, on white, of bounded size.

Nothing of the file itself is sent: each picture is encoded anew, so what is sent is always a sound PNG or JPEG.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ..files.formats import HEAD, recognise
from ..files.paths import shown
from .kinds import NotUsable, what_it_is

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

LONGEST_SIDE = 2_000
"""Pixels. OpenAI fits an image into 2,048 by 2,048 before it counts tiles, Anthropic takes no more than 2,000 where a
request has many, and most models see less than that: a larger one would cost bytes and time and show no more."""
MOST_BYTES = 3_750_000
"""Of one image as sent: 5 MB in base64, the smallest limit of the large providers."""
MOST_DECODED = 160_000_000
"""Bytes that a picture may take while it is decoded, as its header tells: 40 million pixels in colour."""

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF")
"""What is decoded. Of Pillow's other readers some start programs (EPS); the rest is rare, and less looked after."""
_BYTES_A_PIXEL = {"1": 1, "L": 1, "P": 1}  # while it is decoded; 4 in all other modes
_BYTES_OF_FORMAT = {"WEBP": 16, "AVIF": 16, "JPEG2000": 24}  # whose libraries keep further copies
_WIDE = ("I", "F")  # how the names of modes begin whose values are more than a byte
_BAND = 4_000_000  # pixels that are converted at a time: a large picture is not in memory twice
_ORIENTATION = 0x0112  # in EXIF
_SCAN = b"\xff\xda"  # how a scan of a JPEG begins
_TURNED = (5, 6, 7, 8)  # orientations that make height of width
_QUALITIES = (92, 80, 60, 40)  # of JPEG


@dataclass(frozen=True)
class Picture:
    """What is sent of a file. `notes` say what a reader of the answer should know of it."""

    data: bytes
    media_type: str  # image/png or image/jpeg
    width: int  # pixels
    height: int  # pixels
    notes: tuple[str, ...] = ()


def read_picture(data: bytes, path: str, *, most_bytes: int = MOST_BYTES) -> Picture:
    """The picture in the file `path`, which holds `data`, in at most `most_bytes`. NotUsable says why there is none."""
    source = _opened(data, path)
    whole = source.size
    try:
        frames = int(getattr(source, "n_frames", 1))
        factor = max(1, max(whole) // LONGEST_SIDE)
        in_scans = _in_scans(source, data)
        if not in_scans:
            source.draft(None, (max(1, whole[0] // factor), max(1, whole[1] // factor)))  # a JPEG is decoded smaller
        _check_size(source, whole, path, kept=2 * len(source.getbands()) if in_scans else 0)
        source.load()
        notes = [f"the first of its {frames} frames"] if frames > 1 else []
        orientation = _orientation(source)
        flat = _fitted(_flat(source, notes))
    except NotUsable:
        raise
    except Exception as error:  # Pillow's readers raise whatever their code comes to on what a file claims
        raise _broken(path, source.format, error) from None
    if orientation in _TURNED:
        whole = whole[1], whole[0]
    return _encoded(_upright(flat, orientation), source.format in ("JPEG", "MPO"), most_bytes, whole, notes)


def _opened(data: bytes, path: str) -> ImageFile:
    """The file with its header read, and nothing decoded.

    Each reader is called by itself: Pillow's `open` refuses a large picture without telling its size, and by a limit
    that is one for the whole process.
    """
    from PIL import Image

    Image.init()
    broken: NotUsable | None = None
    for name in _FORMATS:
        reader, accepts = Image.OPEN.get(name, (None, None))
        if reader is None or accepts is None or accepts(data[:16]) is not True:
            continue
        try:
            return reader(BytesIO(data), "")
        except Exception as error:  # of any class, see above
            broken = _broken(path, name, error)
    if broken is not None and recognise(data[:HEAD], path) is not None:  # a text may begin as BMP and PPM do
        raise broken
    raise NotUsable(what_it_is(data, path))


def _in_scans(source: ImageFile, data: bytes) -> bool:
    """Whether a JPEG comes in several scans: then all of it is kept in full size, however small it is decoded."""
    scans = data.count(_SCAN) - source.info.get("exif", b"").count(_SCAN)  # a thumbnail in there is a JPEG too
    return source.format in ("JPEG", "MPO") and scans > 1


def _broken(path: str, kind: str | None, error: Exception) -> NotUsable:
    words = " ".join(str(error).split())[:120] or type(error).__name__
    return NotUsable(f"{shown(path)} is a broken {kind} image, perhaps cut off: {words}")


def _check_size(source: ImageFile, whole: tuple[int, int], path: str, *, kept: int) -> None:
    """Refuse what would fill the memory. `source` has the size to be decoded to, `whole` is that of the picture.

    `kept` are bytes a pixel that its reader holds besides.
    """
    each = _BYTES_OF_FORMAT.get(source.format or "", _BYTES_A_PIXEL.get(source.mode, 4)) + kept
    width, height = source.size
    if width * height * each > MOST_DECODED:
        most = MOST_DECODED // each / 1e6
        raise NotUsable(
            f"{shown(path)} is too large: {whole[0]}x{whole[1]} pixels, where {most:.0f} million can be taken. Make a "
            "smaller copy, or cut out what you want to see, and ask about that"
        )


def _orientation(source: ImageFile) -> int:
    """The way it is to be turned, from its EXIF data; 1 where that says nothing, or is no EXIF."""
    try:
        return int(source.getexif().get(_ORIENTATION, 1))
    except Exception:  # broken EXIF data of a sound picture
        return 1


def _upright(image: Image, orientation: int) -> Image:
    from PIL import ImageOps

    image.getexif()[_ORIENTATION] = orientation
    return ImageOps.exif_transpose(image)


def _flat(source: Image, notes: list[str]) -> Image:
    """`source` in grey or colours of 8 bits, on white, shrunk by a whole number as far as it stays large enough."""
    from PIL import Image

    factor = max(1, max(source.size) // LONGEST_SIDE)
    span = _span(source, notes) if source.mode.startswith(_WIDE) else None
    flat: Image.Image | None = None
    for top, band in _bands(source, factor):
        part = _grey(band, *span) if span else _on_white(band)
        part = part.reduce(factor) if factor > 1 else part
        if flat is None:
            flat = Image.new(part.mode, (part.width, -(-source.height // factor)))
        flat.paste(part, (0, top // factor))
    if flat is None:
        raise ValueError("it has no pixels")
    return flat


def _bands(image: Image, multiple: int) -> Iterator[tuple[int, Image]]:
    """The rows of `image` in pieces, each with its first row, a multiple of `multiple`."""
    rows = max(1, _BAND // image.width // multiple) * multiple
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _on_white(image: Image) -> Image:
    from PIL import Image

    if image.has_transparency_data:
        colours = image.convert("RGBA")
        flat = Image.new("RGB", image.size, "white")
        flat.paste(colours, mask=colours.getchannel("A"))
        return flat
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _span(image: Image, notes: list[str]) -> tuple[float, float]:
    """The values that are shown as black and white.

    Black is 0 and white the greatest value of 8, 9, ... 16 bits that holds all of them, since a camera's 12 bits are
    kept in 16; of fractions, 0 and 1. Where values are less or more than that, the least and the greatest.
    """
    import numpy as np

    low, high = float("inf"), float("-inf")
    for _, band in _bands(image, 1):
        values = np.asarray(band)
        values = values[np.isfinite(values)]
        if values.size:
            low, high = min(low, float(values.min())), max(high, float(values.max()))
    if low >= 0 and high <= 65_535:
        fraction = image.mode == "F" and high <= 1
        low, high = 0.0, 1.0 if fraction else float(2 ** max(8, int(high).bit_length()) - 1)
    elif low >= high:
        low, high = low - 1, low
    if high != 65_535:
        notes.append(f"its values from {low:g} to {high:g} as black to white")
    return low, high


def _grey(image: Image, low: float, high: float) -> Image:
    import numpy as np
    from PIL import Image

    values = np.asarray(image).astype("float64")
    scaled = np.nan_to_num((values - low) * (255 / (high - low)), nan=0.0, posinf=255.0, neginf=0.0)
    return Image.fromarray(scaled.round().clip(0, 255).astype("uint8"))


def _fitted(image: Image, longest: int = LONGEST_SIDE) -> Image:
    """`image` with no side longer than `longest`."""
    from PIL.Image import Resampling

    scale = longest / max(image.size)
    if scale >= 1:
        return image
    return image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))), Resampling.LANCZOS)


def _encoded(image: Image, lossy: bool, most_bytes: int, whole: tuple[int, int], notes: list[str]) -> Picture:
    """`image` as PNG, or as JPEG where it came as one (`lossy`) or is too long otherwise; smaller where that is."""
    while True:
        ways: list[tuple[str, dict[str, Any]]] = [] if lossy else [("PNG", {})]
        ways += [("JPEG", {"quality": quality, "subsampling": 0}) for quality in _QUALITIES]
        for form, options in ways:
            out = BytesIO()
            image.save(out, form, **options)
            if out.tell() <= most_bytes or image.size == (1, 1):
                shrunk = (f"at {image.width}x{image.height} of its {whole[0]}x{whole[1]} pixels",)
                told = (*notes, *(shrunk if image.size != whole else ()))
                return Picture(out.getvalue(), f"image/{form.lower()}", image.width, image.height, told)
        image = _fitted(image, max(1, max(image.size) * 2 // 3))
