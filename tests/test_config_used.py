"""What settings make of an attempt, in Python and on the command line, and how `doctor` shows them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attempts import CAPSULE, FINISH, agentctl, bash, report

from agentctl.agents.manifest import read_manifest
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.spec import AttemptSpec, Limits, Prices
from agentctl.base.errors import InputError
from agentctl.benchmarks import solving
from agentctl.benchmarks.config import Config
from agentctl.benchmarks.corebench.locate import examples
from agentctl.benchmarks.settings import fields
from agentctl.benchmarks.solving import attempt_spec
from agentctl.tools.sandbox.protocol import SandboxSpec

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")
STEPS = ("limits", "steps")

pytest_plugins = ("config_fixtures",)

Read = Callable[..., Config]


# What comes of it


def spec(config: Config, **more: Any) -> AttemptSpec:
    return attempt_spec(config, CAPSULE, more.pop("level", "hard"), environment={}, **more)


def test_without_a_model_the_recording_is_played_as_it_was_recorded(read: Read) -> None:
    config = read(project='[sandbox]\nnetwork = "open"\n[model]\ntemperature = 0.3')
    recorded = read_manifest(examples() / "recordings" / "core-agent" / f"{CAPSULE}-hard").spec
    made = spec(config)
    assert made.model.name.startswith("replay:")
    assert (made.sandbox.network, made.scaffold.digest) == (recorded.sandbox.network, recorded.scaffold.digest)
    asked = spec(read(flags={"sandbox.network": "open"}))
    assert asked.sandbox.network == "open"


@pytest.mark.parametrize("project", ['[data]\ndataset = "test"', '[data]\ncapsules = "mine"'])
def test_a_dataset_of_ones_own_hides_no_shipped_example(read: Read, project: str) -> None:
    assert spec(read(project=project)).task == spec(read()).task
    with pytest.raises(InputError, match="--dataset examples"):
        spec(read(flags={"data.dataset": "test"}))


def test_a_live_model_reaches_registries(read: Read) -> None:
    assert spec(read(project='[model]\nname = "openai/x"')).sandbox.network == "registries"
    assert spec(read(flags={"model.name": "openai/x", "sandbox.kind": "local"})).sandbox.network == "open"
    assert spec(read(AGENTCTL_MODEL="openai/x", AGENTCTL_SANDBOX_NETWORK="none")).sandbox.network == "none"


def test_no_recording_says_which_there_are(read: Read) -> None:
    with pytest.raises(InputError) as refused:
        spec(read(), level="medium")
    assert "a recorded run is shipped for easy and hard alone" in str(refused.value)
    assert "--level hard" in str(refused.value)


def test_python_takes_the_same_settings(tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[AttemptSpec] = []
    monkeypatch.setattr(solving, "run", lambda spec, **_: ran.append(spec))
    text = '[model]\nname = "openai/x"\ntemperature = 0.3\neffort = "low"\n[limits]\nsteps = 7\ncost_usd = 1\n'
    environment = {"HOME": str(tmp_path / "home"), "AGENTCTL_RECORDS_KEEP": "all"}
    read(project=f'{text}[sandbox]\nmemory_mb = 100\n[records]\nfolder = "there"')
    solving.solve(CAPSULE, environment=environment)
    solving.solve(
        CAPSULE,
        model=ModelSpec(name="openai/y", temperature=0.9),
        limits=Limits(steps=9),
        sandbox=SandboxSpec(network="open"),
        prices=Prices(lines=("openai/y=1,2",)),
        keep="answers",
        record="r",
        environment=environment,
    )
    first, second = ran
    assert (first.model.name, first.model.temperature, first.limits.steps) == ("openai/x", 0.3, 7)
    assert (first.keep, first.record.parent) == ("all", tmp_path / "home/work/there")
    assert (second.model.name, second.model.temperature, second.model.effort) == ("openai/y", 0.9, "low")
    assert (second.limits.steps, second.limits.cost_usd) == (9, 1)
    assert (second.sandbox.network, second.sandbox.memory_mb) == ("open", 100)
    assert (second.prices.lines, second.keep, second.record) == (("openai/y=1,2",), "answers", Path("r"))
    assert type(second.model) is ModelSpec
    assert AttemptSpec.model_validate_json(second.model_dump_json()) == second


@needs_bwrap
def test_the_command_line_reads_them(tmp_path: Path) -> None:
    turns = [bash("true"), report(), FINISH]
    (tmp_path / "s.json").write_text(json.dumps([{"calls": [{"name": n, "arguments": a}]} for n, a in turns]))
    (tmp_path / "agentctl.toml").write_text(
        '[model]\nname = "script:s.json"\n[limits]\ncost_usd = 1.5\n[records]\nfolder = "out"\n'
        '[sandbox]\nnetwork = "none"'
    )
    done = agentctl("solve", CAPSULE, "--steps", 9, cwd=tmp_path, env={"AGENTCTL_LIMITS_STEPS": "5"})
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "out").iterdir()
    limits = read_manifest(made).spec.limits
    assert (limits.cost_usd, limits.steps) == (Decimal("1.5"), 9)
    assert "cap $1.50" in " ".join(done.stderr.split())


# Shown


def test_doctor_shows_where_each_comes_from(tmp_path: Path) -> None:
    (tmp_path / "agentctl.toml").write_text('[model]\nname = "openai/x"\n[prices.lines]\n"openai/x" = "1,2"')
    environment = {"AGENTCTL_LIMITS_STEPS": "5", "OPENAI_API_KEY": "sk-test-012345678", "AGENTCTL_MODEL_EFFORT": "high"}
    done = agentctl("doctor", "--config", "--cap", "2", "--json", cwd=tmp_path, env=environment)
    told = {each["name"]: (each["value"], each["from"], each["where"]) for each in json.loads(done.stdout)["settings"]}
    assert told["model.name"] == ("openai/x", "file", "agentctl.toml:2")
    assert told["prices.lines.openai/x"] == ("1,2", "file", "agentctl.toml:4")
    assert told["limits.steps"] == (5, "environment", "AGENTCTL_LIMITS_STEPS")
    assert told["limits.cost_usd"] == ("2", "flag", "--cap")
    assert told["limits.seconds"] == (7200.0, "default", "")
    assert "sk-test" not in done.stdout
    assert {name.partition(".lines.")[0] for name in told} >= {"scaffold", "records.keep", "sandbox.kind"}


def test_no_secret_is_shown(tmp_path: Path) -> None:
    environment = {
        "MY_API_KEY": "quite-secret-value",
        "AGENTCTL_MODEL_API_BASE": "https://me:hidden-one@host/v1",
        "AGENTCTL_MODEL_EFFORT": "quite-secret-value",
        "AGENTCTL_MODEL_EXTRA": '{"api_key": "hidden-two", "a": {"token": "hidden-three"}}',
    }
    for options in ([], ["--json"]):
        done = agentctl("doctor", "--config", *options, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        assert not any(word in done.stdout for word in ("quite-secret", "hidden-"))


def test_it_fits_80_columns(tmp_path: Path) -> None:
    deep = tmp_path / "a-folder-with-a-long-name" / "and-another-one-below-it"
    deep.mkdir(parents=True)
    (tmp_path / "agentctl.toml").write_text(f'[model]\nname = "openai/{"long" * 30}"\n[model.extra]\n{"x" * 50} = 1')
    words = f"stty cols 80; cd {deep}; {sys.executable} -m agentctl doctor --config"
    done = subprocess.run(
        ["script", "-qec", words, "/dev/null"], capture_output=True, text=True, check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in done.stdout.splitlines()]
    assert len(lines) > sum(key[0] not in ("fast", "vision") for key in fields())  # of which only what is said is shown
    assert [line for line in lines[:-1] if len(line) > 80] == []
    assert any(line.endswith("/agentctl.toml:2") for line in lines)


@pytest.mark.parametrize("options", [["--dry-run"], ["--cap", "3"], ["."]])
def test_doctor_takes_no_option_without_its_use(options: list[str]) -> None:
    done = agentctl("doctor", *options)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
