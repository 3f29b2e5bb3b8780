"""Builds plainfig's wheel, the same bytes each time: `python examples/wheel_src/build.py FOLDER` writes it there.

Nothing is compressed and every date is fixed, so that the wheel doesn't depend on the machine or on its zlib.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parent / "plainfig"


def build(folder: Path) -> Path:
    """Write the wheel into the existing `folder`; returns its path. The version is `plainfig.__version__`."""
    module = (SOURCE / "__init__.py").read_bytes()
    found = re.search(rb'__version__ = "(.+)"', module)
    if found is None:
        raise ValueError(f"{SOURCE}: no __version__")
    version = found[1].decode()
    info = f"plainfig-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: plainfig\nVersion: {version}\nSummary: SVG figures whose words are text\n"
    files = {
        "plainfig/__init__.py": module,
        f"{info}/METADATA": f"{metadata}License: MIT\nRequires-Python: >=3.10\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: build.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    wheel = folder / f"plainfig-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # Unix, wherever this runs
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
