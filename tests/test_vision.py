"""A question about images, from the agent's call to the bytes at the provider, the record, and back."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from attempts import CAPSULE, FINISH, Provider, agentctl, bash, report, spec
from loopback import Answer, Received, completion
from PIL import Image
from vision_place import Sight, open_sight, said

from agentctl.agents.events import GivenAgain, Replied
from agentctl.agents.manifest import read_manifest, read_result
from agentctl.agents.models.bound import IMAGE_TOKENS
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.reading import RecordReader
from agentctl.agents.spec import AttemptSpec, Prices
from agentctl.base.errors import Cancelled
from agentctl.base.messages import ImageRef, Status
from agentctl.benchmarks.replay import play_again
from agentctl.benchmarks.resume import resumed
from agentctl.benchmarks.runner import Outcome, run
from agentctl.benchmarks.spend import spend_of
from agentctl.cli.outcome import as_text

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")


def picture(colour: str = "red", size: tuple[int, int] = (40, 30), form: str = "PNG") -> bytes:
    out = BytesIO()
    Image.new("RGB", size, colour).save(out, form)
    return out.getvalue()


@pytest.fixture(params=["local", pytest.param("bubblewrap", marks=needs_bwrap)])
def sight(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sight]:
    with open_sight(tmp_path, request.param) as found:
        yield found


# The tool


def test_a_question_is_its_prompt_and_then_its_images_in_their_order(sight: Sight) -> None:
    (sight.folder / "figs").mkdir()
    (sight.folder / "figs" / "a.png").write_bytes(picture("red"))
    (sight.folder / "b.gif").write_bytes(picture("blue", (20, 10), "GIF"))
    result = sight.query("figs/a.png", "b.gif", prompt="Which is larger?")
    assert (result.status, result.text()) == (Status.OK, "A picture.")
    ((role, parts),) = sight.asked
    assert (role, said(parts)) == ("vision", ["Which is larger?", "image", "image"])
    assert [sight.picture(n).size for n in (0, 1)] == [(40, 30), (20, 10)]


def test_with_one_that_can_not_be_shown_nothing_is_sent(sight: Sight) -> None:
    (sight.folder / "good.png").write_bytes(picture())
    (sight.folder / "notes.txt").write_text("no image")
    (sight.folder / "folder").mkdir()
    os.mkfifo(sight.folder / "pipe.png")
    (sight.folder / "out.png").symlink_to("/etc/hostname")
    with (sight.folder / "giant.png").open("wb") as giant:
        giant.truncate(41_000_000)
    wrong = ["notes.txt", "folder", "pipe.png", "out.png", "giant.png", "god.png", "../../../etc/passwd"]
    result = sight.query("good.png", *wrong)
    assert result.status is Status.ERROR
    assert not sight.asked and not sight.kept
    first, *lines = result.text().splitlines()
    assert first == "Nothing was asked."
    assert len(lines) == len(wrong)
    for name, line in zip(wrong, lines, strict=True):
        assert name in line
    assert "Near it: good.png" in result.text()
    assert "41.0 MB" in result.text()


def test_it_stops_when_its_owner_wants_it(sight: Sight) -> None:
    (sight.folder / "good.png").write_bytes(picture())
    sight.cancel.set("enough")
    with pytest.raises(Cancelled):
        sight.query("good.png")


# An attempt with it


DATA = picture("red", (400, 300))
LOOK = ("query_vision_language_model", {"prompt": "Which colour?", "input_image_paths": ["/workspace/fig.png"]})
TURNS = [
    bash(f"echo {base64.b64encode(DATA).decode()} | base64 -d > /workspace/fig.png; ls -l fig.png | cut -c 1-10"),
    LOOK,
    LOOK,
    report(),
    FINISH,
]
PRICES = ("loop=10,30", "eye=1,2")


class TwoModels(Provider):
    """The agent's model, and one that sees, at the same address. `seen` are the requests that the latter got."""

    def __init__(self, *, per_image: int = 1_000) -> None:
        super().__init__(TURNS)
        self.seen: list[Received] = []
        self._per_image = per_image

    def _take(self, received: Received) -> Any:
        if received.tree["model"] != "eye":
            return super()._take(received)
        self.seen.append(received)
        images = sum(part["type"] == "image_url" for part in received.tree["messages"][0]["content"])
        usage = {"prompt_tokens": 30 + images * self._per_image, "completion_tokens": 5}
        answer = completion(f"Red, I say for time {len(self.seen)}.", usage=usage)
        return Answer(body=answer.body)


