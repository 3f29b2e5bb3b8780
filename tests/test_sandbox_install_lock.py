"""`environment.lock`: what is installed at the end, told from files, whatever an agent made of them."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from attempts import FINISH, Provider, bash, report, spec
from sandboxes import text

from agentctl.agents.manifest import read_result
from agentctl.agents.reading import RecordReader
from agentctl.benchmarks.runner import run
from agentctl.tools.sandbox.inventory import Search, installed
from agentctl.tools.sandbox.protocol import EnvironmentLock, Sandbox, SandboxError, SandboxSpec
from agentctl.tools.sandbox.system import HOST, dpkg_status

pytest_plugins = ("sandbox_fixtures",)

PLANTED = {
    "v/pyvenv.cfg": "version = 3.11\n",
    "v/lib/python3.11/site-packages/six-1.16.0.dist-info/METADATA": "Name: six\n",
    "v/lib/python3.11/site-packages/old_one-2.0-py3.11.egg-info/PKG-INFO": "Name: old_one\n",
    "v/lib/python3.11/site-packages/six.py": "",
    "v/lib/python3.11/site-packages/mine-0.1.dist-info/direct_url.json": json.dumps(
        {"url": "https://example.org/mine.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}}
    ),
    "conda/conda-meta/numpy-base-1.26.4-py311h_0.json": "{}",
    "conda/conda-meta/history": "",
    "renv/library/R-4.2/x86_64/dplyr/DESCRIPTION": "Package: dplyr\nVersion: 1.1.4\nTitle: Two\n Version: 9\n",
    "renv/library/R-4.2/x86_64/dplyr/Meta/package.rds": "",
    "mypkg/DESCRIPTION": "Package: mypkg\nVersion: 0.1\n",  # its source: not installed
}


def test_environments_are_found_wherever_they_are(box: Sandbox) -> None:
    for name, content in PLANTED.items():
        box.write(name, content.encode())
    lock, start = box.environment(), box.workspace.start
    assert lock.python[f"{start}/v/lib/python3.11/site-packages"] == (
        "mine==0.1 @ https://example.org/mine.git@abc123",
        "old_one==2.0",
        "six==1.16.0",
    )
    assert lock.conda == {f"{start}/conda": ("numpy-base=1.26.4=py311h_0",)}
    assert lock.r[f"{start}/renv/library/R-4.2/x86_64"] == ("dplyr 1.1.4",)
    assert not any("mypkg" in line for library in lock.r.values() for line in library)
    assert lock.incomplete == ()
    assert lock.system.packages == dpkg_status(HOST).packages
    assert (lock.system.added, lock.system.changed, lock.system.removed) == ((), (), ())


def test_traps_cost_neither_time_nor_the_list(box: Sandbox) -> None:
    text(box, "mkdir -p p/Meta q/Meta site-packages/x-1.dist-info deep; mkfifo p/DESCRIPTION")
    text(box, "mkfifo site-packages/x-1.dist-info/direct_url.json; ln -s / root; ln -s .. deep/up; mkdir -m 0 closed")
    text(box, "truncate -s 5G q/DESCRIPTION; mkdir site-packages/$(printf 'b\\377d')-2.dist-info")
    began = time.monotonic()
    lock = box.environment()
    assert time.monotonic() - began < 5
    found = lock.python[f"{box.workspace.start}/site-packages"]
    assert found == ("b?d==2", "x==1")
    EnvironmentLock.model_validate_json(lock.model_dump_json())


@pytest.mark.parametrize("bound", [{"left": 100}, {"deadline": 0.0}])
def test_a_search_without_end_is_cut_off(bound: dict[str, float], tmp_path: Path) -> None:
    for n in range(200):
        (tmp_path / f"{n}/site-packages/a-1.dist-info").mkdir(parents=True)
    search = Search()
    vars(search).update(bound)
    search.run([str(tmp_path)])
    assert search.incomplete == ["not every folder was searched: there are too many"]
    assert len(search.python) < 200


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: only root may show a system that can be changed")
def test_what_became_of_packages_of_the_system(kind: str, open_kind: Callable[..., Sandbox]) -> None:
    box = open_kind()
    if not box.system_writable or not dpkg_status(HOST).packages:
        pytest.skip("needs dpkg, and a system that can be changed")
    first, second, *_ = dpkg_status(HOST).packages
    changed, removed = (line.partition(":")[0] for line in (first, second))
    script = f"""
import re
file = "/var/lib/dpkg/status"
paragraphs = open(file).read().strip().split("\\n\\n")
kept = [each for each in paragraphs if not each.startswith("Package: {removed}\\n")]
of_one = [each.startswith("Package: {changed}\\n") for each in kept]
kept = [re.sub("Version: .*", "Version: 99", each) if one else each for one, each in zip(of_one, kept)]
new = "Package: new\\nStatus: install ok installed\\nArchitecture: all\\nVersion: 1\\n"
open(file, "w").write("\\n\\n".join([*kept, new]))
"""
    box.write("change.py", script.encode())
    text(box, "python3 change.py")
    system = box.environment().system
    name, _, version = first.partition("=")
    assert (system.added, system.changed) == (("new:all=1",), (f"{name}={version} -> 99",))
    assert system.removed == (second,)
    assert set(system.packages) ^ set(dpkg_status(HOST).packages) == {first, second, f"{name}=99", "new:all=1"}


def test_a_broken_python_is_told(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent may break it, and may not forge a list that is none."""
    if not box.system_writable:
        pytest.skip("needs a system that can be changed")
    monkeypatch.setattr("agentctl.tools.sandbox.environment_lock.SECONDS", 1.0)
    for says in ("exit 3", "echo {}", "echo; yes x", 'echo "{" >&2; exit 1'):
        box.write("python3", f"#!/bin/sh\n{says}\n".encode())
        text(box, "rm -f /usr/bin/python3; install -m 755 python3 /usr/bin/python3")
        with pytest.raises(SandboxError, match="what is installed can't be told"):
            box.environment()


def test_installed_packages() -> None:
    status = """Package: b
Status: install ok installed
Architecture: amd64
Version: 1:2.0-1
Description: words
 Status: not a field

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: a
Status: install ok installed
Architecture: all
Version: 3
"""
    assert installed(status) == ["a:all=3", "b:amd64=1:2.0-1"]


# --- of a whole attempt ---


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")
@pytest.mark.parametrize("broken", [False, True])
def test_a_record_holds_it(broken: bool, tmp_path: Path) -> None:
    made = bash("mkdir -p v/lib/python3.11/site-packages/six-1.16.0.dist-info")
    breaks = bash("rm -f /usr/bin/python3; ln -s /bin/false /usr/bin/python3")
    with Provider([made, *([breaks] if broken else []), report(), FINISH]) as provider:
        attempt = spec(tmp_path / "r", provider.url)
        attempt = attempt.model_copy(update={"sandbox": SandboxSpec(network="registries")})
        record = run(attempt, environment=dict(os.environ)).record
    reader, result = RecordReader(record), read_result(record)
    assert result is not None
    assert result.end == "finished"
    notes = [event.text for event in reader.events if event.t == "note" and event.kind == "environment"]
    if broken and reader.manifest.fingerprint.apt:
        assert not (record / "environment.lock").exists()
        assert notes == ["what is installed is not known: what is installed can't be told: no answer"]
    else:
        lock = EnvironmentLock.model_validate_json((record / "environment.lock").read_bytes())
        assert lock.python["/workspace/v/lib/python3.11/site-packages"] == ("six==1.16.0",)
        assert notes == []
    assert ("apt-get" in reader.messages[1].text()) == reader.manifest.fingerprint.apt
