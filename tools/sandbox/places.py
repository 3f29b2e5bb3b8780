"""What of the host may be seen inside: the system's programs and their settings, nothing that may be somebody's own."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from .credentials import in_file
from .environment import has_credentials

SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links into /usr on most systems
# Whole distributions that are commonly put into /opt. The rest of /opt may be anything, secrets included.
DISTRIBUTIONS = ("R", "*conda*", "*forge*", "julia*", "quarto*", "texlive*")
# Of /etc what programs and package managers need. Not here: anything that is, or may name, a secret of the host.
ETC = (
    *("ssl/certs", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf", "pki/tls/certs", "pki/ca-trust"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "nsswitch.conf", "host.conf", "gai.conf"),
    *("protocols", "services", "rpc", "localtime", "timezone", "locale.alias", "locale.conf", "terminfo", "inputrc"),
    *("os-release", "debian_version", "lsb-release", "redhat-release", "dpkg", "login.defs", "shells", "mime.types"),
    *("magic", "fonts", "R", "java-*-openjdk", "java", "perl", "python3*", "texmf", "ImageMagick-*", "OpenCL"),
    *("matplotlibrc", "papersize", "manpath.config", "man_db.conf", "groff", "dictionaries-common", "X11/rgb.txt"),
    *("ghostscript", "sgml", "xml", "maven/m2.conf", "maven/logging"),
)
# What is shown of the folder that a Python is installed in, where that is no distribution's: it may hold anything else.
PYTHON = ("bin", "include", "lib", "lib64", "libexec", "share/jupyter", "share/terminfo", "pip.conf")
PYTHON_IN_HOME = ("bin/*python*", "bin/pip*", "include/python3*", "lib*/python3*", "lib*/libpython3*")
# What installing needs besides.
INSTALLING = (
    *("pam.conf", "pam.d", "security/*.conf", "adduser.conf", "deluser.conf", "default/useradd", "default/locale"),
    *("debconf.conf", "ucf.conf", "locale.gen", "apt/preferences", "apt/preferences.d", "libpaper.d", "xattr.conf"),
)
# Settings of package managers, which may hold a name and password in a URL: then they stay outside.
SOURCES = (
    "pip.conf",
    "apt/sources.list",
    "apt/sources.list.d/*",
    "apt/apt.conf.d/*",
    "apt/trusted.gpg.d",
    "apt/keyrings",
)
STATE = ("/var/lib/dpkg", "/var/lib/texmf", "/var/cache/fontconfig", "/var/lib/R", "/nix/store")  # read by programs
# What scripts of Debian's packages keep in /var/lib.
SCRIPTS_STATE = (
    *("aspell", "dictionaries-common", "emacsen-common", "ghostscript", "ispell", "javascript-common", "pam"),
    *("python", "sgml-base", "ucf", "xfonts", "xml-core"),
)


def etc(patterns: Iterable[str]) -> list[Path]:
    """What there is in /etc of `patterns` and may be read, settings with credentials left out."""
    found = (path for pattern in patterns for path in sorted(Path("/etc").glob(pattern)))
    readable = [path for path in found if path.exists() and os.access(path, os.R_OK)]
    guarded = {path for pattern in SOURCES for path in Path("/etc").glob(pattern)}
    return [path for path in readable if path.is_dir() or not (in_file(path) or (path in guarded and _in_url(path)))]


def _in_url(path: Path) -> bool:
    return has_credentials(path.read_text(encoding="utf-8", errors="replace"))


def python(prefix: Path) -> list[Path]:
    """What is shown of the folder `prefix` that a Python is installed in: all of one of conda's, its own parts of
    another, and the least of one that is somebody's home or holds one."""
    homes = {Path.home(), Path(pwd.getpwuid(os.getuid()).pw_dir)}
    if any(home.resolve().is_relative_to(prefix.resolve()) for home in homes):
        return _parts(prefix, PYTHON_IN_HOME)
    return [prefix] if (prefix / "conda-meta").is_dir() else _parts(prefix, PYTHON)


def _parts(prefix: Path, names: Iterable[str]) -> list[Path]:
    found = {path for name in names for path in prefix.glob(name) if path.exists()}
    return sorted(path for path in found if not (path.is_file() and in_file(path)))


def distributions(root: Path = Path("/")) -> list[Path]:
    """Distributions in /opt of the system at `root`, by their paths inside."""
    found = (path for name in DISTRIBUTIONS for path in (root / "opt").glob(name) if path.is_dir())
    return sorted({Path("/", path.relative_to(root)) for path in found})
