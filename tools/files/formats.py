"""Which kind of binary file a file is, told by its first bytes, and a command that looks inside."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from dataclasses import dataclass
from pathlib import PurePosixPath

from .encodings import looks_like_text, wide_encoding

HEAD = 64 * 1024  # bytes of a file that are enough to tell its kind


@dataclass(frozen=True)
class BinaryKind:
    """A kind of file that is not text. `command` looks inside; `{}` in it stands for the path as a shell word."""

    name: str
    command: str


def _python(code: str, *packages: str) -> str:
    """A command that runs `code` on the path `p`, importing `packages` (given as in an import statement)."""
    imports = "; ".join(["import sys", *(f"import {package}" for package in packages), "p = sys.argv[1]"])
    return f'python3 -c "{imports}; {code}" {{}}'


_IMAGE = "use the image tool to see it"
_ARRAY = _python("x = np.load(p, mmap_mode='r'); print(x.dtype, x.shape)", "numpy as np")
_ARRAYS = _python("z = np.load(p); print([(k, z[k].dtype, z[k].shape) for k in z])", "numpy as np")
_EXCEL = _python(
    "[print(n, t.shape, t.head(), sep='\\n') for n, t in pd.read_excel(p, sheet_name=None).items()]", "pandas as pd"
)
_HDF5 = _python("h5py.File(p).visititems(print)", "h5py")
_PARQUET = _python("t = pd.read_parquet(p); print(t.shape); print(t.head())", "pandas as pd")
_FEATHER = _python("t = pd.read_feather(p); print(t.shape); print(t.head())", "pandas as pd")
_MATLAB = _python("print(io.whosmat(p))", "scipy.io as io")
_SQLITE = _python("[print(*r) for r in s.connect(p).execute('select sql from sqlite_master')]", "sqlite3 as s")
_DOCX = "unzip -p {} word/document.xml | sed 's/<[^>]*>/ /g' | head -c 3000"
_RDATA = "Rscript -e 'e <- new.env(); load(commandArgs(TRUE)[1], e); print(ls.str(e))' {}"
_RDS = "Rscript -e 'str(readRDS(commandArgs(TRUE)[1]))' {}"
_STATA = _python("t = pd.read_stata(p); print(t.shape); print(t.head())", "pandas as pd")
_SAS = _python("t = pd.read_sas(p); print(t.shape); print(t.head())", "pandas as pd")
_UNKNOWN = BinaryKind("binary data of no known kind", "file {}; xxd {} | head -20")

# Beginnings that no text has, or that stand for a binary file even where all of it is ASCII.
_ALWAYS: tuple[tuple[bytes, BinaryKind], ...] = (
    (b"%PDF-", BinaryKind("a PDF document", "pdftotext -layout {} - | head -100")),
    (b"SIMPLE  =  ", BinaryKind("a FITS file", _python("fits.info(p)", "astropy.io.fits as fits"))),
    (b"<stata_dta>", BinaryKind("a Stata data set", _STATA)),
    (b"HEADER RECORD*******", BinaryKind("a SAS transport file (xpt)", _SAS)),
    (b"RDA2\n", BinaryKind("an R workspace (RData)", _RDATA)),
    (b"RDA3\n", BinaryKind("an R workspace (RData)", _RDATA)),
)

# Beginnings that a text may have too: they count only where the bytes don't look like text.
_BINARY: tuple[tuple[bytes, BinaryKind], ...] = (
    (b"RDX2\n", BinaryKind("an R workspace (RData)", _RDATA)),
    (b"RDX3\n", BinaryKind("an R workspace (RData)", _RDATA)),
    (b"X\n\0\0\0", BinaryKind("an R object (RDS)", _RDS)),
    (b"\x93NUMPY", BinaryKind("a NumPy array (npy)", _ARRAY)),
    (b"PAR1", BinaryKind("a Parquet table", _PARQUET)),
    (b"ARROW1", BinaryKind("a Feather (Arrow) table", _FEATHER)),
    (b"FEA1", BinaryKind("a Feather table", _FEATHER)),
    (b"ORC", BinaryKind("an ORC table", _python("print(orc.read_table(p))", "pyarrow.orc as orc"))),
    (b"MATLAB 5.0 MAT-file", BinaryKind("a MATLAB file (mat)", _MATLAB)),
    (b"MATLAB 7.3 MAT-file", BinaryKind("a MATLAB 7.3 file (mat, really HDF5)", _HDF5)),
    (b"\x89HDF\r\n\x1a\n", BinaryKind("an HDF5 file", _HDF5)),
    (b"CDF\x01", BinaryKind("a netCDF file", "ncdump -h {}")),
    (b"CDF\x02", BinaryKind("a netCDF file", "ncdump -h {}")),
    (b"CDF\x05", BinaryKind("a netCDF file", "ncdump -h {}")),
    (b"SQLite format 3\0", BinaryKind("an SQLite database", _SQLITE)),
    (b"$FL2", BinaryKind("an SPSS file", _python("print(pd.read_spss(p).head())", "pandas as pd"))),
    (b"7z\xbc\xaf\x27\x1c", BinaryKind("a 7z archive", "7z l {}")),
    (b"Rar!\x1a\x07", BinaryKind("a RAR archive", "unrar l {}")),
    (b"\x28\xb5\x2f\xfd", BinaryKind("zstd-compressed data", "zstdcat {} | head -c 3000")),
    (b"\x7fELF", BinaryKind("a program or library (ELF)", "file {}")),
    (b"MZ", BinaryKind("a Windows program", "file {}")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", BinaryKind("an old Office file (xls, doc or ppt)", _EXCEL)),
    (b"\x1f\x9d", BinaryKind("compressed data (Z)", "zcat {} | head -c 3000")),
    (b"ID3", BinaryKind("a sound file (MP3)", "file {}")),
    (b"OggS", BinaryKind("a sound or video file (Ogg)", "file {}")),
    (b"fLaC", BinaryKind("a sound file (FLAC)", "file {}")),
    (b"\x1aE\xdf\xa3", BinaryKind("a video file (Matroska)", "file {}")),
    (b"\0asm", BinaryKind("a WebAssembly module", "file {}")),
    (b"OTTO", BinaryKind("a font", "file {}")),
    (b"\0\1\0\0\0", BinaryKind("a font", "file {}")),
)

_ZIPPED: tuple[tuple[bytes, BinaryKind], ...] = (
    (b"xl/", BinaryKind("an Excel workbook (xlsx)", _EXCEL)),
    (b"word/", BinaryKind("a Word document (docx)", _DOCX)),
    (b"ppt/", BinaryKind("a PowerPoint presentation (pptx)", "unzip -l {}")),
    (
        b"opendocument.",
        BinaryKind("an OpenDocument file", "unzip -p {} content.xml | sed 's/<[^>]*>/ /g' | head -c 3000"),
    ),
    (b"/data.pkl", BinaryKind("a PyTorch file", "unzip -l {}")),
    (b".npy", BinaryKind("NumPy arrays (npz)", _ARRAYS)),
)

_ZIPPED_BY_NAME = {".xlsx": b"xl/", ".xlsm": b"xl/", ".docx": b"word/", ".pptx": b"ppt/", ".npz": b".npy"}


def recognise(head: bytes, path: str) -> BinaryKind | None:
    """The kind of the binary file whose first bytes (up to HEAD) are `head`, or None for text.

    The bytes decide. The name in `path` is looked at only where several kinds share a container.
    """
    for magic, kind in _ALWAYS:
        if head.startswith(magic):
            return kind
    if looks_like_text(head):
        return None
    suffix = PurePosixPath(path).suffix.lower()
    if (image := _image(head)) is not None:
        return image
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip(head, suffix)
    if (packed := _compressed(head, suffix)) is not None:
        return packed
    for magic, kind in _BINARY:
        if head.startswith(magic):
            return kind
    if (within := _elsewhere(head)) is not None:
        return within
    return None if wide_encoding(head) is not None else _by_suffix(suffix) or _UNKNOWN


def _image(head: bytes) -> BinaryKind | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        size = ", {}x{} pixels".format(*struct.unpack(">II", head[16:24])) if len(head) >= 24 else ""
        return BinaryKind(f"an image (PNG{size})", _IMAGE)
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return BinaryKind("an image (GIF)", _IMAGE)
    if head.startswith(b"\xff\xd8\xff"):
        return BinaryKind("an image (JPEG)", _IMAGE)
    if head.startswith(b"RIFF"):
        inner = {b"WEBP": ("an image (WebP)", _IMAGE), b"WAVE": ("a sound file (WAV)", "file {}")}
        return BinaryKind(*inner.get(head[8:12], ("a RIFF container", "file {}")))
    if head.startswith((b"II*\0", b"MM\0*")):
        return BinaryKind("an image (TIFF)", _python("print(Image.open(p))", "PIL.Image as Image"))
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0":
        return BinaryKind("an image (BMP)", _python("print(Image.open(p))", "PIL.Image as Image"))
    return None


def _zip(head: bytes, suffix: str) -> BinaryKind:
    wanted = _ZIPPED_BY_NAME.get(suffix)
    for sign, kind in _ZIPPED:
        if sign == wanted or sign in head:
            return kind
    return BinaryKind("a zip archive", "unzip -l {}")


def _compressed(head: bytes, suffix: str) -> BinaryKind | None:
    """gzip, bzip2 or xz: what is inside is looked at, as R's files and many others come packed."""
    if head.startswith(b"\x1f\x8b"):
        name, command, inner = "gzip", "zcat", _peek(zlib.decompressobj(31), head)
    elif head.startswith(b"BZh"):
        name, command, inner = "bzip2", "bzcat", _peek(bz2.BZ2Decompressor(), head)
    elif head.startswith(b"\xfd7zXZ\0"):
        name, command, inner = "xz", "xzcat", _peek(lzma.LZMADecompressor(), head)
    else:
        return None
    if inner[:5] in (b"RDX2\n", b"RDX3\n", b"RDA2\n", b"RDA3\n"):
        return BinaryKind("an R workspace (RData)", _RDATA)
    if inner.startswith((b"X\n\0\0\0", b"A\n2\n", b"A\n3\n")):
        return BinaryKind("an R object (RDS)", _RDS)
    if inner[257:262] == b"ustar":
        return BinaryKind(f"a tar archive packed with {name}", "tar -tvf {} | head -50")
    if inner[344:347] in (b"n+1", b"ni1"):
        return BinaryKind("a NIfTI image", _python("print(nibabel.load(p))", "nibabel"))
    return BinaryKind(f"{name}-compressed data", f"{command} {{}} | head -c 3000")


