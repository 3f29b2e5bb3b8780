"""For tests: attempts with a chosen model that never start, and their accounts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentctl.agents.account import Account
from agentctl.agents.clients import Clients
from agentctl.agents.models.journal import EarlierBooks
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.scaffold import load_scaffold
from agentctl.agents.spec import AttemptSpec, Prices
from agentctl.agents.task import TaskRef
from agentctl.base.cancel import Cancel

KEYS = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "OPENAI_API_KEY": "sk-0123456789"}
ALL = KEYS | {"DEEPSEEK_API_KEY": "sk-ds-0123456789"}
NEAR = "http://127.0.0.1:8000/v1"


def spec(name: str, *, scaffold: str = "plain", prices: Prices | None = None, **model: Any) -> AttemptSpec:
    task = TaskRef(benchmark="corebench", id="t", level="hard", dataset="d", source="s", digest="0" * 64)
    return AttemptSpec(
        task=task,
        scaffold=load_scaffold(scaffold),
        model=ModelSpec.model_validate({"name": name} | model),
        prices=prices or Prices(),
        record=Path("record"),
    )


def opened(whole: AttemptSpec, environment: dict[str, str]) -> Account:
    with Clients.opened(whole, environment) as clients:
        return Account(whole, clients, EarlierBooks(), Cancel())
