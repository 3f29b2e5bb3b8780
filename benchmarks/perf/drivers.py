"""The clients that are timed, each in its own process: `python -m agentctl.benchmarks.perf.drivers NAME URL STEPS DIR`.

`bare` and `bare-litellm` are what no loop can do without: send the history, run the command in a bash, append.
`direct` and `litellm` are agentctl's `run` with everything on: purse, journal, sandbox, shell tool.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]
SYSTEM: list[Message] = [
    {"role": "system", "content": "You are a careful research engineer."},
    {"role": "user", "content": "Work."},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
    }
]


class Pipe:
    """A bash on a pipe."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, command: str) -> str:
        assert self._process.stdin and self._process.stdout
        mark = uuid.uuid4().hex
        self._process.stdin.write(f"{command}\necho {mark}\n".encode())
        self._process.stdin.flush()
        lines: list[bytes] = []
        while (line := self._process.stdout.readline()) != f"{mark}\n".encode():
            lines.append(line)
        return b"".join(lines).decode()


def bare_loop(send: Callable[[list[Message]], Message]) -> None:
    """Send, act, append, until the model calls another tool than bash."""
    shell = Pipe()
    messages = list(SYSTEM)
    while True:
        message = send(messages)
        messages.append({"role": "assistant", "content": message["content"], "tool_calls": message["tool_calls"]})
        call = message["tool_calls"][0]
        if call["function"]["name"] != "bash":
            return
        output = shell.run(json.loads(call["function"]["arguments"])["command"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})


def bare(url: str) -> None:
    import urllib3

    pool = urllib3.PoolManager()

    def send(messages: list[Message]) -> Message:
        body = json.dumps({"model": "timed", "messages": messages, "tools": TOOLS}).encode()
        reply = pool.request("POST", f"{url}/chat/completions", body=body, headers={"Content-Type": "application/json"})
        message: Message = json.loads(reply.data)["choices"][0]["message"]
        return message

    bare_loop(send)


def bare_litellm(url: str) -> None:
    import litellm

    def send(messages: list[Message]) -> Message:
        reply = litellm.completion(
            model="openai/timed", messages=messages, tools=TOOLS, api_base=url, api_key="none", max_retries=0
        )
        message: Message = reply.choices[0].message.model_dump()
        return message

    bare_loop(send)


def ours(client: str, url: str, folder: Path, steps: int) -> None:
    from agentctl.agents.scaffold import load_scaffold
    from agentctl.agents.spec import AttemptSpec, Limits, Prices
    from agentctl.benchmarks.corebench.locate import locate
    from agentctl.benchmarks.runner import run

    scaffold = load_scaffold("plain").model_copy(
        update={"repeat_notice": steps + 2, "repeat_end": steps + 3, "finish_check": False}
    )
    spec = AttemptSpec.model_validate(
        {
            "task": locate("capsule-4810297", "easy").ref,
            "scaffold": scaffold,
            "model": {"name": "openai/timed", "api_base": url, "client": client},
            "limits": Limits(steps=steps + 1),
            "prices": Prices(lines=("openai/timed=0.01,0.01",)),
            "record": folder / "record",
        }
    )
    run(spec, environment={**os.environ, "OPENAI_API_KEY": "none-needed"})


def main(name: str, url: str, steps: str, folder: str) -> None:
    """Run one client to its end; print its peak memory and CPU time as JSON."""
    match name:
        case "bare":
            bare(url)
        case "bare-litellm":
            bare_litellm(url)
        case "direct" | "litellm":
            ours(name, url, Path(folder), int(steps))
        case _:
            raise SystemExit(f"no driver is named {name}")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"peak_mb": usage.ru_maxrss / 1024, "cpu_s": usage.ru_utime + usage.ru_stime}))


if __name__ == "__main__":
    main(*sys.argv[1:])
