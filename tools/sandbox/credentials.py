"""Which settings of the host's programs hold credentials: those are not shown inside.

What is shown of a host are its programs, and with them come the settings that its owner gave them for all users: R's
`Renviron.site`, conda's `.condarc`, a `pip.conf`. Some of those hold tokens and passwords. They are told by what stands
in them, wherever programs keep settings; a file that holds one is withheld whole: what else stands in it may
be a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path

LARGEST = 1 << 18  # bytes; settings are smaller

# Where programs keep settings below a prefix (/usr, /usr/local, a distribution, an environment of conda's).
SETTINGS = (
    *("*", "etc/**/*", "lib*/R/etc/*", "condarc.d/*", ".condarc.d/*", "conda-meta/state", "pkgs/urls*"),
    *("lib*/node_modules/npm/npmrc", "lib*/python3*/sitecustomize.py", "lib*/python3*/*-packages/*customize.py"),
)
# Where further prefixes are in one: R's versions, conda's environments, what an administrator has installed.
PREFIXES = ("", "local", "envs/*", "[0-9]*", "R-[0-9]*")
# One user's own, which a distribution's folder holds where it is that user's home.
OWN_FILES = (".netrc", "_netrc", ".pgpass", ".my.cnf", ".git-credentials", ".pypirc", ".*_history")
OWN_FOLDERS = (".ssh", ".aws", ".azure", ".gnupg", ".docker", ".kube", ".config", ".local", ".subversion")
# Of /etc what says `passwd: files` or `secret = pass:insta` on every machine, and is needed.
INNOCENT = frozenset(
    ("nsswitch.conf", "pam.conf", "pam.d", "login.defs", "services", "alternatives", "terminfo", "openssl.cnf")
)
CERTIFICATES = (
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/ca-certificates",
    "/etc/apt/trusted.gpg.d",
)

_URL = re.compile(r"\w://[^/\s@\"'<>]+@|\w://\S*/t/[A-Za-z0-9-]{8,}/")  # the second is anaconda.org's
_TOKEN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\b(ghp|gho|ghs|github_pat|glpat|hf|xox[abp]|npm|pypi|sk|rk)[-_][A-Za-z0-9_-]{16,}"
    r"|\bA(KI|SI)A[A-Z0-9]{16}\b|\bAIza[\w-]{30,}"
)
_MARKS = (
    "PRIVATE KEY",
    "gh",
    "glpat",
    "hf_",
    "xox",
    "npm_",
    "pypi-",
    "sk-",
    "rk-",
    "sk_",
    "rk_",
    "AKIA",
    "ASIA",
    "AIza",
)
_LOGIN = re.compile(r"\blogin\s+\S+\s+password\s+\S")  # netrc's and apt's
_ASSIGNED = re.compile(r"([A-Za-z_][\w.-]*)[\"'`]?\]?\s*(?:=>?|:|<-)\s*(?:[ubr]?[\"'])?([^\s\"',;#)]{6,})")
_SECRET = re.compile(
    r"[_.-]pat$|(^|[_.-])(passw(or)?d|passphrase|pwd|secret|token)$|^_auth$|(token|password|secret)$"
    r"|(api|access|account|auth|private|secret|license)[_.-]?key$"
)
_CAPITALS = re.compile(r"[A-Z0-9_]+_KEY")
_HINTS = (  # one is in each such name
    *("token", "secret", "passw", "passphrase", "pwd", "_pat", "-pat", ".pat", "_auth", "_key", "-key", ".key"),
    *("apikey", "accesskey", "accountkey", "authkey", "privatekey", "licensekey"),
)
_COMMENT = re.compile(r"\s*([#;!*]|//)")
_PLAIN_WORDS = re.compile(r"[a-z:-]+")  # what a comment gives as an example
_NO_VALUE = re.compile(
    r"[$<%{(\[]|~?/\w|(true|false|none|null|required|optional|function|sys\.getenv)\b", re.IGNORECASE
)


def holds_credentials(text: str) -> bool:
    """Whether `text`, a program's settings, holds a token or a password, in a URL or under a name that says so."""
    if "://" in text and _URL.search(text):
        return True
    if any(mark in text for mark in _MARKS) and _TOKEN.search(text):
        return True
    if "login" in text and _LOGIN.search(text):
        return True
    return any(map(_assigns_secret, text.splitlines()))


def _assigns_secret(line: str) -> bool:
    small = line.lower()
    if not any(hint in small for hint in _HINTS):
        return False
    comment = _COMMENT.match(line)
    return any(
        _names_secret(name) and not _NO_VALUE.match(value) and not (comment and _PLAIN_WORDS.fullmatch(value))
        for name, value in _ASSIGNED.findall(line)
    )


def _names_secret(name: str) -> bool:
    if _CAPITALS.fullmatch(name):
        return True
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)  # authToken
    return _SECRET.search(parted.lower()) is not None


def in_file(path: Path) -> bool:
    """Whether the file at `path` is settings with credentials. One that can't be read can't be read inside either."""
    if not INNOCENT.isdisjoint((path.name, path.parent.name)):
        return False
    try:
        if path.stat().st_size > LARGEST:
            return False
        data = path.read_bytes()
    except OSError:
        return False
    return b"\0" not in data and holds_credentials(data.decode("utf-8", "replace"))


def withheld(shown: Iterable[Path]) -> list[Path]:
    """What is not to be seen of the folders `shown`: files with credentials where programs keep settings, and what is
    one user's own. No link is followed: what it leads to is shown, and looked at, where it stands."""
    found: set[Path] = set()
    for folder in shown:
        if str(folder) in CERTIFICATES:
            continue
        if folder.is_relative_to("/etc"):
            seen: Iterable[Path] = (path for path in folder.rglob("*") if _is_file(path) and in_file(path))
        else:
            seen = _in_prefixes(folder)
        real = folder.resolve()
        found |= {path for path in seen if path.resolve() == real / path.relative_to(folder)}
    return sorted(found)


def _in_prefixes(folder: Path) -> Iterator[Path]:
    for name in SETTINGS:  # it may be a part of a prefix that is not shown as a whole
        first, _, rest = name.partition("/")
        if rest and fnmatch(folder.name, first):
            yield from (path for path in folder.glob(rest) if _is_file(path) and in_file(path))
    for prefix in chain.from_iterable([folder] if not name else folder.glob(name) for name in PREFIXES):
        for name in SETTINGS:
            yield from (path for path in prefix.glob(name) if _is_file(path) and in_file(path))
        if folder != Path("/usr"):
            yield from (path for name in OWN_FILES for path in prefix.glob(name) if _is_file(path))
            yield from (path for name in OWN_FOLDERS if (path := prefix / name).is_dir() and not path.is_symlink())


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
