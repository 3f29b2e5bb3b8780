"""From a model's description to the adapter that reaches it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from agentctl.agents.plugins import code_at, names_code, object_at, packaged, packaged_object
from agentctl.base.errors import InputError, SetupError
from agentctl.base.paths import resolve

from .capabilities import check_asked
from .direct import DirectClient
from .endpoint import checked_url
from .human import HumanClient, Person
from .keys import KEYS, find_key
from .litellm_client import LitellmClient, check_parameters
from .near import is_near
from .protocol import Kind, ModelClient, ModelSpec
from .replay import ReplayClient
from .script import ScriptClient

LOCAL_ROUTES = ("ollama/", "ollama_chat/", "hosted_vllm/", "vllm/", "lm_studio/", "llamafile/")
"""Routes of litellm that lead to a server of one's own."""

_NAMES = (
    (re.compile(r"(chatgpt|gpt-(?!oss)|o\d)"), "openai"),
    (re.compile(r"claude"), "anthropic"),
)  # names that litellm knows without a route


def make_client(spec: ModelSpec, environment: Mapping[str, str], person: Person | None = None) -> ModelClient:
    """The adapter for `spec`. Keys are taken from `environment`, which is not changed; nothing is sent.

    `person` is who plays the model named `human`; InputError where there is nobody.

    With `api_base` the direct client is taken, else litellm, unless `spec.client` says otherwise. InputError for a
    name, file, address or parameter that can't be used; SetupError, naming the variable, where a key is missing. An
    endpoint on this machine or in a private network needs no key.
    """
    if spec.name == "human":
        if person is None:
            raise InputError("nobody is there to play the model", field="model", remedy="use agentctl in a terminal")
        return HumanClient(person)
    scheme, _, path = spec.name.partition(":")
    if scheme == "script":
        return ScriptClient.from_file(_path(path, spec))
    if scheme == "replay":
        return _replay(_path(path, spec))
    if scheme == "python":
        return _by_code(path, spec, environment)
    check_asked(spec)
    if spec.api_base is not None:
        checked_url(spec.api_base)
    if spec.direct:
        if spec.api_base is None:
            raise InputError(
                "the direct client needs an address", field="api_base", remedy="as https://api.openai.com/v1"
            )
        variable, key = find_key(_route(spec) if "/" in spec.name else "openai", environment)
        if key is None and not is_near(spec.api_base):
            raise _missing(variable, spec)
        return DirectClient(spec.api_base, key=key, variable=variable, environment=environment)
    route = _route(spec)
    if route not in KEYS and (entry := packaged("models").get(route)):
        return made_by(packaged_object(entry), entry.value, spec, environment)
    check_parameters(spec)
    if route not in KEYS:
        return LitellmClient()
    variable, key = find_key(route, environment)
    if key is None:
        if spec.api_base is None or not is_near(spec.api_base):
            raise _missing(variable, spec)
        key = "none"  # some of litellm's routes won't send without one
    return LitellmClient(key=key)


def _replay(record: Path) -> ReplayClient:
    # Only a replay needs the reader of records, which brings all the tools with it.
    from agentctl.agents.reading import RecordReader
    from agentctl.agents.recorded import recorded_replies

    return ReplayClient(recorded_replies(RecordReader(record)), source=str(record))


def _by_code(name: str, spec: ModelSpec, environment: Mapping[str, str]) -> ModelClient:
    if not names_code(name):
        raise InputError("no function named", field="model", remedy="as python:FILE.py:NAME")
    code = code_at(name, Path(), field="model")
    return made_by(object_at(code, name.rpartition(":")[2]), code.source, spec, environment)


def made_by(make: Any, source: str, spec: ModelSpec, environment: Mapping[str, str]) -> ModelClient:
    """The adapter that somebody's function `make` makes. InputError where it makes none."""
    try:
        client: Any = make(spec, environment)
    except Exception as error:
        raise InputError(f"makes no model: {type(error).__name__}: {error}", file=source) from None
    if getattr(client, "kind", None) not in get_args(Kind) or not callable(getattr(client, "send", None)):
        raise InputError(
            f"makes no model: its kind is to be one of {', '.join(get_args(Kind))}, and it is to have send and close",
            file=source,
        )
    checked: ModelClient = client
    return checked


def _path(path: str, spec: ModelSpec) -> Path:
    if not path.strip():
        raise InputError("no path after the colon", field="model", remedy=f"as {spec.name}PATH")
    return resolve(path).expanduser()


def _route(spec: ModelSpec) -> str:
    """litellm's name of the provider."""
    route, slash, rest = spec.name.partition("/")
    if slash and route and rest:
        return route
    for names, known in _NAMES:
        if names.match(spec.name):
            return known
    raise InputError(
        f"{spec.name!r} does not say whose model it is", field="model", remedy="write provider/model, as openai/gpt-5"
    )


def _missing(variable: str, spec: ModelSpec) -> SetupError:
    return SetupError(
        f"no key for {spec.name}: {variable} is not set",
        remedy=f"type: export {variable}=...  An endpoint that wants no key takes any word",
    )
