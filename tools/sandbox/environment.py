"""What commands find set: all that asks, pages or opens a window is turned off, and no secret of the host is there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

CRAN = "https://cloud.r-project.org"
NO_EDITOR = "no-editor"
SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

PRESETS: Mapping[str, str] = {
    # A fixed locale: with the host's own, sorting and decimal commas of results would depend on who ran them.
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "SHELL": "/bin/bash",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "EDITOR": NO_EDITOR,
    "VISUAL": NO_EDITOR,
    "GIT_EDITOR": NO_EDITOR,
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBCONF_NONINTERACTIVE_SEEN": "true",
    "APT_LISTCHANGES_FRONTEND": "none",
    "MPLBACKEND": "Agg",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",  # the system's Python is the sandbox's own: there is nothing to guard from pip
    "PIP_ROOT_USER_ACTION": "ignore",
    "CONDA_ALWAYS_YES": "true",
}

# Files that hold public certificates: a network that signs anew breaks every download without them.
CERTIFICATES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
)
PLACES = (
    "TZ",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_FIND_LINKS",
    "PIP_DEFAULT_TIMEOUT",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
)
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

_SITE_PROFILE = f"""\
# R asks for a mirror, or stops, where none is set. The system's own site profile still counts.
local({{
  site <- file.path(R.home("etc"), "Rprofile.site")
  if (file.exists(site)) sys.source(site, envir = baseenv())
  repos <- getOption("repos")
  if (is.null(repos) || !("CRAN" %in% names(repos))) repos["CRAN"] <- "{CRAN}"
  if (repos[["CRAN"]] == "@CRAN@") repos[["CRAN"]] <- "{CRAN}"
  options(repos = repos, menu.graphics = FALSE)
}})
"""

_EDITOR_SCRIPT = """\
#!/bin/sh
echo "There is no editor here. Give the text on the command line (git commit -m TEXT), or write the file yourself." >&2
exit 1
"""

_PYTHON_SCRIPT = """\
#!/bin/sh
exec python3 "$@"
"""


def has_credentials(text: str) -> bool:
    """Whether `text` holds a URL with a user's name or password in it, or with a query that may be a key."""
    return re.search(r"\w://[^/\s@]*@|\w://\S*\?\S*=", text) is not None


def inherited(owner_env: Mapping[str, str], names: tuple[str, ...] = (*CERTIFICATES, *PLACES)) -> dict[str, str]:
    """What is taken from the host: time zone, certificates, package indexes. Nothing else, and none of these where its
    value holds credentials."""
    return {name: value for name in names if (value := owner_env.get(name)) and not has_credentials(value)}


def command_environment(
    owner_env: Mapping[str, str],
    *,
    home: str,
    user: str,
    path: tuple[str, ...] = SYSTEM_PATH,
    proxies: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of a command inside. `home` and `path` are as seen inside; `proxies` are the variables that
    name them."""
    return {
        **inherited(owner_env),
        **(proxies or {}),
        **PRESETS,
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "PATH": ":".join((f"{home}/.local/bin", *path)),
        "R_PROFILE": f"{home}/.config/R/Rprofile.site",
        "R_LIBS_USER": f"{home}/R/library",
    }


def prepare_home(home: Path, path: tuple[str, ...] = SYSTEM_PATH) -> None:
    """Make the private home at the host folder `home`: R's site profile and library, the editor that says no, and,
    where `path` has only a `python3`, a `python`: half of all run scripts ask for it by that name."""
    for folder in (".local/bin", ".config/R", "R/library"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / ".config/R/Rprofile.site").write_text(_SITE_PROFILE, encoding="utf-8")
    _program(home / ".local/bin" / NO_EDITOR, _EDITOR_SCRIPT)
    if shutil.which("python", path=":".join(path)) is None:
        _program(home / ".local/bin/python", _PYTHON_SCRIPT)


def _program(place: Path, script: str) -> None:
    place.write_text(script, encoding="utf-8")
    place.chmod(0o755)
