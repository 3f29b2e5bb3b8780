"""The commands that the README tells to type, by the mark above their block: `<!-- command: setup -->`.

`python tests/readme_commands.py solve tests` prints them, one a line.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def command(name: str) -> str:
    """The one command under the mark `name`, on one line."""
    text = README.read_text(encoding="utf-8")
    found = re.findall(rf"<!-- command: {re.escape(name)} -->\s*```sh\n(.*?)```", text, re.DOTALL)
    if len(found) != 1:
        raise SystemExit(f"README.md has {len(found)} blocks marked {name!r}, not one")
    return " ".join(found[0].replace("\\\n", " ").split())


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(command(each))
