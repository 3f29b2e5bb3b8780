"""The shared cases of providers through each client: what one send comes to. (What a run makes of it: elsewhere.)"""

from __future__ import annotations

from typing import Any

import pytest
from case_fields import fields_of
from loopback import Answer, Hang, Reset, step_of
from sends import CHAT_BY_LITELLM, DIRECT, no_proxy, outcome, patience

from agentctl.agents.models.protocol import Fault, FinishReason, ProviderError, RawReply
from agentctl.agents.models.unanswered import SENT_ON
from agentctl.agents.usage import Usage, normalise

__all__ = ["no_proxy"]
pytestmark = pytest.mark.filterwarnings("ignore:Item:UserWarning:pydantic")  # litellm's own, about its types


@pytest.mark.parametrize("way", [DIRECT, CHAT_BY_LITELLM], ids="-".join)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.cases("provider", only=lambda case: case["kind"] not in ("mixed-roles", "broken-stream"))
def test_provider_case(case: dict[str, Any], way: tuple[str, str], stream: bool) -> None:
    script = case["input"].get("script")
    assert script, f"{case['id']}: no script to send against"
    # The same answer twice tells no more than once.
    kept = {n: step_of(entry) for n, entry in enumerate(script) if entry not in script[:n]}
    outcomes = {n: outcome(way, step, timeout=patience(step), stream=stream) for n, step in kept.items()}
    check_outcomes(case, outcomes)


class Guess:
    """An estimate that can be told from any count."""

    def prompt(self) -> int:
        return 111_111

    def output(self) -> int:
        return 222_222


def counted(usage: object) -> Usage | None:
    """What a usage is billed as, whatever members that say nothing litellm adds to it."""
    return normalise("openai_chat", usage, Guess())


def check_outcomes(case: dict[str, Any], outcomes: dict[int, RawReply | ProviderError]) -> None:
    """Whether each send ended as the case's kind wants it, so that what decides on retries can do as it expects.

    `outcomes` by the place of what was sent against in the case's script.
    """
    given, exact = fields_of(case)
    if case["kind"] not in ("retry-which", "context-overflow-recognised", "refusal", "usage-missing"):
        pytest.fail(f"this test can't map the kind {case['kind']}")
    for n, found in outcomes.items():
        entry = given["script"][n]
        if entry == "ok":
            assert isinstance(found, RawReply) and found.finish is FinishReason.STOP
            continue
        match case["kind"]:
            case "retry-which":
                assert isinstance(found, ProviderError)
                if n + 1 < exact["calls"]:
                    assert found.fault is Fault.TRANSIENT, found.words
                elif n + 1 == exact["calls"] and n != given.get("max_retries"):  # else the retries were used up
                    assert found.fault is not Fault.TRANSIENT, found.words
                if exact.get("run_aborted"):
                    assert found.fault is Fault.AUTH
                assert found.words
                if seconds := exact.get(f"pause_before_call_{n + 2}_min_s"):
                    assert found.retry_after is not None and found.retry_after >= seconds
                step = step_of(entry)
                gone = isinstance(step, Answer) and step.status in SENT_ON
                assert found.lost is (gone or isinstance(step, Reset | Hang))
            case "context-overflow-recognised":
                assert isinstance(found, ProviderError)
                assert found.fault is Fault.CONTEXT
            case "refusal" if isinstance(found, ProviderError):
                assert found.fault is Fault.REFUSED
            case "refusal":
                assert found.finish is FinishReason.REFUSED
                assert (entry.get("usage") or {}).items() <= (found.usage or {}).items()
            case "usage-missing":
                assert isinstance(found, RawReply)
                assert counted(found.usage) == counted(entry.get("usage"))
