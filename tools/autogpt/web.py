"""The commands `web_search` (also `search`) and `read_webpage`. Nothing here reaches the network itself: pages are got
from inside the sandbox, so its policy holds for them, and what it refuses is in the record."""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import dataclass
from urllib.parse import parse_qs, quote_plus, urljoin, urlsplit

from pydantic import Field

from agentctl.base.messages import Text
from agentctl.base.text import clean, cut, decode, head

from ..shell.session import How
from ..tool import Arguments, ToolContext, ToolResult
from .command import Commands
from .html import decoded, page_links, page_text, parsed

PAGE_BYTES = 2 << 20  # of a page that are looked at
PAGE_SECONDS = 60.0
LINKS = 20  # of a page that are told
RAW_CHARACTERS = 2_000  # of a page that is told as it is: some 500 tokens
ASKED_CHARACTERS = 60_000  # of a page that the fast model is given: some 15,000 tokens
ANSWER_TOKENS = 1_000
SEARCH = "https://html.duckduckgo.com/html/"
TRIES = 3
PAUSE = 1.0  # seconds between them
_REASON = 300  # characters of an error page
_LINE = 1 << 16  # bytes: more than is told beside a page


class NoPage(Exception):
    """A page that could not be got. Said to the agent."""


@dataclass(frozen=True)
class Fetched:
    """A page as it came. `data` is at most PAGE_BYTES long."""

    url: str  # after redirects
    media_type: str
    charset: str | None
    data: bytes
    cut: bool  # there is more of it


class _Kept:
    """The beginning of an output. What is called `python3` inside may print without end."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self._limit = limit

    def feed(self, piece: bytes) -> None:
        """Take what was printed."""
        self.data += piece[: self._limit - len(self.data)]


def fetch(commands: Commands, context: ToolContext, url: str) -> Fetched:
    """The page at `url`. NoPage where there is none, or none may be had. SandboxError as for any command."""
    program = importlib.resources.files(__package__).joinpath("fetch.py").read_text(encoding="utf-8")
    out, err = _Kept(PAGE_BYTES + _LINE), _Kept(_LINE)
    argv = ["python3", "-I", "-S", "-c", program, url, str(PAGE_BYTES)]
    seconds = max(0.0, min(PAGE_SECONDS, context.seconds_left()))
    ended = commands.feed(argv, context, cwd="/", seconds=seconds, out=out.feed, err=err.feed)
    context.cancel.check()
    if ended.how is not How.FINISHED:
        raise NoPage(f"{url} did not come within {seconds:g} s.")
    if ended.status:
        raise NoPage(f"{url} could not be got: {decode(bytes(err.data)).strip()[-_REASON:]}")
    line, _, data = bytes(out.data).partition(b"\n")
    told = json.loads(line)
    if "error" in told:
        raise NoPage(f"{url} could not be got: {clean(told['error'])}")
    page = Fetched(told["url"], told["type"], told["charset"], data[:PAGE_BYTES], len(data) > PAGE_BYTES)
    if told["status"] >= 300:
        why = head(text_of(page), _REASON) or clean(str(told["reason"]))
        raise NoPage(f"{url} answered with status {told['status']}: {why}")
    return page


def text_of(page: Fetched) -> str:
    """The text of a page, of HTML without its marks."""
    if page.media_type in ("text/html", "application/xhtml+xml"):
        return page_text(parsed(page.data, page.charset, cut=page.cut))
    return clean(decoded(page.data, page.charset, cut=page.cut).strip())


def _closed(context: ToolContext) -> str:
    """Why there is no web here, or nothing."""
    policy = context.sandbox.spec.network
    return "" if policy == "open" else f"There is no web in this task: its network policy is `{policy}`, not `open`."


class SearchArguments(Arguments):
    query: str = Field(min_length=1, description="What to search for.")
    num_results: int = Field(default=8, ge=1, description="How many results to get, at most 10.")


class WebSearch:
    """Searches the web, under either of the command's names. `endpoint` is DuckDuckGo's page without scripts."""

    description = "Search the web. You get titles, addresses and excerpts."
    arguments = SearchArguments

    def __init__(self, commands: Commands, name: str = "web_search", *, endpoint: str = SEARCH) -> None:
        self.name = name
        self.commands = commands
        self._endpoint = endpoint

    def run(self, arguments: SearchArguments, context: ToolContext) -> ToolResult:
        if closed := _closed(context):
            return ToolResult.error(closed)
        url = f"{self._endpoint}?q={quote_plus(arguments.query)}"
        problem = ""
        for attempt in range(TRIES):
            if attempt:
                context.cancel.sleep(PAUSE)
            try:
                found = results(fetch(self.commands, context, url))
            except NoPage as error:
                problem = str(error)
                continue
            if found:
                return ToolResult.of("\n\n".join(found[: arguments.num_results]))
            problem = ""
        return ToolResult.error(problem) if problem else ToolResult.of("Nothing was found.")

    def close(self) -> None:
        self.commands.close()


def results(page: Fetched) -> list[str]:
    """The results on a page of DuckDuckGo's, advertisements left out, each as a few lines of text."""
    found = []
    for result in parsed(page.data, page.charset, cut=page.cut).find_class("result"):
        link = next(iter(result.find_class("result__a")), None)
        if link is None or "result--ad" in result.get("class").split():
            continue
        address = urlsplit(urljoin(page.url, link.get("href", "")))
        led_to = parse_qs(address.query).get("uddg")  # its links lead through a page of its own
        lines = [" ".join(link.text_content().split()), led_to[0] if led_to else address.geturl()]
        lines += [" ".join(excerpt.text_content().split()) for excerpt in result.find_class("result__snippet")]
        found.append("\n".join(lines))
    return found


