"""Models by role: which one is asked, with which parameters, what is refused before the start, and where it is said."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attempts import CAPSULE, agentctl
from chosen import ALL, NEAR, opened
from chosen import spec as of_model
from loopback import completion
from sends import WAYS, a_request, provider

from agentctl.agents.account import Account
from agentctl.agents.asking import Asking
from agentctl.agents.clients import Clients
from agentctl.agents.manifest import attempt_key
from agentctl.agents.models.body import request_body
from agentctl.agents.models.gateway import Gateway
from agentctl.agents.models.protocol import Fault, ModelSpec, ProviderError
from agentctl.agents.models.route import Route
from agentctl.agents.models.wire import encode
from agentctl.agents.pricing import Free
from agentctl.agents.purse import Purse
from agentctl.agents.reading import RecordReader
from agentctl.agents.record import Record
from agentctl.agents.recorded import recorded_replies
from agentctl.agents.scaffold import RoleParameters, Scaffold, load_scaffold
from agentctl.agents.secrets import Secrets
from agentctl.agents.spec import AttemptSpec, Prices
from agentctl.agents.transcript import Transcript
from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError, SetupError
from agentctl.base.messages import ImageRef, Message, Role, Text
from agentctl.benchmarks.config import Config
from agentctl.benchmarks.helpers import helper_models
from agentctl.benchmarks.solving import attempt_spec
from agentctl.tools.sandbox.protocol import Fingerprint

pytest_plugins = ("config_fixtures",)

Read = Callable[..., Config]
ROLES = {"fast": RoleParameters(temperature=0.5, output_limit=500), "vision": RoleParameters(temperature=0.0)}


def scaffold(*more: str, roles: dict[str, RoleParameters] | None = None) -> Scaffold:
    plain = load_scaffold("plain")
    return plain.model_copy(update={"tools": (*plain.tools, *more), "roles": roles or {}})


def attempt(
    name: str, *tools: str, roles: dict[str, RoleParameters] | None = None, **helpers: ModelSpec
) -> AttemptSpec:
    return of_model(name).model_copy(update={"scaffold": scaffold(*tools, roles=roles), "helpers": helpers})


# Which model


def test_a_role_without_a_model_is_the_main_models() -> None:
    made = attempt("openai/gpt-4o", fast=ModelSpec(name="openai/gpt-4o-mini"))
    assert made.model_of("vision") == made.model_of("judge") == made.model_of("summary") == made.model
    assert made.model_of("fast").name == "openai/gpt-4o-mini"
    assert made.other_names() == {"fast": "openai/gpt-4o-mini"}


def test_a_scaffold_says_what_its_roles_want_and_no_more() -> None:
    made = attempt("openai/gpt-4o", roles=ROLES)
    fast, vision = made.model_of("fast"), made.model_of("vision")
    assert (fast.name, fast.temperature, fast.output_limit) == ("openai/gpt-4o", 0.5, 500)
    assert (vision.temperature, vision.output_limit) == (0.0, made.model.output_limit)
    assert made.other_names() == {} and made.other_models().keys() == {"fast", "vision"}


@pytest.mark.parametrize("name", ["openai/gpt-5", "openai/o3", "azure/gpt-5-mini"])
def test_a_model_that_takes_no_temperature_is_given_none(name: str) -> None:
    fast = attempt(name, roles=ROLES).model_of("fast")
    assert (fast.temperature, fast.output_limit) == (None, 500)


def test_a_short_reply_leaves_room_for_thought() -> None:
    made = attempt("anthropic/claude-sonnet-4-5", roles=ROLES)
    thinking = made.model_copy(update={"model": made.model.model_copy(update={"thinking_budget": 4_000})})
    fast = thinking.model_of("fast")
    assert (fast.temperature, fast.output_limit) == (None, 4_500)
    route = Route(fast, a_client(), Free(name="m"))
    assert route.output_limit(300) == 4_300
    assert replace(route, spec=ModelSpec(name="m"), reasoning=True).output_limit(300) > 8_000
    assert replace(route, spec=ModelSpec(name="m")).output_limit(300) == 300


def a_client() -> Any:
    return None  # never asked


# Settings


def helpers(config: Config, roles: dict[str, RoleParameters] | None = None) -> dict[Any, ModelSpec]:
    main = ModelSpec.model_validate(config.settings.model.model_dump())
    return helper_models(config, main, scaffold(roles=roles))


def test_helpers_are_set_as_the_main_model_is(read: Read) -> None:
    config = read(
        project='[model]\nname = "openai/x"\ntemperature = 0.9\n[vision]\nname = "openai/y"\neffort = "low"',
        flags={"fast.temperature": "0.2", "vision.extra.top_k": "5"},
        AGENTCTL_VISION_OUTPUT_LIMIT="700",
        AGENTCTL_FAST_SEED="3",
    )
    found = helpers(config)
    vision, fast = found["vision"], found["fast"]
    assert (vision.name, vision.effort, vision.output_limit, vision.temperature) == ("openai/y", "low", 700, None)
    assert vision.extra == {"top_k": 5}
    assert (fast.name, fast.temperature, fast.seed) == ("openai/x", 0.2, 3)  # main's, but for what is said
    assert helpers(read(project='[model]\nname = "openai/x"')) == {}


def test_what_nobody_said_is_as_the_scaffold_wants_it(read: Read) -> None:
    named = read(flags={"fast.name": "openai/y", "model.name": "openai/x"}, AGENTCTL_FAST_OUTPUT_LIMIT="900")
    fast = helpers(named, ROLES)["fast"]
    assert (fast.temperature, fast.output_limit) == (0.5, 900)
    config = read(project='[model]\nname = "openai/x"\n[fast]\nname = "openai/y"\ntemperature = 1.0')
    fast = helpers(config, ROLES)["fast"]
    assert (fast.temperature, fast.output_limit) == (1.0, 500)


def test_an_attempt_takes_them_and_a_recording_only_by_a_flag(read: Read) -> None:
    text = '[fast]\nname = "openai/y"\n[vision]\ntemperature = 0.1'
    assert attempt_spec(read(project=text), CAPSULE, "hard", environment={}).helpers == {}
    flagged = read(project=text, flags={"vision.name": "openai/z"})
    made = attempt_spec(flagged, CAPSULE, "hard", environment={})
    assert made.model.told and made.other_names() == {"vision": "openai/z"}
    asked = read(project=text, AGENTCTL_MODEL="openai/x", AGENTCTL_SCAFFOLD="plain")
    live = attempt_spec(asked, CAPSULE, "hard", environment={})
    assert live.model_of("vision") == live.model.model_copy(update={"temperature": 0.1})
    assert live.model_of("fast") == ModelSpec(name="openai/y")
    assert AttemptSpec.model_validate_json(live.model_dump_json()) == live


def test_a_project_sends_no_helpers_key_away(read: Read) -> None:
    with pytest.raises(InputError, match=r"vision\.api_base"):
        read(project='[vision]\nname = "openai/y"\napi_base = "https://models.example/v1"')
    read(project='[vision]\nname = "m"\napi_base = "http://localhost:8000/v1"')
    read(user='[vision]\nname = "m"\napi_base = "https://models.example/v1"')


def test_doctor_shows_what_is_said_of_helpers(tmp_path: Path) -> None:
    (tmp_path / "agentctl.toml").write_text('[vision]\nname = "openai/y"\n')
    done = agentctl("doctor", "--config", "--json", "--fast-model", "z", "--set", "fast.seed=4", cwd=tmp_path)
    told = {each["name"]: (each["value"], each["where"]) for each in json.loads(done.stdout)["settings"]}
    assert told["vision.name"] == ("openai/y", "agentctl.toml:2")
    assert (told["fast.name"], told["fast.seed"]) == (("z", "--fast-model"), (4, "--set fast.seed"))
    assert "vision.seed" not in told and "model.seed" in told


def test_a_resumed_attempt_takes_addresses_alone(tmp_path: Path) -> None:
    done = agentctl("solve", "--resume", tmp_path, "--set", "vision.seed=3")
    assert done.returncode == 2
    assert "--set vision.seed: the attempt goes on with what it began with" in done.stderr
    done = agentctl("solve", "--resume", tmp_path, "--set", f"vision.api_base={NEAR}")
    assert "no record" in done.stderr


# Refused before the start


def account(made: AttemptSpec) -> Account:
    return opened(made, ALL)


@pytest.mark.parametrize("name", ["openai/gpt-3.5-turbo", "openai/o3-mini", "deepseek/deepseek-chat"])
def test_a_model_without_vision_is_refused_where_images_are_asked_about(name: str) -> None:
    account(attempt(name))
    with pytest.raises(InputError) as caught:
        account(attempt(name, "vision"))
    assert caught.value.field == "model.images"
    for remedy in ("--vision-model", "--set model.images=true", "--without vision"):
        assert remedy in str(caught.value)
    account(attempt(name, "vision", vision=ModelSpec(name="openai/gpt-4o")))
    account(attempt(name, "vision", vision=ModelSpec(name=name, images=True)))


def test_what_is_said_of_a_model_counts_before_the_table() -> None:
    blind = ModelSpec(name="openai/gpt-4o", images=False)
    with pytest.raises(InputError, match=r"vision\.images: openai/gpt-4o takes no images, as was said"):
        account(attempt("openai/gpt-4o", "vision", vision=blind))
    own = ModelSpec(name="my-eyes", api_base=NEAR)
    made = attempt("openai/gpt-4o", "vision", vision=own)
    account(made.model_copy(update={"prices": Prices(lines=("my-eyes=free",))}))  # nobody knows: it may


def test_a_helper_needs_a_price_and_a_key_too() -> None:
    with pytest.raises(SetupError, match=r"fast: no price is known for openai/no-such.*--price"):
        account(attempt("openai/gpt-4o", fast=ModelSpec(name="openai/no-such")))
    with pytest.raises(SetupError, match="GROQ_API_KEY"):
        account(attempt("openai/gpt-4o", fast=ModelSpec(name="groq/llama-3.1-8b-instant")))
    with pytest.raises(InputError, match=r"vision\.extra\.max_tokens: has a setting of its own \(use vision\.output"):
        account(attempt("openai/gpt-4o", vision=ModelSpec(name="openai/gpt-4o", extra={"max_tokens": 5})))
    with pytest.raises(SetupError, match=r"^model: no price"):
        account(attempt("openai/no-such"))


def test_a_helpers_model_is_another_attempt() -> None:
    place = Fingerprint(kind="local", system="", apt=False, network="open", memory_mb=1, processes=1, cpus=1)
    plain, mini = attempt("openai/gpt-4o"), attempt("openai/gpt-4o", fast=ModelSpec(name="openai/gpt-4o-mini"))
    key, other = (attempt_key(each, prompt_digest="", fingerprint=place) for each in (plain, mini))
    assert key != other
    same = attempt("openai/gpt-4o", fast=ModelSpec(name="openai/gpt-4o"))
    assert attempt_key(same, prompt_digest="", fingerprint=place) == key


def test_roles_told_by_one_file_share_it(tmp_path: Path) -> None:
    script = tmp_path / "s.json"
    script.write_text(json.dumps({"main": [{"text": "a"}], "fast": [{"text": "b"}], "vision": [{"text": "c"}]}))
    name = f"script:{script}"
    with Clients.opened(attempt(name, roles=ROLES), {}) as clients:
        assert clients.of("main") is clients.of("fast") is clients.of("vision") is clients.of("judge")
    with Clients.opened(attempt(name, vision=ModelSpec(name="openai/gpt-4o")), ALL) as clients:
        assert clients.of("vision").kind == "live" and clients.kind == clients.of("fast").kind == "script"


# What a helper says


class Declining:
    """A provider that will not look."""

    kind = "live"

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def send(self, request: Any, cancel: Cancel) -> Any:
        raise ProviderError(self._fault, "not this picture")

    def close(self) -> None:
        pass


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.CONTEXT])
def test_a_question_that_is_declined_is_answered_so_and_plays_again_so(tmp_path: Path, fault: Fault) -> None:
    record = Record(tmp_path / "r", b"{}", Secrets({}), now=lambda: 0.0)
    route = Route(ModelSpec(name="m"), Declining(fault), Free(name="m"))  # type: ignore[arg-type]
    gateway = Gateway({"main": route}, Purse(None), record, Cancel())
    answer = Asking(gateway, Transcript(record, Secrets({}))).ask_helper("vision", [Text(text="see?")])
    record.close()
    assert answer == "(no answer: not this picture)"
    ((role, reply),) = recorded_replies(RecordReader(tmp_path / "r"))
    assert (role, reply.refusal, reply.parts) == ("vision", "not this picture", ())


# Images on their way


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_the_bytes_of_images_arrive(way: tuple[str, str]) -> None:
    images = {"image/png": b"\x89PNG 1", "image/jpeg": b"\xff\xd8\xff 2"}
    refs = [ImageRef(digest="0" * 64, media_type=kind, width=9, height=9) for kind in images]
    asked = Message(role=Role.USER, parts=(Text(text="Which?"), *refs))
    encoded = encode(asked, 1, images=lambda ref: images[ref.media_type])
    with provider(way, [completion("The first.")]) as (server, client, base):
        plain = a_request(way[1], base, stream=False)
        body = request_body(plain.model, [encoded], (), plain.output_limit)
        request = replace(plain, messages=[encoded], tools=(), body=body)
        try:
            client.send(request, Cancel())
        except ProviderError as error:
            assert way[1].startswith("anthropic"), error  # the answer is in the other form
        (received,) = server.received
    content = received.tree["messages"][0]["content"]
    assert content[0]["text"] == "Which?"
    for part, (kind, data) in zip(content[1:], images.items(), strict=True):
        coded = base64.b64encode(data).decode()
        if way[1].startswith("anthropic"):
            assert part["source"] == {"type": "base64", "media_type": kind, "data": coded}
        else:
            assert part["image_url"]["url"] == f"data:{kind};base64,{coded}"
