"""Records, scaffolds and values of the environment may be anybody's: what they can't make the harness do."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from agentctl.agents.manifest import AttemptResult
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.scaffold import Scaffold, load_scaffold
from agentctl.agents.secrets import Secrets
from agentctl.agents.spec import AttemptSpec
from agentctl.base.errors import InputError
from agentctl.base.messages import ImageRef
from agentctl.benchmarks.config import Given, find_setting, read_config
from agentctl.benchmarks.corebench.locate import locate
from agentctl.benchmarks.solving import chosen_scaffold
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


# A project's file, which comes with whatever is cloned

EVIL = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
OWN = "name: own\nsystem: plain\ntools: [bash, {}, finish]\n"
HINT = "---\nkind: best-practice\nwhat: a hint\n---\nIt is {}.\n"


def chosen(project: str, flags: dict[str, object] | None = None) -> Scaffold:
    Path("agentctl.toml").write_text(project)
    given = Given("flag")
    for name, value in (flags or {}).items():
        given.put(find_setting(name), value, f"--{name}")
    return chosen_scaffold(read_config(given, environment={"HOME": str(Path.cwd())}))


@pytest.fixture
def cloned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cloned"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "secret.md").write_text(HINT.format("secret"))
    (folder / "evil.py").write_text(EVIL)
    (folder / "own.yaml").write_text(OWN.format("'evil.py:T'"))
    return folder


@pytest.mark.parametrize(
    ("project", "told"),
    [
        ('scaffold = "own.yaml"', "agentctl.toml:1: scaffold: a project's file may not name code"),
        ('scaffold = "plain"\nwith = ["evil.py:T"]', "agentctl.toml:2: with: a project's file may not name code"),
        ('with = ["pdf-tools", "./evil.py:T"]', "agentctl.toml:1: with: a project's file may not name code"),
    ],
)
def test_code_of_a_project_is_refused_before_it_runs(cloned: Path, project: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        chosen(project)
    assert str(refused.value).startswith(told)
    assert not (cloned / "ran").exists()


def test_code_that_its_user_names_runs_beside_a_projects_file(cloned: Path) -> None:
    for project, flags in (
        ('scaffold = "plain"', {"with": ["evil.py:T"]}),
        ('with = ["pdf-tools"]', {"scaffold": "own.yaml", "with": []}),
        ('without = ["bash"]', {"scaffold": "own.yaml"}),
    ):
        with pytest.raises(InputError, match="it defines no 'T'"):  # so it was run
            chosen(project, flags)
        assert (cloned / "ran").exists()
        (cloned / "ran").unlink()
        (cloned / "evil.py").write_text(f"{(cloned / 'evil.py').read_text()}\n")  # other code: it is loaded anew


@pytest.mark.parametrize("section", ["model", "fast", "vision"])
def test_a_projects_file_names_no_model_that_is_code(cloned: Path, section: str) -> None:
    with pytest.raises(InputError, match=rf"agentctl\.toml:2: {section}\.name: .*say it by a flag"):
        chosen(f'[{section}]\nname = "python:evil.py:make"')
    chosen('scaffold = "plain"', {f"{section}.name": "python:evil.py:make"})


def test_a_project_puts_no_file_of_elsewhere_into_a_prompt(cloned: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    (cloned / "link.md").symlink_to(secret)
    (cloned / "mine.md").write_text(HINT.format("mine"))
    for name in (str(secret), "../secret.md", "link.md"):
        for project in (
            f'with = ["{name}"]',
            *(f'[factors]\n{text} = "{name}"' for text in ("system", "role", "task")),
        ):
            with pytest.raises(InputError, match="may not name a file outside its folder"):
                chosen(project)
        for field in ("role: X", "system: X", "task: X", "hints: [X]"):
            (cloned / "own.yaml").write_text(f"name: own\nsystem: plain\ntools: [finish]\n{field}\n".replace("X", name))
            with pytest.raises(InputError, match=r"own\.yaml: \w+(\.0)?: .* lies outside the scaffold's folder"):
                load_scaffold("own.yaml")
    assert chosen(f'with = ["{cloned}/mine.md"]\n[factors]\nrole = "mine.md"').hints[-1].text == "It is mine."
    role = chosen("with = ['mine.md']", {"factors.role": str(secret)}).role
    assert role is not None
    assert "secret" in role.text
    (cloned / "own.yaml").write_text("name: own\nsystem: plain\ntools: [finish]\nhints: [none.md]\n")
    with pytest.raises(InputError, match="no such hint file"):
        load_scaffold("own.yaml")
