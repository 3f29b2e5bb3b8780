"""Hints: files that say what they are, where they apply, and when they were followed."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentctl.agents.prompting import VARIABLES
from agentctl.base.errors import InputError
from agentctl.prompts.calls import CallMade, simple_commands
from agentctl.prompts.compose import TOLD_OF_PLACE, read_part
from agentctl.prompts.hints import Hint, all_hints, load_hint

LEVELS = ("easy", "medium", "hard")
TOOLS = {"shell": "bash", "vision": "query_vision_language_model", "python_file": "execute_python_file"}
VISION = TOOLS["vision"]


def core(kind: str, level: str) -> list[str]:
    return [h.id for h in all_hints() if (h.group, h.kind) == ("core-agent", kind) and h.told_at(level)]


def bash(command: str) -> CallMade:
    return CallMade(name="bash", arguments={"command": command})


def looked(*images: str) -> CallMade:
    return CallMade(name=VISION, arguments={"prompt": "What is in a.png?", "input_image_paths": list(images)})


def followed(hint: str, *calls: CallMade) -> bool | None:
    return load_hint(hint).was_followed(calls, TOOLS)


def test_all_shipped_hints_are_whole_and_in_the_order_file() -> None:
    there = {entry.name for entry in files("agentctl.prompts").joinpath("hints").iterdir()}
    assert {f"{id}.md" for id in read_part("hints/order.txt").split()} | {"order.txt"} == there
    for hint in all_hints():
        assert hint.source
        assert hint.group in ("core-agent", "autogpt")
        assert hint.id.startswith("autogpt-") is (hint.group == "autogpt")
        assert set(hint.levels) <= set(LEVELS)
        assert set(hint.variables) <= {*VARIABLES, *TOLD_OF_PLACE}


def test_core_agent_has_the_advice_of_its_scripts_at_each_level_in_their_order() -> None:
    first = ["no-prompts", "nothing-impossible", "python-script", "vision-exploration"]
    last = ["report-keys", "bare-values"]
    assert core("constraint", "easy") == [*first, *last]
    assert core("constraint", "medium") == [*first, "no-environment-variables", *last]
    folders = ["open-folder-not-cd", "no-python-file"]
    assert core("constraint", "hard") == [*first, "no-environment-variables", *folders, *last]
    first = ["pdf-tools", "look-through-images", "guess", "check-tools"]
    assert core("best-practice", "easy") == [*first, "output-first", "html-to-image"]
    assert core("best-practice", "medium") == [*first, "manuscript-first", "html-to-image"]
    assert core("best-practice", "hard") == [*first, "manuscript-first", "html-to-image", "install-dependencies"]


def test_built_in_advice_stands_behind_that_of_the_scripts() -> None:
    for kind, count in (("constraint", 3), ("best-practice", 5)):
        groups = [hint.group for hint in all_hints() if hint.kind == kind]
        assert groups == ["core-agent"] * (len(groups) - count) + ["autogpt"] * count


@pytest.mark.parametrize(
    ("hint", "paths", "applies"),
    [
        ("pdf-tools", ["/capsule/data/Paper.PDF"], True),
        ("pdf-tools", ["/capsule/data/pdf.txt", "/capsule/pdf/a.csv"], False),
        ("pdf-tools", [], False),
        ("output-first", ["/capsule/results/output"], True),
        ("output-first", ["/capsule/output/a.txt"], False),
        ("manuscript-first", ["/capsule/manuscript.docx"], True),
        ("html-to-image", ["/capsule/code/run.ipynb"], True),
        ("guess", ["/capsule/a.pdf"], None),
    ],
)
def test_a_hint_says_whether_it_applies(hint: str, paths: list[str], applies: bool | None) -> None:
    assert load_hint(hint).applies_to(paths) is applies


@pytest.mark.parametrize(
    "command",
    [
        "pdftotext a.pdf -",
        "cd /data && /usr/bin/pdftoppm -png a.pdf out",
        'for f in *.pdf; do timeout 60 pdftotext "$f"; done',
        'find . -name "*.pdf" -exec pdftotext {} \\;',
        "ls *.pdf | xargs -n 1 pdftotext",
        'text="$(pdftotext a.pdf -)"; echo "$text"',
        "bash -lc 'sudo pdftotext a.pdf'",
        "if ! OMP_NUM_THREADS=1 pdftotext a.pdf; then echo no; fi",
        "cat > x.sh <<'END'\nit's a script\npdftotext a.pdf\nEND\nbash x.sh",
    ],
)
def test_a_program_that_is_run_is_seen(command: str) -> None:
    assert followed("pdf-tools", bash(command)) is True
    assert followed("pdf-tools", CallMade(name="execute_shell", arguments={"command_line": command})) is True


@pytest.mark.parametrize(
    "command",
    [
        "which pdftotext",
        "command -v pdftotext",
        "apt-get install -y pdftotext",
        "echo 'pdftotext; pdftoppm'",
        "# pdftotext a.pdf",
        "cat pdftotext.log",
        "pdftotextify a.pdf",
        "",
    ],
)
def test_a_program_that_is_only_mentioned_is_not(command: str) -> None:
    assert followed("pdf-tools", bash(command)) is False
    assert (
        followed("pdf-tools", CallMade(name="write_file", arguments={"path": "a.sh", "content": "pdftotext"})) is False
    )


def test_a_command_is_parted_where_the_shell_parts_it() -> None:
    assert simple_commands("a 1;b '2;3'&&c|d ${PWD}\ne") == ["a 1", "b '2;3'", "c", "d ${PWD}", "e"]


def test_five_images_must_differ() -> None:
    one = looked("r/a.png", "r/b.png")
    assert followed("vision-exploration") is None
    assert followed("vision-exploration", bash("ls *.png")) is None
    assert followed("vision-exploration", one, one, looked("r/c.png", "r/d.JPG")) is False
    assert followed("vision-exploration", one, looked("r/c.png", "r/d.JPG"), looked("r/e.tif")) is True
    assert followed("vision-exploration", looked("a.png"), bash("file b.png c.png d.png e.png f.png")) is False


def test_what_must_come_before_comes_before() -> None:
    seen, asked = bash("tree results"), looked("a.png")
    assert followed("look-through-images", seen) is None
    assert followed("look-through-images", seen, asked) is True
    assert followed("look-through-images", asked, seen) is False
    assert followed("look-through-images", CallMade(name="list_dir", arguments={"path": "/results"}), asked) is True


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (["pip install -r requirements.txt", "cd code && python main.py"], True),
        (["pip install numpy && python main.py"], True),
        (["python3 -m pip --quiet install numpy", "python3 main.py"], True),
        (["apt-get update -q && apt-get -y install r-cran-dplyr", "Rscript analysis.R"], True),
        (["Rscript -e 'install.packages(\"dplyr\")'", "Rscript analysis.R"], True),
        (["conda env create -f environment.yml", "conda run -n x python main.py"], True),
        (["python main.py", "pip install numpy", "python main.py"], False),
        (["python main.py && pip install numpy"], False),
        (["bash -c 'pip install numpy' && python main.py"], True),
        (["bash run.sh"], False),
        (["cat requirements.txt", "pip list", "python main.py"], False),
        (["pip install numpy", "python -c 'import numpy'"], None),
        (["ls"], None),
    ],
)
def test_dependencies_are_installed_before_code_is_run(commands: list[str], expected: bool | None) -> None:
    assert followed("install-dependencies", *map(bash, commands)) is expected


@pytest.mark.parametrize(
    ("hint", "command", "expected"),
    [
        ("no-prompts", "apt-get install -y poppler-utils", True),
        ("no-prompts", "sudo apt-get -qy install poppler-utils", True),
        ("no-prompts", "conda create --yes -n x", True),
        ("no-prompts", "apt-get update && apt-get install poppler-utils", False),
        ("no-prompts", "pip install numpy", None),
        ("no-environment-variables", "ls /workspace", True),
        ("no-environment-variables", "for f in a b; do echo $f; done", True),
        ("no-environment-variables", 'ls "${PWD}/a"', False),
        ("no-environment-variables", "PYTHONPATH=$PWD python a.py", False),
        ("no-environment-variables", "echo a\ncat $HOME/b", False),
        ("open-folder-not-cd", "ls; cd /code", False),
        ("open-folder-not-cd", "ls cd", True),
        ("no-python-file", "python3 a.py", True),
        ("no-python-file", "ls", None),
        ("html-to-image", "wkhtmltopdf a.html a.pdf", True),
        ("html-to-image", "google-chrome --headless --print-to-pdf a.html", True),
        ("html-to-image", "jupyter nbconvert --to html a.ipynb", False),
        ("html-to-image", "jupyter nbconvert --to=webpdf a.ipynb", True),
        ("autogpt-no-background", "nohup python a.py", False),
        ("output-first", "head -50 results/output", True),
        ("output-first", "ls /results/output/../x", False),
        ("guess", "ls", None),
    ],
)
def test_other_advice_is_seen_to_be_followed(hint: str, command: str, expected: bool | None) -> None:
    assert followed(hint, bash(command)) is expected


def test_a_tool_is_told_by_its_variable_whatever_its_name() -> None:
    ran = CallMade(name="run_script", arguments={"filename": "a.py"})
    hint = load_hint("no-python-file")
    assert hint.was_followed([ran], {"python_file": "run_script"}) is False
    assert hint.was_followed([ran, bash("python a.py")], {"python_file": "other"}) is True


OWN = "---\nkind: constraint\nwhat: short answers\nfollowed: {calls: [my_tool]}\n---\nKeep it short, for $5.\n"


def test_ones_own_hint_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "be-short.md"
    path.write_text(OWN.replace("\n", "\r\n"), newline="", encoding="utf-8-sig")
    hint = load_hint(str(path))
    assert (hint.id, hint.group, hint.levels, hint.text) == ("be-short", "own", (), "Keep it short, for $5.")
    assert all(hint.told_at(level) for level in LEVELS)
    assert hint.was_followed([CallMade(name="my_tool", arguments={})], {}) is True


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.md", "no head", "is no hint"),
        ("a.md", "---\nkind: constraint\nwhat: x\n---\n \n", "is no hint"),
        ("a.md", "---\nkind: constraint\nwhat: x\n", "is no hint"),
        ("a.md", "---\n{\n---\ntext", "not YAML"),
        ("a.md", "---\n- a\n---\ntext", "no table of fields"),
        ("a.md", OWN.replace("constraint", "advice"), "kind"),
        ("a.md", OWN.replace("what", "whatever"), "whatever|what"),
        ("a.md", OWN.replace("kind", "id: b\nkind"), "id"),
        ("a.md", OWN.replace("calls: [my_tool]", "commands: '('"), r"followed\.commands: is no regular expression"),
        ("a.md", OWN.replace("calls: [my_tool]", "at_least: 2"), "followed: says of no call"),
        ("A b.md", OWN, "id"),
    ],
)
def test_a_file_that_is_no_hint_is_refused_by_name(name: str, text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=told) as caught:
        load_hint(str(tmp_path / name))
    assert caught.value.file == str(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_hint_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no hint is named 'pdf-tool'.*pdf-tools"):
        load_hint("pdf-tool")
    with pytest.raises(InputError, match="no such hint file"):
        load_hint(str(tmp_path / "none.md"))
    (tmp_path / "bytes.md").write_bytes(b"---\n\xff\n---\nx")
    with pytest.raises(InputError, match="can't be read"):
        load_hint(str(tmp_path / "bytes.md"))


def test_a_hint_is_a_value() -> None:
    hint = load_hint("pdf-tools")
    assert Hint.model_validate_json(hint.model_dump_json()) == hint
    with pytest.raises(ValidationError):
        hint.text = "other"  # type: ignore[misc]
