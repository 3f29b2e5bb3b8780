"""Settings: which place counts, what is refused and how that is told, and that Python and the command line agree."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentctl.agents.spec import Prices
from agentctl.base.errors import InputError
from agentctl.benchmarks.config import Config, read_config, variable
from agentctl.benchmarks.settings import Settings, dotted, fields
from agentctl.cli.options import FLAGS, given

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")
STEPS = ("limits", "steps")

pytest_plugins = ("config_fixtures",)

Read = Callable[..., Config]


# Which counts


def test_each_place_counts_before_the_next(read: Read) -> None:
    places: list[tuple[str, dict[str, Any], str]] = [
        ("default", {}, ""),
        ("file", {"user": "[limits]\nsteps = 1"}, "/agentctl/agentctl.toml:2"),
        ("file", {"project": "\n[limits]\nsteps = 2"}, "agentctl.toml:3"),
        ("environment", {"AGENTCTL_LIMITS_STEPS": "3"}, "AGENTCTL_LIMITS_STEPS"),
        ("flag", {"flags": {"limits.steps": "4"}}, "--limits.steps"),
    ]
    options: dict[str, Any] = {}
    for n, (place, more, name) in enumerate(places):
        options |= more
        config = read(**options)
        assert config.settings.limits.steps == (n or Settings().limits.steps)
        assert config.origin(STEPS).place == place
        assert str(config.origin(STEPS)).endswith(name or "default")


def test_each_setting_of_a_long_file_has_its_line(read: Read) -> None:
    lines = "".join(f'"model-{n}" = "1,{n}"\n' for n in range(1000))
    config = read(project=f"[prices.lines]\n{lines}")
    names = [str(origin) for name, _, origin in config.rows() if name.startswith("prices.lines")]
    assert names == [f"agentctl.toml:{n}" for n in range(2, 1002)]


def test_each_setting_counts_by_itself(read: Read) -> None:
    config = read(
        project='[model]\nname = "p"\n[model.extra]\na = 1\nb = 1',
        user='[model]\nname = "u"\ntemperature = 0.5\n[model.extra]\nb = 2\nc = {d = [2]}',
        AGENTCTL_MODEL_EFFORT="high",
    )
    model = config.settings.model
    assert (model.name, model.temperature, model.effort) == ("p", 0.5, "high")
    assert model.extra == {"a": 1, "b": 1, "c": {"d": [2]}}


def test_types_come_out_whole(read: Read) -> None:
    config = read(
        project='[limits]\ncost_usd = 4.10\n[sandbox]\nallow_hosts = ["a.org", "b.org:8080"]\n'
        '[prices.lines]\n"x/y" = "1,2"\n[model]\nstream = false',
        AGENTCTL_LIMITS_SECONDS="7.5",
        AGENTCTL_PRICES_LINES="a/b=free c=3,4",
        AGENTCTL_MODEL_EXTRA='{"k": [1]}',
        AGENTCTL_MODEL_NATIVE_TOOLS="no",
        flags={"model.extra.top_k": "5", "model.extra.word": "five", "limits.cost_usd": "4.25"},
    )
    settings = config.settings
    assert settings.limits.cost_usd == Decimal("4.25")
    assert settings.limits.seconds == 7.5
    assert settings.sandbox.allow_hosts == ("a.org", "b.org:8080")
    assert settings.prices.lines == {"x/y": "1,2", "a/b": "free", "c": "3,4"}
    assert settings.prices.prices() == Prices(lines=("x/y=1,2", "a/b=free", "c=3,4"))
    assert settings.model.extra == {"k": [1], "top_k": 5, "word": "five"}
    assert (settings.model.stream, settings.model.native_tools) == (False, False)


def test_every_setting_can_be_given_in_every_place(read: Read) -> None:
    """Whatever the specs come to hold: no second list to keep."""
    assert len({variable(key) for key in fields()}) == len(fields())
    for key in fields():
        default = Settings().value(key)
        if isinstance(default, str | int | float | Decimal) and not isinstance(default, bool):
            name, text = dotted(key), str(default)
            assert read(**{variable(key): text} if text else {}).settings == Settings()
            assert read(flags={name: text}).settings.value(key) == default
    assert {flag.key for flag in FLAGS} <= set(fields())


def test_an_empty_variable_is_none(read: Read) -> None:
    assert read(AGENTCTL_MODEL="", AGENTCTL_LIMITS_STEPS=" ").origins == {}


def test_variables_that_are_no_settings_are_left(read: Read) -> None:
    assert read(AGENTCTL_DATA="/x", AGENTCTL_SANDBOX="1-2-3", AGENTCTL_EXEC="1", OTHER="x").origins == {}


# Which file


@pytest.mark.parametrize(
    ("files", "stop", "found"),
    [
        (["home/work/a/agentctl.toml", "home/agentctl.toml"], None, "home/work/a"),
        (["home/work/agentctl.toml"], None, "home/work"),
        (["home/agentctl.toml"], None, "home"),
        (["agentctl.toml"], None, None),  # above the home folder
        (["home/agentctl.toml"], "home/work/.git", None),  # above the repository
        (["home/work/agentctl.toml"], "home/work/.git", "home/work"),
    ],
)
def test_the_nearest_file_up_to_the_root(
    tmp_path: Path, files: list[str], stop: str | None, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "home/work/a/b"
    folder.mkdir(parents=True)
    for file in files:
        (tmp_path / file).write_text("")
    if stop:
        (tmp_path / stop).mkdir()
    config = read_config(environment={"HOME": str(tmp_path / "home")}, folder=folder)
    assert [file.path.parent for file in config.files] == ([tmp_path / found] if found else [])


def test_xdg_config_home_counts(tmp_path: Path, read: Read) -> None:
    (tmp_path / "x/agentctl").mkdir(parents=True)
    (tmp_path / "x/agentctl/agentctl.toml").write_text("[limits]\nsteps = 9")
    assert read(user="[limits]\nsteps = 1", XDG_CONFIG_HOME=str(tmp_path / "x")).settings.limits.steps == 9


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give files away")
def test_a_file_that_somebody_else_put_there_is_refused(tmp_path: Path) -> None:
    """Else anybody could send keys elsewhere by a file in a shared folder."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (tmp_path / "agentctl.toml").write_text("")
    os.chown(tmp_path / "agentctl.toml", 4711, 4711)
    with pytest.raises(InputError, match="belongs to another user"):
        read_config(environment={"HOME": "/root"}, folder=folder)
    os.chown(folder, 4711, 4711)  # a folder of theirs, which one chose to work in
    assert read_config(environment={"HOME": "/root"}, folder=folder).files


