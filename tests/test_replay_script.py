"""Replies that are there already, from a record or a script, and which adapter a model's description leads to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from case_fields import fields_of
from loopback import Loopback, completion

from agentctl.agents.models.direct import DirectClient
from agentctl.agents.models.litellm_client import LitellmClient
from agentctl.agents.models.make import make_client
from agentctl.agents.models.protocol import (
    Fault,
    FinishReason,
    ModelClient,
    ModelSpec,
    ProviderError,
    RawReply,
    WireRequest,
)
from agentctl.agents.models.replay import ReplayClient
from agentctl.agents.models.script import ScriptClient
from agentctl.base.cancel import Cancel
from agentctl.base.errors import AgentctlError, Cancelled, InputError, SetupError
from agentctl.base.messages import Text


def ask(client: ModelClient, role: str = "main") -> RawReply:
    model = ModelSpec(name="any")
    return client.send(WireRequest(role, model, [], [], 10, b"{}", 1.0), Cancel())


def reply(text: str, **more: Any) -> RawReply:
    return RawReply(parts=(Text(text=text),), finish=FinishReason.STOP, **more)


def test_replies_come_by_role_and_order() -> None:
    first, second, seen = reply("one"), reply("two", usage={"prompt_tokens": 3}), reply("a cat")
    client = ReplayClient([("main", first), ("vision", seen), ("main", second)])
    assert [ask(client), ask(client), ask(client, "vision")] == [first, second, seen]
    assert client.kind == "replay"
    assert first.usage is None


def test_a_replay_ends_by_saying_which_reply_is_not_there() -> None:
    client = ReplayClient([("main", reply("one"))], source="runs/a")
    ask(client)
    for role, n in (("main", 2), ("judge", 1)):
        for _ in range(2):
            with pytest.raises(ProviderError, match=f"runs/a has no reply {n} of the {role} model") as caught:
                ask(client, role)
            assert (caught.value.fault, caught.value.lost) == (Fault.EXHAUSTED, False)


def test_the_end_of_a_script_is_no_failure_of_a_recording() -> None:
    client = ScriptClient.from_turns([{"text": "one"}], source="s.json")
    ask(client)
    with pytest.raises(ProviderError, match=r"s\.json has no reply 2 of the main model") as caught:
        ask(client)
    assert (caught.value.fault, caught.value.lost) == (Fault.OVER, False)


def test_a_stopped_replay_gives_nothing() -> None:
    cancel = Cancel()
    cancel.set("enough")
    client = ReplayClient([("main", reply("one"))])
    with pytest.raises(Cancelled):
        client.send(WireRequest("main", ModelSpec(name="any"), [], [], 10, b"{}", 1.0), cancel)
    assert ask(client).parts == (Text(text="one"),)


SHORT = [
    {
        "text": "I look.",
        "calls": [{"name": "bash", "arguments": {"command": "ls"}}, {"name": "bash", "arguments": "{bad"}],
    },
    {"text": "done", "usage": {"prompt_tokens": 5}},
]
YAML = """
main:
  - text: I look.
    calls:
      - {name: bash, arguments: {command: ls}}
      - {name: bash, arguments: "{bad"}
  - {text: done, usage: {prompt_tokens: 5}}
vision:
  - text: a cat