def _peek(decompressor: zlib._Decompress | bz2.BZ2Decompressor | lzma.LZMADecompressor, head: bytes) -> bytes:
    """The first bytes inside `head`, at most 512: a packed giant can't fill the memory."""
    try:
        return decompressor.decompress(head, 512)
    except (zlib.error, OSError, lzma.LZMAError, EOFError):
        return b""


def _elsewhere(head: bytes) -> BinaryKind | None:
    """Kinds whose mark is not at the beginning."""
    if head[257:262] == b"ustar":
        return BinaryKind("a tar archive", "tar -tvf {} | head -50")
    if head[128:132] == b"DICM":
        return BinaryKind("a DICOM image", _python("print(pydicom.dcmread(p))", "pydicom"))
    if head[344:347] in (b"n+1", b"ni1"):
        return BinaryKind("a NIfTI image", _python("print(nibabel.load(p))", "nibabel"))
    if head[4:8] == b"ftyp":
        return BinaryKind("a video or image file (MP4 family)", "file {}")
    if head[0:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        return BinaryKind("a Python pickle (loading one runs code)", "python3 -m pickletools {} | head -50")
    return None


def _by_suffix(suffix: str) -> BinaryKind | None:
    """Kinds without a mark of their own."""
    if suffix == ".pyc":
        return BinaryKind("compiled Python", "file {}")
    if suffix == ".dta":
        return BinaryKind("a Stata data set", _STATA)
    if suffix == ".sas7bdat":
        return BinaryKind("a SAS data set", _SAS)
    return None
