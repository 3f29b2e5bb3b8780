"""Settings of the host's programs that hold tokens and passwords: planted, and looked for inside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxes import AS_NOBODY, NOBODY, python_for_all

from agentctl.tools.sandbox import places
from agentctl.tools.sandbox.credentials import holds_credentials, in_file, withheld

CANARY = "c4n4ry"

HOLDING = [
    f"index-url = https://me:{CANARY}pw@pypi.example.org/simple",
    f"https://{CANARY}token@pypi.example.org/simple",
    f"channels: [https://conda.anaconda.org/t/me-{CANARY}/lab]",
    f"GITHUB_PAT=ghp_{CANARY}",
    f"export HF_TOKEN='{CANARY}abc'",
    f"OPENAI_API_KEY={CANARY}",
    f"MY_LICENCE_KEY={CANARY}",
    f'Sys.setenv(GITHUB_PAT = "{CANARY}")',
    f'options(redcap.token <- "{CANARY}")',
    f"//registry.npmjs.org/:_authToken={CANARY}",
    f"_auth={CANARY}",
    f'{{"ServerApp": {{"password": "argon2:{CANARY}"}}}}',
    f"c.ServerApp.token = u'{CANARY}'",
    f"machine example.org\n  login me\n  password {CANARY}",
    f"machine example.org login me password {CANARY}",
    f"ENV['SECRET_KEY'] => '{CANARY}'",
    f"<clientSecret>x</clientSecret> clientSecret: {CANARY}",
    f"# GITHUB_PAT={CANARY}",
    f"aws_secret_access_key = {CANARY}",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "here: github_pat_11ABCDEFG0abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
]
INNOCENT = [
    "",
    "R_LIBS_SITE=/usr/local/lib/R/site-library",
    'options(repos = c(CRAN = "https://p3m.dev/cran/__linux__/jammy/latest"))',
    "index-url = https://pypi.example.org/simple",
    "deb [signed-by=/usr/share/keyrings/x.gpg] https://deb.example.org stable main",
    "channels:\n  - conda-forge\nauto_activate_base: false",
    "GITHUB_PAT=${GITHUB_PAT}",
    'token <- Sys.getenv("HF_TOKEN")',
    "api_key: null",
    "#password = secret",
    "keystore.type=pkcs12\nkeystore.pkcs12.keyProtectionAlgorithm=PBEWithHmacSHA256AndAES_256",
    "SSL_KEY=/etc/ssl/private/key.pem",
    "password required pam_unix.so",
    "primary_key_column = identifier",
    "mail: somebody@example.org, see https://example.org/@somebody",
    "keyboard = compose",
]


@pytest.mark.parametrize("text", HOLDING)
def test_settings_that_hold_credentials(text: str) -> None:
    assert holds_credentials(f"a = 1\n{text}\nb = 2\n")


@pytest.mark.parametrize("text", INNOCENT)
def test_settings_that_hold_none(text: str) -> None:
    assert not holds_credentials(f"a = 1\n{text}\nb = 2\n")


PLANTED = (
    *(".condarc", "condarc.d/lab.yml", "pip.conf", "etc/pip.conf", "etc/npmrc", "etc/gitconfig", "conda-meta/state"),
    *(
        "etc/conda/activate.d/keys.sh",
        "etc/jupyter/labconfig/page_config.json",
        "etc/julia/startup.jl",
        "pkgs/urls.txt",
    ),
    *("lib/R/etc/Renviron.site", "lib/R/etc/Rprofile.site", "lib64/R/etc/Renviron", "lib/node_modules/npm/npmrc"),
    *("envs/lab/etc/conda/activate.d/x.sh", "envs/lab/lib/R/etc/Renviron", "envs/lab/pip.conf", ".netrc", ".pgpass"),
    *("4.3.1/lib/R/etc/Renviron.site", "local/etc/npmrc", ".ssh/id_ed25519", ".aws/credentials", ".bash_history"),
    *("lib/python3.12/site-packages/sitecustomize.py", "lib/python3.12/sitecustomize.py"),
)
BESIDE = ("condarc", "etc/plain.conf", "lib/R/etc/ldpaths", "bin/tool", "lib/python3.12/site-packages/pkg/const.py")


def plant(folder: Path) -> None:
    for name in PLANTED:
        put(folder / name, f'{{"API_KEY": "{CANARY}"}}' if name.endswith((".json", "state")) else f"MY_TOKEN={CANARY}")
    for name in BESIDE:
        put(folder / name, "# nothing to hide" if "pkg" not in name else "TOKEN = 'a-name'")


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_all_places_of_settings_in_a_distribution_are_looked_at(tmp_path: Path) -> None:
    plant(tmp_path)
    hidden = {str(path.relative_to(tmp_path)) for path in withheld([tmp_path])}
    assert hidden == {name for name in PLANTED if not name.startswith((".ssh", ".aws"))} | {".ssh", ".aws"}


def test_links_odd_files_and_large_ones_are_left(tmp_path: Path) -> None:
    put(tmp_path / "outside/etc/pip.conf", f"password={CANARY}")
    (tmp_path / "tree/etc").mkdir(parents=True)
    (tmp_path / "tree/etc/link").symlink_to(tmp_path / "outside/etc/pip.conf")
    (tmp_path / "tree/lib").symlink_to(tmp_path / "outside")
    (tmp_path / "tree/etc/binary").write_bytes(b"TOKEN=abcdefgh\0")
    os.mkfifo(tmp_path / "tree/etc/fifo")
    put(tmp_path / "tree/etc/large", f"TOKEN={CANARY}\n" * 40_000)
    assert withheld([tmp_path / "tree"]) == []


def test_what_this_machine_needs_is_not_taken_away() -> None:
    shown = places.etc((*places.ETC, *places.INSTALLING))
    names = {str(path) for path in shown}
    assert {"/etc/nsswitch.conf", "/etc/login.defs", "/etc/ssl/openssl.cnf"} <= names | {
        name for name in ("/etc/ssl/openssl.cnf", "/etc/login.defs") if not Path(name).exists()
    }
    assert not in_file(Path("/etc/pam.d/common-password"))


# The folder of a Python


def test_a_python_in_a_home_shows_nothing_else_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bin/python3.12", "bin/pip3", "bin/my-script", "lib/python3.12/os.py", "lib/mine.txt", ".netrc", "x"):
        put(tmp_path / "me" / name, "x")
    parts = {str(path.relative_to(tmp_path)) for path in places.python(tmp_path / "me")}
    assert parts == {"me/bin", "me/lib"}
    for home in (tmp_path / "me", tmp_path / "me/deeper"):
        monkeypatch.setenv("HOME", str(home))
        parts = {str(path.relative_to(tmp_path)) for path in places.python(tmp_path / "me")}
        assert parts == {"me/bin/python3.12", "me/bin/pip3", "me/lib/python3.12"}


def test_a_python_of_condas_is_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "conda-meta").mkdir()
    assert places.python(tmp_path) == [tmp_path]


def test_settings_of_pip_beside_a_python_are_shown_without_credentials(tmp_path: Path) -> None:
    put(tmp_path / "pip.conf", "[global]\nindex-url = https://pypi.example.org/simple")
    assert places.python(tmp_path) == [tmp_path / "pip.conf"]
    put(tmp_path / "pip.conf", f"[global]\nindex-url = https://me:{CANARY}@pypi.example.org/simple")
    assert places.python(tmp_path) == []


# A sandbox on such a machine

PROBE = """
import os, sys
from pathlib import Path
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Mount, SandboxSpec, Workspace
base = Path(sys.argv[1])
for name in ("work", "scratch"):
    (base / name).mkdir(parents=True)