"""


@pytest.mark.parametrize(("name", "text"), [("s.json", json.dumps(SHORT)), ("s.yaml", YAML), ("s.yml", YAML)])
def test_a_script_in_short_form(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    client = ScriptClient.from_file(path)
    first, second = ask(client), ask(client)
    assert first.parts == (Text(text="I look."),)
    assert [call.arguments for call in first.calls] == ['{"command":"ls"}', "{bad"]
    assert (first.finish, second.finish) == (FinishReason.TOOL_CALLS, FinishReason.STOP)
    assert (first.usage, second.usage) == (None, {"prompt_tokens": 5})
    if name != "s.json":
        assert ask(client, "vision").parts == (Text(text="a cat"),)
    assert client.kind == "script"
    with pytest.raises(ProviderError, match=name):
        ask(client)


@pytest.mark.cases("tool_calls")
def test_turns_of_the_cases_are_scripts(case: dict[str, Any]) -> None:
    given, _ = fields_of(case)
    turns = given.get("turns") or [given["saved_history_contains"]]
    client = ScriptClient.from_turns(turns)
    for turn in turns:
        message, given = turn["message"], ask(client)
        assert len(given.calls) == len(message.get("tool_calls") or [])
        assert given.finish_raw == turn["finish_reason"]


@pytest.mark.parametrize(
    ("script", "field"),
    [
        ("text", "main"),
        ({"main": {"text": "a"}}, "main"),
        ({"narrator": []}, "narrator"),
        (["text"], "main[0]"),
        ([{"text": "a"}, {"txt": "b"}], "main[1].txt"),
        ([{"text": 5}], "main[0].text"),
        ([{"calls": [{"arguments": {}}]}], "main[0].calls.0.name"),
        ([{}], "main[0]"),
        ([{"text": "a", "message": {"content": "b"}}], "main[0]"),
        ({"vision": [{"text": "a"}, None]}, "vision[1]"),
    ],
)
def test_a_bad_script_is_told_by_file_and_field(tmp_path: Path, script: object, field: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(script))
    with pytest.raises(InputError) as caught:
        ScriptClient.from_file(path)
    assert (caught.value.file, caught.value.field) == (str(path), field)


@pytest.mark.parametrize(("name", "text"), [("s.json", "{"), ("s.yaml", "a: [b"), ("s.yaml", None), ("s.json", None)])
def test_a_script_that_cannot_be_read_is_told(tmp_path: Path, name: str, text: str | None) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as caught:
        ScriptClient.from_file(path)
    assert caught.value.file == str(path)


# Which adapter


NEAR = "http://127.0.0.1:8000/v1"
FAR = "https://models.example.com/v1"
KEYS = {"OPENAI_API_KEY": "sk-openai-1234", "ANTHROPIC_API_KEY": "sk-ant-12345678", "DEEPSEEK_API_KEY": "sk-deep-12345"}


@pytest.mark.parametrize(
    ("spec", "client"),
    [
        (ModelSpec(name="openai/gpt-5", api_base=FAR), DirectClient),
        (ModelSpec(name="any-name", api_base=NEAR), DirectClient),
        (ModelSpec(name="openai/gpt-5", api_base=FAR, client="litellm"), LitellmClient),
        (ModelSpec(name="openai/gpt-5"), LitellmClient),
        (ModelSpec(name="claude-sonnet-4-5"), LitellmClient),
        (ModelSpec(name="bedrock/some-model"), LitellmClient),
        (ModelSpec(name="ollama_chat/llama3:8b"), LitellmClient),
    ],
)
def test_the_description_leads_to_an_adapter(spec: ModelSpec, client: type) -> None:
    made = make_client(spec, KEYS)
    assert type(made) is client
    assert made.kind == "live"
    made.close()


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        (ModelSpec(name="openai/gpt-5"), "OPENAI_API_KEY"),
        (ModelSpec(name="gpt-5"), "OPENAI_API_KEY"),
        (ModelSpec(name="anthropic/claude-sonnet-4-5"), "ANTHROPIC_API_KEY"),
        (ModelSpec(name="gemini/gemini-3-pro"), "GEMINI_API_KEY"),
        (ModelSpec(name="openai/gpt-5", api_base=FAR), "OPENAI_API_KEY"),
        (ModelSpec(name="deepseek/deepseek-chat", api_base=FAR), "DEEPSEEK_API_KEY"),
        (ModelSpec(name="deepseek/deepseek-chat", api_base=FAR, client="litellm"), "DEEPSEEK_API_KEY"),
    ],
)
def test_a_missing_key_is_told_by_its_variable(spec: ModelSpec, variable: str) -> None:
    for environment in ({}, {variable: "  "}):
        with pytest.raises(SetupError, match=variable) as caught:
            make_client(spec, environment)
        assert caught.value.remedy and variable in caught.value.remedy


def test_a_key_goes_to_its_own_provider_alone() -> None:
    with Loopback([completion("hello")] * 3) as server:
        for name in ("deepseek/deepseek-chat", "openai/gpt-5", "my-model"):
            spec = ModelSpec(name=name, api_base=server.url)
            client = make_client(spec, KEYS)
            client.send(WireRequest("main", spec, [], [], 10, b"{}", 5.0), Cancel())
            client.close()
    sent = [received.headers["authorization"] for received in server.received]
    assert sent == ["Bearer sk-deep-12345", "Bearer sk-openai-1234", "Bearer sk-openai-1234"]


@pytest.mark.parametrize(
    "base", [NEAR, "http://localhost:1/v1", "http://[::1]:1/v1", "http://10.1.2.3/v1", "http://gpu-box:1/v1"]
)
def test_an_endpoint_close_by_needs_no_key(base: str) -> None:
    for client in ("direct", "litellm"):
        make_client(ModelSpec(name="openai/any", api_base=base, client=client), {}).close()


@pytest.mark.parametrize(
    "spec",
    [
        ModelSpec(name="gpt5-or-so", client="direct"),
        ModelSpec(name="some-model"),
        ModelSpec(name="/"),
        ModelSpec(name=""),
        ModelSpec(name="openai/"),
        ModelSpec(name="script:"),
        ModelSpec(name="replay:"),
        ModelSpec(name="script:/no/such/file.json"),
        ModelSpec(name="replay:/no/such/record"),
        ModelSpec(name="openai/gpt-5", api_base="models.example.com"),
    ],
)
def test_a_description_that_leads_nowhere_is_refused_with_a_reason(spec: ModelSpec) -> None:
    with pytest.raises(AgentctlError) as caught:
        make_client(spec, KEYS)
    assert caught.value.exit_status == 2
    assert "sk-" not in str(caught.value)


def test_a_script_is_made_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SHORT))
    client = make_client(ModelSpec(name=f"script:{path}"), {})
    assert ask(client).parts == (Text(text="I look."),)
