"""Errors of gateways behind which an answer may have been made: such a send stays uncertain."""

from __future__ import annotations

import pytest
from gateway_bench import bench, reply

from agentctl.agents.models import faults
from agentctl.agents.models.gateway import ModelFailed
from agentctl.agents.models.journal import RequestSent
from agentctl.agents.models.protocol import Fault
from agentctl.agents.models.retry import RetryPolicy
from agentctl.agents.models.unanswered import SENT_ON

NGINX = "<html><head><title>{} Gateway</title></head></html>"


@pytest.mark.parametrize("status", SENT_ON)
def test_an_error_of_a_gateway_that_sent_on_is_tried_again_and_may_be_billed(status: int) -> None:
    error = faults.of_reply(status, None, NGINX.format(status))
    assert (error.fault, error.lost) == (Fault.TRANSIENT, True)


@pytest.mark.parametrize("status", [409, 425, 429, 500, 503, 521, 523, 525, 526, 529, 530])
def test_an_error_of_a_server_that_did_not_begin_is_not_billed(status: int) -> None:
    error = faults.of_reply(status, {"error": {"message": "not now"}})
    assert (error.fault, error.lost) == (Fault.TRANSIENT, False)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_request_that_is_refused_is_not_billed(status: int) -> None:
    assert not faults.of_reply(status, {"error": {"message": "the tool's argument timeout is odd"}}).lost


ENVOY = "upstream connect error or disconnect/reset before headers. reset reason: "


@pytest.mark.parametrize(
    ("status", "words", "lost"),
    [
        (503, ENVOY + "connection termination", True),
        (503, ENVOY + "remote reset", True),
        (503, ENVOY + "connection failure", False),
        (503, ENVOY + "remote connection failure, transport failure reason: delayed connect error: 111", False),
        (503, ENVOY + "overflow", False),
        (503, "no healthy upstream", False),
        (502, "mirror.test:443 can't be reached: connection refused", False),
        (502, "upstream prematurely closed connection while reading response header", True),
        (500, "Request timed out.", True),
        (500, "DEADLINE_EXCEEDED", True),
        (500, "connection timed out to the backend", False),
        (429, "rate limit: timeout for your organisation", False),
        (522, "example.com | 522: Connection timed out", True),
    ],
)
def test_words_tell_what_a_status_does_not(status: int, words: str, lost: bool) -> None:
    assert faults.of_reply(status, {"error": {"message": words}}).lost is lost


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        ({"message": "Provider returned error", "code": 504}, True),
        ({"message": "Provider disconnected", "code": 502}, True),
        ({"message": "Your request took too long"}, True),
        ({"type": "timeout_error", "message": "The request can't be served"}, True),
        ({"message": "Overloaded", "code": 529}, False),
    ],
)
def test_an_error_under_200_is_told_by_its_code_and_words(error: dict[str, object], lost: bool) -> None:
    found = faults.of_reply(200, {"error": error})
    assert (found.fault, found.lost) == (Fault.TRANSIENT, lost)


def test_what_was_sent_on_counts_against_the_cap() -> None:
    made = bench(faults.of_reply(524, None, ""), faults.of_reply(503, None, ""), reply())
    made.ask()
    books = made.purse.books()
    assert 0 < books.uncertain < made.purse.cap
    assert len(made.client.received) == 3


def test_a_gateway_that_never_answers_can_not_pass_the_cap() -> None:
    made = bench(*[faults.of_reply(504, None, "")] * 3, policy=RetryPolicy(tries=3))
    with pytest.raises(ModelFailed):
        made.ask()
    assert made.purse.books().uncertain == sum(event.bound for event in made.log.of(RequestSent))
