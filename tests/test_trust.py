"""Records, scaffolds and values of the environment may be anybody's: what they can't make the harness do."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from agentctl.agents.manifest import AttemptResult
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.scaffold import load_scaffold
from agentctl.agents.secrets import Secrets
from agentctl.agents.spec import AttemptSpec
from agentctl.base.errors import InputError
from agentctl.base.messages import ImageRef
from agentctl.benchmarks.corebench.locate import locate
from agentctl.benchmarks.trust import refuse_addresses, refuse_kind
from agentctl.prompts.compose import read_part
from agentctl.tools.sandbox.protocol import SandboxSpec


def spec(api_base: str | None = None, kind: str = "bubblewrap") -> AttemptSpec:
    return AttemptSpec(
        task=locate("capsule-4810297", "easy").ref,
        scaffold=load_scaffold("plain"),
        model=ModelSpec(name="openai/x", api_base=api_base),
        sandbox=SandboxSpec.model_validate({"kind": kind}),
        record=Path("r"),
    )


@pytest.mark.parametrize("digest", ["../../secret", "a" * 63, "A" * 64, "a" * 64 + "\n", "/etc/passwd"])
def test_an_image_is_named_by_its_digest_alone(digest: str) -> None:
    with pytest.raises(ValidationError):
        ImageRef(digest=digest, media_type="image/png", width=1, height=1)


@pytest.mark.parametrize("name", ["../secret.json", "/etc/passwd", "a/b", "..", ".hidden", ""])
def test_a_deliverable_is_a_plain_name(name: str) -> None:
    with pytest.raises(ValidationError):
        AttemptResult.model_validate({"deliverable": name})
    errors = _errors_of({"deliverable": name})
    assert ("deliverable",) in errors
    assert ("deliverable",) not in _errors_of({"deliverable": "report.json"})


def _errors_of(given: dict[str, object]) -> set[tuple[str | int, ...]]:
    try:
        AttemptResult.model_validate(given)
    except ValidationError as error:
        return {item["loc"] for item in error.errors()}
    return set()


def test_a_key_goes_only_where_its_owner_says() -> None:
    record = Path("r")
    refuse_addresses(record, spec(), {"main": None})
    refuse_addresses(record, spec("http://127.0.0.1:8000/v1"), {"main": None})
    refuse_addresses(record, spec("https://models.example/v1"), {"main": "https://models.example/v1"})
    for named, said in (
        ("https://models.example/v1", None),
        ("https://models.example/v1", "https://other.example/v1"),
        ("http://127.0.0.1:8000/v1", "https://other.example/v1"),
        (None, "https://other.example/v1"),
    ):
        with pytest.raises(InputError, match="--api-base"):
            refuse_addresses(record, spec(named), {"main": said})
        helped = spec().model_copy(update={"helpers": {"vision": ModelSpec(name="openai/y", api_base=named)}})
        with pytest.raises(InputError, match=r"--set vision\.api_base"):
            refuse_addresses(record, helped, {"main": None, "vision": said})


def test_a_record_leaves_the_sandbox_only_where_its_reader_says() -> None:
    for kind, said in (("bubblewrap", None), ("bubblewrap", "bubblewrap"), ("local", "local")):
        refuse_kind(Path("r"), spec(kind=kind), said)
    for said in (None, "bubblewrap"):
        with pytest.raises(InputError, match="--sandbox local"):
            refuse_kind(Path("r"), spec(kind="local"), said)
    with pytest.raises(InputError, match="--sandbox: its commands ran in the sandbox bubblewrap"):
        refuse_kind(Path("r"), spec(), "local")


def test_words_of_ours_survive_an_environment_that_holds_them() -> None:
    secrets = Secrets({"SESSION_TOKEN": "finished", "GIT_AUTHOR_NAME": "Jane Researcher", "X_KEY": "sk-12345678"})
    assert secrets.cut_line(b'{"end":"finished","k":"sk-12345678"}') == b'{"end":"finished","k":"[X_KEY cut]"}'
    assert secrets.cut("finished by Jane Researcher") == "[SESSION_TOKEN cut] by Jane Researcher"


@pytest.mark.parametrize("name", ["/etc/hostname", "../agents/loop.py", "system/../../pyproject.toml"])
def test_a_prompt_part_lies_below_prompts(name: str) -> None:
    with pytest.raises(InputError):
        read_part(name)


def test_a_scaffold_brings_its_own_system_text(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("You are terse.\n")
    (tmp_path / "mine.yaml").write_text("name: mine\nsystem: mine.md\ntools: [bash, finish]\n")
    mine = load_scaffold(str(tmp_path / "mine.yaml"))
    assert (mine.system.name, mine.system.text) == ("mine.md", "You are terse.")
    (tmp_path / "mine.md").write_text("You are verbose.\n")
    assert load_scaffold(str(tmp_path / "mine.yaml")).digest != mine.digest


def test_a_scaffold_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"name: \xff\xfe\n")
    with pytest.raises(InputError, match=r"mine\.yaml: can't be read as UTF-8"):
        load_scaffold(str(tmp_path / "mine.yaml"))