workspace = Workspace(mounts=(Mount(inside="/workspace", host=base / "work"),), scratch=base / "scratch")
sandbox = open_sandbox(SandboxSpec(network="none"), workspace, owner_env={"PATH": "/usr/bin:/bin"})
said = sandbox.exec(["sh", "-c", sys.argv[2]], timeout=60)
sandbox.close()
sys.stdout.write(said.stdout.decode())
sys.stderr.write(said.stderr.decode())
"""
LOOK = """
grep -rlsI c4n4ry /etc /opt /usr/local 2>/dev/null
echo looked
cat /opt/miniconda3/etc/plain.conf /etc/R/plain; echo
cat /opt/miniconda3/conda-meta/state; ls -A /opt/miniconda3/.ssh
test WRITE = 0 || { echo new > /opt/miniconda3/.condarc && echo new > /etc/R/Renviron.site && echo written; }
"""


@pytest.fixture
def machine() -> Iterator[Path]:
    """A folder that every user may read, with settings to be shown at /opt, /etc/R and /etc/pip.conf."""
    with tempfile.TemporaryDirectory(prefix="agentctl-planted-") as name:
        base = Path(name)
        plant(base / "opt/miniconda3")
        for each in ("Renviron.site", "Rprofile.site"):
            put(base / "R" / each, f"MY_PAT={CANARY}")
        put(base / "R/plain", "plain")
        put(base / "pip.conf", f"[global]\nextra-index-url = https://me:{CANARY}@x.example.org/simple\n")
        (base / "box").mkdir()
        for path in (base, *base.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        os.chown(base / "box", NOBODY, NOBODY)
        yield base


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("bwrap") is None, reason="needs bwrap, and root to plant")
@pytest.mark.parametrize("who", ["root", "nobody"])
def test_nothing_that_is_planted_is_seen_inside(machine: Path, who: str) -> None:
    python = sys.executable if who == "root" else python_for_all()
    places_of = {"opt": "/opt", "R": "/etc/R", "pip.conf": "/etc/pip.conf"}
    if python is None or not all(Path(place).exists() for place in places_of.values()):
        pytest.skip("needs a Python that every user may run, and places to plant in")
    paths = [*(path for path in sys.path if path.endswith("site-packages")), str(Path(__file__).parents[1] / "src")]
    mounts = "".join(f"mount --bind {machine}/{name} {place} && " for name, place in places_of.items())
    prefix = AS_NOBODY if who == "nobody" else ()
    probe = [python, "-c", PROBE, str(machine / "box"), LOOK.replace("WRITE", str(int(who == "root")))]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{mounts} exec "$@"', "sh", *prefix, *probe],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOME": str(machine / "box"), "PYTHONPATH": ":".join(paths)},
    )
    if done.stderr.startswith(("unshare", "mount")):
        pytest.skip(f"nothing can be planted here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    seen, _, rest = done.stdout.partition("looked\n")
    assert seen == ""
    plain, state, *more = rest.splitlines()
    assert plain == "# nothing to hideplain"
    assert json.loads(state) == {}
    assert more == (["written"] if who == "root" else [])
