"""Tiny valid files of many kinds, and notebooks."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

SAMPLES = Path(__file__).parent / "data" / "formats"


def notebook_of(words: str) -> bytes:
    """A notebook with a code cell and the images that `words` tell of."""
    found = [word for word in words.replace("-", " ").split() if word.isdigit()]
    megabytes = int(found[0]) if found else 1
    image = "A" * (megabytes * 1_000_000 * 4 // 3)
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "execution_count": 1,
            "metadata": {},
            "source": ["x = 1\n", "plot(x)"],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["printed\n"]},
                {"output_type": "display_data", "metadata": {}, "data": {"image/png": image, "text/plain": "<Figure>"}},
            ],
        }
    ]
    if "attachment" in words:
        source = "![image.png](attachment:image.png)\n![b](data:image/png;base64," + "A" * 5000 + ")"
        attachments = {"image.png": {"image/png": "A" * 400_000}}
        cells.append({"cell_type": "markdown", "metadata": {}, "attachments": attachments, "source": source})
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def _zip(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, "content")
    return buffer.getvalue()


def _tar(mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        archive.addfile(tarfile.TarInfo("a.txt"))
    return buffer.getvalue()


def _image(form: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(buffer, form)
    return buffer.getvalue()


def _numpy(save: Callable[..., None]) -> bytes:
    buffer = io.BytesIO()
    save(buffer, np.arange(3))
    return buffer.getvalue()


def _mat() -> bytes:
    from scipy.io import savemat

    buffer = io.BytesIO()
    savemat(buffer, {"x": np.arange(3)})
    return buffer.getvalue()


def _sqlite() -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table t (x)")
        return connection.serialize()


def _wav() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(100))
    return buffer.getvalue()


MADE: dict[str, Callable[[], bytes]] = {
    "pdf": lambda: _image("PDF"),
    "mat": _mat,
    "npy": lambda: _numpy(np.save),
    "npz": lambda: _numpy(np.savez),
    "zip": lambda: _zip("a.txt"),
    "docx": lambda: _zip("[Content_Types].xml", "word/document.xml"),
    "pptx": lambda: _zip("[Content_Types].xml", "ppt/presentation.xml"),
    "ods": lambda: _zip("mimetype", "content.xml", "META-INF/opendocument.xml"),
    "gz": lambda: gzip.compress(b"text\n" * 9),
    "bz2": lambda: bz2.compress(b"text\n" * 9),
    "xz": lambda: lzma.compress(b"text\n" * 9),
    "tar": lambda: _tar("w"),
    "tgz": lambda: _tar("w:gz"),
    "sqlite": _sqlite,
    "db": _sqlite,
    "pkl": lambda: pickle.dumps({"x": [1, 2]}),
    "png": lambda: _image("PNG"),
    "jpg": lambda: _image("JPEG"),
    "gif": lambda: _image("GIF"),
    "webp": lambda: _image("WEBP"),
    "bmp": lambda: _image("BMP"),
    "tiff": lambda: _image("TIFF"),
    "jpeg": lambda: _image("JPEG"),
    "tif": lambda: _image("TIFF"),
    "wav": _wav,
    "fits": lambda: b"SIMPLE  =                    T".ljust(2880),
    "dcm": lambda: bytes(128) + b"DICM\2\0\0\0UL\4\0",
    "xls": lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
    "jar": lambda: _zip("META-INF/MANIFEST.MF"),
    "whl": lambda: _zip("a/__init__.py"),
    "nc": lambda: b"CDF\x01" + bytes(28),
    "bin": lambda: bytes(range(256)) * 4,
}


def sample(name: str) -> bytes:
    """A tiny valid file of the kind that `name` ends in."""
    suffix = name.rsplit(".", 1)[-1]
    if suffix in MADE:
        return MADE[suffix]()
    alias = {"hdf5": "h5", "h5ad": "h5", "rda": "RData", "Rdata": "RData", "RDS": "rds", "Rds": "rds", "xlsm": "xlsx"}
    stored = SAMPLES / f"t.{alias.get(suffix, suffix)}"
    if not stored.exists():
        pytest.fail(f"the test has no sample of {name}: add one to MADE or to {SAMPLES}")
    return stored.read_bytes()
