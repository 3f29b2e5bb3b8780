"""Images as they are sent: told by their content, decoded whole, upright, on white, of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_fields import SCOPE, Fields, fields_of, inside, skip_without
from file_place import rise_in_memory
from PIL import Image
from vision_place import Sight, files_in, open_sight

from agentctl.base.messages import Status
from agentctl.tools.tool import ToolResult
from agentctl.tools.vision.images import LONGEST_SIDE, MOST_BYTES, read_picture

RED = (254, 0, 0)
TYPES = {"PNG": "image/png", "JPEG": "image/jpeg"}


@pytest.fixture
def sight(tmp_path: Path) -> Iterator[Sight]:
    with open_sight(tmp_path) as found:
        yield found


@pytest.mark.cases("images")
def test_case(case: dict[str, Any], sight: Sight) -> None:
    """Each file that the case makes is asked about by itself."""
    given, exact = fields_of(case)
    skip_without(case.get("needs", []))
    with inside(sight.folder):
        exec(given["make_python"], dict(SCOPE))
    results: dict[str, ToolResult] = {}
    asked_before: dict[str, int] = {}

    def ask_all() -> None:
        for path in files_in(sight.folder):
            asked_before[path] = len(sight.asked)
            results[path] = sight.query(path)
            if len(sight.asked) > asked_before[path]:
                check_sent(sight, path, exact)

    rise = rise_in_memory(ask_all)
    errors = {path: result.text() for path, result in results.items() if result.status is Status.ERROR}
    assert len(sight.asked) == len(results) - len(errors)
    assert sum(len(question[1]) - 1 for question in sight.asked) == len(sight.asked)
    for path, words in errors.items():
        assert path in words and len(words) < 1000  # one that can't be used is always named
    check_errors(errors, exact)
    assert len(sight.asked) == exact.get("provider_calls", len(sight.asked))
    assert rise < exact.get("max_extra_rss_mb", 300)
    assert exact.get("crash", False) is False  # an exception would have ended the test
    given.done()
    exact.done()


def check_errors(errors: dict[str, str], exact: Fields) -> None:
    assert bool(errors) is exact.get("tool_error", bool(errors))
    assert len(errors) == exact.get("tool_errors", len(errors))
    assert exact.get("message_has_file_name", True) is True
    for part in exact.get("message_contains", []):
        assert all(part in words for words in errors.values()), errors


def check_sent(sight: Sight, path: str, exact: Fields) -> None:
    """What was sent of the file `path`."""
    (ref,) = sight.sent()
    picture = sight.picture()
    assert ref.media_type == TYPES[picture.format or ""]
    assert (ref.width, ref.height) == picture.size
    assert picture.mode in ("L", "RGB") and max(picture.size) <= LONGEST_SIDE
    assert len(sight.kept[ref.digest]) <= MOST_BYTES
    assert ref.media_type in exact.get("media_type_any_of", TYPES.values())
    assert exact.get("media_type_matches_bytes", True) is True
    assert list(picture.size) == exact.get("size", list(picture.size))
    grey = np.asarray(picture.convert("L"))
    assert len(np.unique(grey)) >= exact.get("distinct_grey_levels_min", 1)
    assert (grey == 255).mean() <= exact.get("white_fraction_max", 1)
    if "red_edge" in exact:
        assert edge_of_red(picture) == exact["red_edge"]
    original = Image.open(sight.folder / path)
    if original.has_transparency_data:
        assert exact.get("alpha_background", "white") == "white"
        unseen = np.asarray(original.convert("RGBA"))[..., 3] == 0
        assert (np.asarray(picture.convert("RGB"))[unseen] == 255).all()


def edge_of_red(picture: Image.Image) -> str:
    """The one side of the picture whose middle is red."""
    width, height = picture.size
    middles = {
        "left": (1, height // 2),
        "right": (width - 2, height // 2),
        "top": (width // 2, 1),
        "bottom": (width // 2, height - 2),
    }
    pixels = np.asarray(picture.convert("RGB")).astype(int)
    red = [edge for edge, (x, y) in middles.items() if pixels[y, x, 0] - pixels[y, x, 1:].max() > 150]
    assert len(red) == 1, red
    return red[0]


# Sizes


def saved(folder: Path, name: str, picture: Image.Image, **more: Any) -> str:
    picture.save(folder / name, **more)
    return name


def test_a_large_picture_is_shrunk_and_that_is_said(sight: Sight) -> None:
    path = saved(sight.folder, "big.png", Image.new("RGB", (5000, 2500), "green"))
    result = sight.query(path)
    assert sight.picture().size == (2000, 1000)
    assert sight.picture().getpixel((1000, 500)) == (0, 128, 0)
    assert "[big.png was shown at 2000x1000 of its 5000x2500 pixels]" in result.text()


def test_a_jpeg_of_any_size_is_decoded_to_what_is_needed(sight: Sight) -> None:
    path = saved(sight.folder, "big.jpg", Image.new("RGB", (9000, 9000), "red"))
    rise = rise_in_memory(lambda: print(sight.query(path).text()))
    assert sight.picture().size == (2000, 2000)
    assert rise < 300


def test_a_jpeg_in_scans_is_held_in_full_size_so_its_size_counts(sight: Sight) -> None:
    flat = Image.new("L", (8_000, 8_000), 128)
    flat.save(sight.folder / "scans.jpg", progressive=True)
    flat.save(sight.folder / "plain.jpg")
    told = sight.query("scans.jpg")
    assert told.status is Status.ERROR
    assert "scans.jpg is too large: 8000x8000" in told.text()
    assert sight.query("plain.jpg").status is Status.OK


@pytest.mark.parametrize("size", [(1, 30_000), (30_000, 1), (1, 1), (2000, 2000), (2001, 3)])
def test_any_form_comes_out(sight: Sight, size: tuple[int, int]) -> None:
    sight.query(saved(sight.folder, "x.png", Image.new("L", size, 200)))
    picture = sight.picture()
    assert max(picture.size) == min(2000, max(size))
    assert picture.getpixel((0, 0)) == 200


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_turned_picture_is_shrunk_and_turned(sight: Sight, turn: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    result = sight.query(saved(sight.folder, "x.png", Image.new("RGB", (3000, 1500)), exif=exif))
    sizes = ("2000x1000 of its 3000x1500", "1000x2000 of its 1500x3000")
    assert f"at {sizes[turn > 4]} pixels" in result.text()


def test_bytes_decide_between_png_and_jpeg() -> None:
    from io import BytesIO

    noise = Image.fromarray(np.random.default_rng(1).integers(0, 255, (600, 800, 3), dtype="uint8"))
    out = BytesIO()
    noise.save(out, "PNG")
    whole = read_picture(out.getvalue(), "n.png")
    assert (whole.media_type, whole.width) == ("image/png", 800)
    less = read_picture(out.getvalue(), "n.png", most_bytes=500_000)
    assert (less.media_type, less.width) == ("image/jpeg", 800)
    assert len(less.data) <= 500_000
    least = read_picture(out.getvalue(), "n.png", most_bytes=30_000)
    assert len(least.data) <= 30_000 and least.width < 800
    assert f"at {least.width}x{least.height} of its 800x600 pixels" in least.notes


def test_a_path_below_the_tasks_folder_is_found_there(sight: Sight) -> None:
    material = sight.folder / "capsule"
    for place, colour in ((sight.folder, "red"), (material, "blue"), (material / "results", "green")):
        place.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), colour).save(place / ("own.png" if place == sight.folder else "figure.png"))
    workspace = sight.sandbox.workspace
    there = workspace.model_copy(update={"material": f"{workspace.start}/capsule"})
    sight.sandbox._workspace = there  # type: ignore[attr-defined]
    for path, colour in (("figure.png", (0, 0, 255)), ("results/figure.png", (0, 128, 0)), ("own.png", (255, 0, 0))):
        assert sight.query(path).status is Status.OK
        assert sight.picture().getpixel((4, 4)) == colour
    assert "missing.png" in sight.query("missing.png").text()


def test_many_pictures_share_the_bytes_of_a_request(sight: Sight) -> None:
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 255, (600, 800, 3), dtype="uint8"))
    path = saved(sight.folder, "n.png", noise)
    sight.query(path)
    assert len(sight.kept[sight.sent()[0].digest]) > 1_400_000
    sight.query(*[path] * 10)
    assert len(sight.sent()) == 10
    assert all(len(sight.kept[ref.digest]) <= 1_400_000 for ref in sight.sent())


# Kinds


@pytest.mark.parametrize("name", ["x.webp", "x.gif", "x.tif", "x.bmp", "x.ppm", "x.jp2", "x.avif", "no-suffix"])
def test_other_formats_are_converted(sight: Sight, name: str) -> None:
    form = None if "." in name else "PNG"
    if name.endswith("avif") and not Image.registered_extensions().get(".avif"):
        pytest.skip("needs Pillow with AVIF")
    sight.query(saved(sight.folder, name, Image.new("RGB", (40, 30), "red"), format=form))
    assert sight.picture().format == "PNG"
    assert np.abs(np.subtract(sight.picture().convert("RGB").getpixel((20, 15)), (255, 0, 0))).max() < 8


@pytest.mark.parametrize("name", ["x.gif", "x.tif", "x.webp", "x.png"])
def test_of_several_frames_the_first_is_shown_and_that_is_said(sight: Sight, name: str) -> None:
    frames = [Image.new("RGB", (40, 30), colour) for colour in ("red", "blue", "green")]
    result = sight.query(saved(sight.folder, name, frames[0], save_all=True, append_images=frames[1:]))
    red, _, blue = sight.picture().convert("RGB").getpixel((20, 15))  # type: ignore[misc]
    assert red > 200 > 50 > blue
    assert f"[{name} was shown the first of its 3 frames]" in result.text()


@pytest.mark.parametrize(
    ("values", "first", "last"),
    [
        (np.linspace(0, 4095, 4096).astype("uint16"), 0, 255),  # a camera's 12 bits
        (np.linspace(0, 1, 4096).astype("float32"), 0, 255),
        (np.linspace(-7, 3, 4096).astype("float32"), 0, 255),
        (np.linspace(0, 2_000_000, 4096).astype("int32"), 0, 255),
        (np.full(4096, 65_535, "uint16"), 255, 255),
        (np.zeros(4096, "uint16"), 0, 0),
        (np.append(np.linspace(0, 1, 4094), [np.nan, np.inf]).astype("float32"), 0, 255),
    ],
)
def test_wide_values_are_scaled_not_clipped(sight: Sight, values: Any, first: int, last: int) -> None:
    sight.query(saved(sight.folder, "x.tif", Image.fromarray(values.reshape(64, 64))))
    grey = np.asarray(sight.picture()).ravel()
    assert (grey[0], grey[-1]) == (first, last)
    assert len(np.unique(grey)) >= (250 if first != last else 1)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("paper.pdf", b"%PDF-1.7\n%\xe2\xe3\n", "pdftoppm -png paper.pdf paper"),
        ("my fig.pdf", b"%PDF-1.7\n", "pdftoppm -png 'my fig.pdf' 'my fig'"),
        ("fig.svg", b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', "rsvg-convert"),
        ("fig.png", b"%!PS-Adobe-3.0 EPSF-3.0\n", "gs -q"),
        ("fig.png", b"<!DOCTYPE html><title>404</title>", "is a text"),
        ("table.csv", b"BMI,age\n20,30\n", "is a text"),  # as a bitmap begins
        ("x.png", b"\x1f\x8b\x08\0\0\0\0\0", "gzip"),
        ("x.png", b"\0\0\0\x18ftypheic\0\0\0\0", "MP4 family"),
        ("x.png", b"\x89PNG\r\n\x1a\n", "broken PNG"),
        ("x.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0", "broken JPEG"),
        ("x.webp", b"RIFF\x10\0\0\0WEBPVP8 \0\0\0\0", "broken WEBP"),
        ("x.gif", b"GIF89a\1\0\1\0\0\0\0", "broken GIF"),
    ],
)
def test_what_is_no_image_is_told_with_what_to_do(sight: Sight, name: str, data: bytes, words: str) -> None:
    (sight.folder / name).write_bytes(data)
    told = sight.query(name)
    assert told.status is Status.ERROR
    assert name in told.text() and words in told.text()
    assert not sight.asked and not sight.kept


def test_any_beginning_of_a_file_is_refused_or_whole(sight: Sight) -> None:
    """Cut off anywhere, a file is either told as broken, or all of its picture is there."""
    whole = Image.fromarray(np.random.default_rng(2).integers(0, 255, (40, 40, 3), dtype="uint8"))
    for name in ("x.png", "x.jpg", "x.gif", "x.tif", "x.bmp", "x.webp"):
        saved(sight.folder, name, whole)
        data = (sight.folder / name).read_bytes()
        sight.query(name)
        uncut = np.asarray(sight.picture())
        for length in range(0, len(data), max(1, len(data) // 12)):
            (sight.folder / name).write_bytes(data[:length])
            if sight.query(name).status is Status.OK:
                assert (np.asarray(sight.picture()) == uncut).all(), (name, length)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_broken_exif_data_hide_no_picture(sight: Sight) -> None:
    sight.query(saved(sight.folder, "x.jpg", Image.new("RGB", (9, 9)), exif=b"Exif\0\0MM\0*\0\0\0\x08\0\xff\xff\xff"))
    assert sight.picture().size == (9, 9)