def attempt(record: Path, url: str, *, cap: str = "4", limit: int = 2_000) -> AttemptSpec:
    plain = spec(record, url, cap=cap, output_limit=1_500)
    scaffold = plain.scaffold.model_copy(update={"tools": (*plain.scaffold.tools, "vision")})
    eye = ModelSpec(name="eye", api_base=url, output_limit=limit, temperature=0.25)
    return plain.model_copy(update={"scaffold": scaffold, "helpers": {"vision": eye}, "prices": Prices(lines=PRICES)})


def go(made: AttemptSpec) -> Outcome:
    return run(made, environment=os.environ)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, TwoModels]]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    with TwoModels() as provider:
        record = tmp_path_factory.mktemp("vision") / "r"
        go(attempt(record, provider.url))
        yield record, provider


Recorded = tuple[Path, TwoModels]


def test_the_image_arrives_and_the_answer_is_the_result(recorded: Recorded) -> None:
    record, provider = recorded
    sent = provider.seen[0].tree
    assert (sent["temperature"], sent["max_tokens"]) == (0.25, 2_000)
    ((text, image),) = (message["content"] for message in sent["messages"])
    assert text == {"type": "text", "text": "Which colour?"}
    head, _, data = image["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64"
    with Image.open(BytesIO(base64.b64decode(data))) as seen:
        assert (seen.size, seen.getpixel((9, 9))) == ((400, 300), (255, 0, 0))
    result = read_result(record)
    assert result is not None and (result.end, result.steps) == ("finished", 5)
    shown = [part for each in RecordReader(record).results.values() for part in each.parts]
    assert "Red, I say for time 1." in str(shown) and "Red, I say for time 2." in str(shown)


def test_the_record_holds_it_once_and_builds_every_request_again(recorded: Recorded) -> None:
    record, provider = recorded
    reader = RecordReader(record)
    images = [part for message in reader.messages.values() for part in message.parts if isinstance(part, ImageRef)]
    assert len(images) == 2 and len(set(images)) == 1
    assert [path.name for path in (record / "images").iterdir()] == [images[0].digest]
    bodies = {n: reader.rebuild(n) for n in reader.requests}
    assert all(each.same for each in bodies.values())
    vision = [each.body for each in bodies.values() if each.sent.role == "vision"]
    assert vision == [received.body for received in provider.seen]
    done = agentctl("show", record, "--request", 3)
    assert (done.returncode, json.loads(done.stdout)["model"]) == (0, "eye")


def test_its_price_and_its_model_are_written_down(recorded: Recorded) -> None:
    record, provider = recorded
    manifest = read_manifest(record)
    assert manifest.prices.helpers.keys() == {"vision"}
    assert manifest.prices.of("vision") != manifest.prices.of("main") == manifest.prices.of("fast")
    assert manifest.spec.other_names() == {"vision": "eye"}
    result = read_result(record)
    assert result is not None
    books = result.spend.books
    cost = 2 * (1_030 * Decimal("0.000001") + 5 * Decimal("0.000002"))
    assert books.by_role["vision"].cost.total == cost
    assert books.spent == provider.billed + cost
    spend = spend_of([record])
    by_model = spend.by(lambda line: (line.role, line.model), "live")
    assert by_model["vision", "eye"].spent == cost
    assert by_model["vision", "eye"].by_class["input"].spent == 2 * 1_030 * Decimal("0.000001")
    assert by_model["main", "loop"].spent == provider.billed


def test_it_plays_again_by_role(recorded: Recorded, tmp_path: Path) -> None:
    record, _ = recorded
    played = play_again(record, tmp_path / "again", environment={})
    assert played.differences == ()
    before, after = read_result(record), read_result(tmp_path / "again")
    assert before is not None and after is not None
    assert after.spend.books.spent == before.spend.books.spent
    assert after.spend.books.by_role.keys() == before.spend.books.by_role.keys()
    twice = play_again(tmp_path / "again", tmp_path / "twice", environment={})
    assert twice.differences == ()


def cut_before(record: Path, into: Path, mark: str, n: int) -> None:
    """A record as a kill leaves it just before the `n`th line that holds `mark`."""
    shutil.copytree(record, into)
    for name in ("result.json", "report.json"):
        (into / name).unlink(missing_ok=True)
    lines = (into / "events.jsonl").read_bytes().splitlines(keepends=True)
    place = [at for at, line in enumerate(lines) if mark in line.decode()][n - 1]
    (into / "events.jsonl").write_bytes(b"".join(lines[:place]))


@pytest.mark.parametrize(("mark", "n", "asked"), [('"t":"ran"', 2, 1), ('"t":"reply"', 3, 2), ('"t":"ran"', 3, 0)])
def test_a_resumed_attempt_asks_for_no_answer_again(
    recorded: Recorded, tmp_path: Path, mark: str, n: int, asked: int
) -> None:
    """Cut after the first answer, while it was waited for, and after both: `asked` are the questions then put."""
    record, provider = recorded
    cut_before(record, tmp_path / "a", mark, n)
    before = len(provider.seen)
    outcome = go(resumed(tmp_path / "a", tmp_path / "b"))
    assert outcome.result.end == "finished"
    assert len(provider.seen) - before == asked
    events = RecordReader(tmp_path / "b").events
    again = sum(isinstance(event, GivenAgain) for event in events)
    answered = sum(isinstance(event, Replied) and event.came.role == "vision" for event in events)
    assert (again, answered) == (2 - asked, asked)
    assert play_again(tmp_path / "b", tmp_path / "again", environment={}).differences == ()


def test_what_is_shown_names_it(recorded: Recorded) -> None:
    record, _ = recorded
    shown = agentctl("show", record)
    assert "loop · live · vision: eye" in shown.stdout.splitlines()[0]
    spent = agentctl("spend", record, "--by", "role")
    assert any(line.split()[0] == "vision" for line in spent.stdout.splitlines() if line.strip())
    result = read_result(record)
    assert result is not None
    assert ", $0.0021 of it vision" in as_text(Outcome(record, result, ()), width=100)


@needs_bwrap
def test_an_attempt_says_at_its_start_and_end_who_answers(tmp_path: Path) -> None:
    turns = [TURNS[0], LOOK, FINISH]
    (tmp_path / "main.json").write_text(json.dumps([{"calls": [{"name": n, "arguments": a}]} for n, a in turns]))
    (tmp_path / "eye.json").write_text(json.dumps({"vision": [{"text": "All red."}]}))
    (tmp_path / "s.yaml").write_text("name: s\nsystem: plain\ntools: [bash, vision, finish]\nchecks: []\n")
    models = ("--model", "script:main.json", "--vision-model", "script:eye.json")
    done = agentctl("solve", CAPSULE, "--scaffold", "s.yaml", *models, "--record", "r", "--json", cwd=tmp_path)
    assert "script:main.json · vision: script:eye.json · cap" in " ".join(done.stderr.split())
    assert json.loads(done.stdout)["models"] == {"main": "script:main.json", "vision": "script:eye.json"}
    assert "All red." in str(RecordReader(tmp_path / "r").results)


@needs_bwrap
def test_a_question_is_reserved_with_its_images_and_passes_no_cap(tmp_path: Path) -> None:
    """However dear a provider counts an image, the cap holds; where it might not, nothing is sent."""
    with TwoModels(per_image=IMAGE_TOKENS) as provider:
        whole = attempt(tmp_path / "a", provider.url)
        outcome = go(whole)
        reader = RecordReader(tmp_path / "a")
        for sent in (each for each in reader.requests.values() if each.role == "vision"):
            assert sent.input_bound >= IMAGE_TOKENS + 30
            assert sent.bound >= IMAGE_TOKENS * Decimal("0.000001") + sent.output_limit * Decimal("0.000002")
        assert not [note for note in reader.events if "overrun" in str(note)]
        spent = outcome.result.spend.books.spent
        main = provider.billed
        # Enough for two replies of the main model, and for the question's text, but not for its image.
        dear = whole.model_copy(
            update={
                "prices": Prices(lines=("loop=10,30", "eye=1000,2")),
                "record": tmp_path / "b",
            }
        )
        ended = go(dear).result
        assert ended.end == "cost"
        assert len(provider.seen) == 2  # those of the first attempt
        assert ended.spend.books.spent == provider.billed - main < spent
        assert "vision" not in ended.spend.books.by_role
