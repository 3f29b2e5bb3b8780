"""The network policy in an attempt: what the agent is told, and what its record and whoever reads it are told."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from attempts import CAPSULE, FINISH, agentctl, bash, report, spec

from agentctl.agents.events import MessageAdded, NetworkRefused, decode, encode
from agentctl.agents.manifest import _source_files, attempt_key
from agentctl.agents.reading import RecordReader
from agentctl.prompts.compose import read_part
from agentctl.tools.sandbox.protocol import Refusal, SandboxSpec
from agentctl.tools.sandbox.system import fingerprint

FETCH = """python3 - <<'EOF'
import urllib.request
for n in range(12):
    try:
        urllib.request.urlopen("https://codeocean.com/capsule/1/results")
    except OSError as error:
        print(n, error)
EOF"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")
@pytest.mark.parametrize("network", ["registries", "open"])
def test_refusals_are_events_shown_live_and_later(tmp_path: Path, network: str) -> None:
    script = tmp_path / "script.json"
    turns = [bash(FETCH), report(), FINISH]
    script.write_text(json.dumps([{"calls": [{"name": name, "arguments": given}]} for name, given in turns]))
    record = tmp_path / "record"
    done = agentctl(
        *("solve", CAPSULE, "--model", f"script:{script}", "--network", network, "--record", record),
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    line = "! network: refused: codeocean.com is refused under every policy"
    assert done.stderr.count(line) == 2  # the first, and the tenth
    assert f"{line} (10 times)" in done.stderr
    reader = RecordReader(record)
    events = [event for event in reader.events if isinstance(event, NetworkRefused)]
    assert [event.refusal.times for event in events] == [1, 10]
    assert (events[0].refusal.host, events[0].refusal.port) == ("codeocean.com", 443)
    assert reader.manifest.fingerprint.network == network
    shown = agentctl("show", record)
    assert shown.stdout.count(line) == 2
    messages = [event.message.text() for event in reader.events if isinstance(event, MessageAdded)]
    assert read_part(f"network/{network}.md") in messages[0]
    told = f"Tunnel connection failed: 403 Refused by the network policy '{network}': codeocean.com is refused"
    assert any(f"11 <urlopen error {told}" in json.dumps(event.model_dump(mode="json")) for event in reader.events)


def test_the_event_is_read_back() -> None:
    event = NetworkRefused(refusal=Refusal(host="a", port=443, why="a is not a package registry", times=10))
    assert decode(encode(event)) == event


@pytest.mark.parametrize("network", ["none", "registries", "open"])
def test_the_agent_is_told(network: str) -> None:
    told = read_part(f"network/{network}.md")
    assert "network" in told
    assert len(told) < 600
    assert ("403 Refused by the network policy" in told) == (network != "none")


def test_policy_and_hosts_are_parts_of_the_attempt_key(tmp_path: Path) -> None:
    attempt = spec(tmp_path / "record", "http://127.0.0.1:1")

    def key(**sandbox: object) -> str:
        made = SandboxSpec.model_validate(sandbox)
        found = fingerprint(made)
        return attempt_key(attempt.model_copy(update={"sandbox": made}), prompt_digest="", fingerprint=found)

    keys = {key(), key(network="registries"), key(network="open"), key(network="open", allow_hosts=("pypi.corp",))}
    assert len(keys) == 4


def test_the_list_of_hosts_counts_as_source() -> None:
    """Another list may give another outcome, so it gives another key."""
    names = [name for name, _ in _source_files(files("agentctl").joinpath("tools"), "tools")]
    assert "tools/sandbox/network/hosts.yaml" in names
