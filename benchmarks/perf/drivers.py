"""The clients that are timed, each in its own process: `python -m agentctl.benchmarks.perf.drivers NAME URL STEPS DIR`.

`bare` and `bare-litellm` are what no loop can do without: send the history, run the command in a bash, append.
`direct` and `litellm` are agentctl's `run` with everything on: purse, journal, sandbox, shell tool. With `-stream`
behind its name each has the replies streamed.
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


def bare(url: str, *, stream: bool) -> None:
    import urllib3

    pool = urllib3.PoolManager()
    asked = {"model": "timed", "tools": TOOLS} | ({"stream": True} if stream else {})

    def send(messages: list[Message]) -> Message:
        body = json.dumps(asked | {"messages": messages}).encode()
        reply = pool.request("POST", f"{url}/chat/completions", body=body, headers={"Content-Type": "application/json"})
        if not stream:
            message: Message = json.loads(reply.data)["choices"][0]["message"]
            return message
        events = [line.removeprefix(b"data: ") for line in reply.data.split(b"\n\n") if line]
        return joined([json.loads(event) for event in events if event != b"[DONE]"])

    bare_loop(send)


def joined(chunks: list[dict[str, Any]]) -> Message:
    """The message with one call that the server's chunks hold."""
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
    arguments = "".join(call["function"].get("arguments") or "" for call in calls)
    function = {"name": calls[0]["function"]["name"], "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": calls[0]["id"], "type": "function", "function": function}]}


def bare_litellm(url: str, *, stream: bool) -> None:
    import litellm

    asked: dict[str, Any] = {"model": "openai/timed", "tools": TOOLS, "api_base": url, "api_key": "none"}
    if stream:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}

    def send(messages: list[Message]) -> Message:
        reply: Any = litellm.completion(messages=messages, max_retries=0, **asked)
        if stream:
            return joined([chunk.model_dump() for chunk in reply])
        message: Message = reply.choices[0].message.model_dump()
        return message

    bare_loop(send)


def ours(client: str, url: str, folder: Path, steps: int, *, stream: bool) -> None:
    from agentctl.agents.scaffold import load_scaffold
    from agentctl.agents.spec import AttemptSpec, Limits, Prices
    from agentctl.benchmarks.corebench.locate import locate
    from agentctl.benchmarks.runner import run

    scaffold = load_scaffold("plain").model_copy(
        update={"repeat_notice": steps + 2, "repeat_end": steps + 3, "checks": ()}
    )
    spec = AttemptSpec.model_validate(
        {
            "task": locate("capsule-4810297", "easy").ref,
            "scaffold": scaffold,
            "model": {"name": "openai/timed", "api_base": url, "client": client, "stream": stream},
            "limits": Limits(steps=steps + 1),
            "prices": Prices(lines=("openai/timed=0.01,0.01",)),
            "record": folder / "record",
        }
    )
    run(spec, environment={**os.environ, "OPENAI_API_KEY": "none-needed"})


def main(name: str, url: str, steps: str, folder: str) -> None:
    """Run one client to its end; print its peak memory and CPU time as JSON."""
    stream = name.endswith("-stream")
    match name.removesuffix("-stream"):
        case "bare":
            bare(url, stream=stream)
        case "bare-litellm":
            bare_litellm(url, stream=stream)
        case "direct" | "litellm" as client:
            ours(client, url, Path(folder), int(steps), stream=stream)
        case _:
            raise SystemExit(f"no driver is named {name}")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"peak_mb": usage.ru_maxrss / 1024, "cpu_s": usage.ru_utime + usage.ru_stime}))


if __name__ == "__main__":
    main(*sys.argv[1:])