class PageArguments(Arguments):
    url: str = Field(min_length=1, max_length=2000, description="The address of the page.")
    topics_of_interest: list[str] = Field(default=[], description="Topics: what the page says of each is told.")
    question: str = Field(default="", description="A question to answer from the page.")
    get_raw_content: bool = Field(
        default=False,
        description=f"Tell the page as it is. Only for a short one: at most {RAW_CHARACTERS:,} characters.",
    )


class ReadWebpage:
    """Tells what a page says: the fast model's extract, or a short page as it is, and where it links to."""

    name = "read_webpage"
    description = (
        "Read a web page and get what it says. Give one of: topics_of_interest, a question, or get_raw_content. "
        f"You also get its first {LINKS} links."
    )
    arguments = PageArguments

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def run(self, arguments: PageArguments, context: ToolContext) -> ToolResult:
        if closed := _closed(context):
            return ToolResult.error(closed)
        url = arguments.url.strip()
        if not url.startswith(("http://", "https://")) or "\0" in url:
            return ToolResult.error("The address of a page begins with http:// or https://.")
        try:
            page = fetch(self._commands, context, url)
        except NoPage as error:
            return ToolResult.error(str(error))
        if not page.media_type.startswith("text/") and not page.media_type.endswith(("+xml", "/xml", "json")):
            return ToolResult.error(
                f"{url} is no page of text but {page.media_type}: download it with a shell command, and read the file."
            )
        text = text_of(page)
        if arguments.get_raw_content and len(text) > RAW_CHARACTERS:
            times = len(text) / RAW_CHARACTERS
            return ToolResult.error(
                f"The page is {times:.1f} times as long as one got raw may be. Give topics_of_interest or a question."
            )
        said = text if arguments.get_raw_content or not text else self._extract(text, arguments, context)
        return ToolResult.of("\n\n".join(filter(None, [said or "The page holds no text.", *_besides(page)])))

    def _extract(self, text: str, arguments: PageArguments, context: ToolContext) -> str:
        """What the fast model finds in the page. What is raised by asking it passes through."""
        if arguments.topics_of_interest:
            topics = "; ".join(arguments.topics_of_interest)
            wanted = f"List, as short statements, what it says on these topics: {topics}."
        elif arguments.question:
            wanted = f"Answer from it alone this question: {arguments.question}"
        else:
            wanted = "Sum up what it says."
        shown = cut(text, ASKED_CHARACTERS)
        order = f"Below is the text of a web page. {wanted} Keep numbers, names and quotes to the letter."
        return context.ask("fast", [Text(text=f'{order}\n\n"""\n{shown}\n"""')], ANSWER_TOKENS)

    def close(self) -> None:
        self._commands.close()


def _besides(page: Fetched) -> list[str]:
    """What is told beside the page's text: its links, and what of it was not looked at."""
    found = (
        page_links(parsed(page.data, page.charset, cut=page.cut), page.url, LINKS) if "html" in page.media_type else []
    )
    links = "\n".join(f"- {text}: {address}" if text else f"- {address}" for text, address in found)
    cut_off = f"[only the first {PAGE_BYTES:,} bytes of the page were read]" if page.cut else ""
    return [f"Links:\n{links}" if links else "", cut_off]