def test_paths_in_a_file_begin_at_the_file(tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        '[data]\ndataset = "d.json"\ncapsules = "/abs"\n[records]\nfolder = "../r"\n[model]\nname = "script:s.json"\n'
        '[prices]\nfile = "p.yaml"\n'
    )
    (tmp_path / "home/work/deep").mkdir()
    monkeypatch.chdir(tmp_path / "home/work/deep")
    settings = read(project='scaffold = "mine.yaml"\n' + text).settings
    work = tmp_path / "home/work"
    assert settings.scaffold == str(work / "mine.yaml")
    assert settings.data.dataset == str(work / "d.json")
    assert settings.data.capsules == Path("/abs")
    assert settings.records.folder.resolve() == tmp_path / "home/r"
    assert settings.model.name == f"script:{work}/s.json"
    assert settings.prices.file == work / "p.yaml"
    named = read(project='scaffold = "plain"\n[data]\ndataset = "train"\n[model]\nname = "openai/x"').settings
    assert (named.scaffold, named.data.dataset, named.model.name) == ("plain", "train", "openai/x")
    dotted_names = read(project='scaffold = "my.v2"\n[data]\ndataset = "v1.1"').settings
    assert (dotted_names.scaffold, dotted_names.data.dataset) == ("my.v2", "v1.1")
    for path in ("./d", "sub/d.v1", "d.json.gpg"):
        assert read(project=f'[data]\ndataset = "{path}"').settings.data.dataset == str(work / path)
    assert read(AGENTCTL_DATA_DATASET="d.json", project="#").settings.data.dataset == "d.json"


# What is refused

REFUSED = {
    '[model]\n# x\nnmae = "x"': (3, "model.nmae", "did you mean model.name?"),
    '[modle]\nname = "x"': (2, "modle.name", "did you mean model.name?"),
    "temperature = 1": (1, "temperature", "did you mean model.temperature?"),
    "[limits]\ncost = 4": (2, "limits.cost", "did you mean limits.cost_usd?"),
    "[limits]\ncozt = 4": (2, "limits.cozt", "limits.cost_usd"),
    'model = "openai/x"': (1, "model", "[model] is a section"),
    "quite_another = 1": (1, "quite_another", "agentctl doctor --config"),
    '[limits]\n\nsteps = """\n12"""': (3, "limits.steps", "integer"),
    "[limits]\nsteps = true": (2, "limits.steps", "integer"),
    "[limits]\ncost_usd = -1": (2, "limits.cost_usd", "greater than 0, not -1"),
    "[model]\ntemperature = nan": (2, "model.temperature", "finite"),
    "[model]\nname = 5": (2, "model.name", "string"),
    '[sandbox]\nnetwork = "opne"': (2, "sandbox.network", "'none', 'registries' or 'open', not 'opne'"),
    '[sandbox]\nallow_hosts = "a.org"': (2, "sandbox.allow_hosts", "array"),
    '[prices.lines]\na = "free"\n"b/c" = "5"': (3, "prices.lines", "b/c: should be 'IN,OUT'"),
    '[prices]\n\nlines = {a = "x"}': (3, "prices.lines", "a: should be"),
    '[prices.lines]\n"a" = "free"\n\n# x\n"b.c" =  """\n5"""': (5, "prices.lines", "b.c: should be"),
    "[limits]\r\n\r\ncost = 4": (3, "limits.cost", "limits.cost_usd"),
    "limits.steps = 3\nlimits.cost = 4": (2, "limits.cost", "limits.cost_usd"),
    '[[modle]]\nname = "x"': (1, "modle", "agentctl doctor --config"),
    '[model]\nname = "a\u2028b"\nnmae = "x"': (3, "model.nmae", "model.name"),
    '[model]\napi_key = "x"': (2, "model.api_key", "looks like a key"),
    '[model]\nname = "sk-proj-abcdefghijklmnop"': (2, "model.name", "looks like a key"),
    '[model.extra]\nauth = {bearer_token = "x"}': (2, "model.extra", "looks like a key"),
    '[model]\napi_base = "https://me:secret@host/v1"': (2, "model.api_base", "looks like a key"),
    f'[model]\neffort = "{"a1b2" * 8}"': (2, "model.effort", "looks like a key"),
    "[model\n": (None, "", "not TOML"),
    "a = 1\na = 2": (None, "", "not TOML"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_in_a_file_is_one_line(read: Read, text: str) -> None:
    line, name, words = REFUSED[text]
    with pytest.raises(InputError) as refused:
        read(project=text, flags={"limits.steps": 3, "model.name": "x"})  # also where something nearer counts
    told = str(refused.value)
    assert refused.value.exit_status == 2
    assert told.startswith(f"agentctl.toml:{line}: {name}" if line else "agentctl.toml: ")
    assert words in told
    assert not any(secret in told for secret in ("abcdefghij", "me:secret", "a1b2a1b2"))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("AGENTCTL_MODLE", "x", "did you mean AGENTCTL_MODEL?"),
        ("AGENTCTL_LIMITS_STEP", "x", "did you mean AGENTCTL_LIMITS_STEPS?"),
        ("AGENTCTL_LIMITS_STEPS", "many", "AGENTCTL_LIMITS_STEPS: should be a valid integer, not 'many'"),
        ("AGENTCTL_SANDBOX_KIND", "docker", "AGENTCTL_SANDBOX_KIND: should be 'bubblewrap'"),
        ("AGENTCTL_PRICES_LINES", "x=1", "AGENTCTL_PRICES_LINES: x: should be 'IN,OUT'"),
        ("AGENTCTL_PRICES_LINES", "free", "NAME=VALUE"),
    ],
)
def test_what_is_wrong_in_the_environment_is_one_line(read: Read, name: str, value: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        read(**{name: value})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"model__temperature": "nan"}, "--temperature: should be a finite number"),
        ({"sandbox__memory_mb": "1"}, "--memory: should be greater than or equal to 64, not '1'"),
        ({"prices__lines": ("x",)}, "NAME=VALUE"),
        ({"prices__lines": ("x=1,y",)}, "--price: x: should be 'IN,OUT'"),
    ],
)
def test_what_is_wrong_with_a_flag_is_one_line(read: Read, flags: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        read_config(given({f"set__{name}": value for name, value in flags.items()}, ()), environment={})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("limits.step=3", "--set limits.step: no such setting (did you mean limits.steps?)"),
        ("limits.steps", "KEY=VALUE"),
        ("model.extra=3", "no such setting"),
        ("limits.steps=x", "--set limits.steps: should be a valid integer, not 'x'"),
    ],
)
def test_set_is_checked_like_the_rest(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        read_config(given({}, (text,)), environment={})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "text", ["a = 1\n" * 3, "[" * 10_000, "a=" + "[" * 5000, "\ufeff[limits]\nsteps=1", "\r\n", "a.b.c.d = 1"]
)
def test_no_file_is_a_traceback(read: Read, text: str) -> None:
    try:
        read(project=text)
    except InputError as error:
        assert "agentctl.toml" in str(error)


@pytest.mark.parametrize("make", [lambda place: place.mkdir(), os.mkfifo, lambda place: place.write_bytes(b"\xff")])
def test_what_is_no_text_file_is_told(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "agentctl.toml")
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}/agentctl.toml")):
        read_config(environment={"HOME": str(tmp_path)}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('[model]\nname = "openai/gpt-5"\napi_base = "http://192.0.2.2:9/v1"', "model.api_base"),
        ('[sandbox]\nkind = "local"', "sandbox.kind"),
    ],
)
def test_a_projects_file_may_not_say_where_keys_go_or_do_without_a_sandbox(read: Read, text: str, field: str) -> None:
    with pytest.raises(InputError, match=field):
        read(project=text)
    value = text.rpartition("= ")[2].strip('"')
    assert read(project=text, flags={field: value}).origin(tuple(field.split("."))).place == "flag"
    assert read(project="scaffold = 'plain'", user=text).origin(tuple(field.split("."))).place == "file"


def test_a_projects_file_may_name_a_server_of_this_machine(read: Read) -> None:
    text = '[model]\nname = "m"\napi_base = "http://localhost:8000/v1"'
    assert read(project=text).settings.model.api_base == "http://localhost:8000/v1"
