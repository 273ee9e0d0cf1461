"""Error classes and exit codes in, ``docs/reference/errors/`` out: a section each, with an anchor.

Run it after a change of one of them; ``--check`` writes nothing and fails if a page is out of date.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from arcp_client import errors
from arcp_client.acp import errors as acp_errors
from arcp_client.cli.errors import error_exit
from arcp_client.cli.exit_codes import Exit
from arcp_client.errors import ArcpError

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference" / "errors"

INDEX = """# What to do about an error

This page says for each error of the package what happened and what to do. The last line of a
traceback, and the last line that `arcp-client` writes to stderr, link to a section of this page or
of [Exit codes](exit-codes.md). [Errors](../errors.md) has the tree of classes and their attributes.
The [glossary](../../explanation/data-flow.md#words) explains words such as session, lease and key.

```{toctree}
:hidden:

exit-codes
```

This page is generated: `python scripts/generate_error_pages.py`.
"""

CODES = """# Exit codes

These are the exit codes of `arcp-client`. A command that missed events or the end of a job never
exits with 0. With `--output json` or `jsonl`, the document of the outcome also has the code, as
`error.exit_code`.

This page is generated: `python scripts/generate_error_pages.py`.
"""


def classes() -> list[type[ArcpError]]:
    """Every public error class: a class before those that are made of it, otherwise as written."""
    found = [*_of(errors), *_of(acp_errors)]
    return sorted(found, key=lambda cls: [found.index(base) for base in _line(cls)])


def _of(module: object) -> list[type[ArcpError]]:
    named = [cls for cls in vars(module).values() if isinstance(cls, type)]
    own = [cls for cls in named if cls.__module__ == getattr(module, "__name__", "")]
    return [cls for cls in own if issubclass(cls, ArcpError)]


def _line(cls: type) -> list[type]:
    """The classes that it is made of, the root first."""
    return [base for base in reversed(cls.__mro__) if issubclass(base, ArcpError)]


def _markdown(text: str) -> str:
    return " ".join(re.sub(r"``([^`]+)``", r"`\1`", text).split())


def _section(cls: type[ArcpError]) -> str:
    happened = _markdown(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0])
    base = _line(cls)[-2].__name__ if cls is not ArcpError else "Exception"
    builtin = [each.__name__ for each in cls.__bases__ if not issubclass(each, ArcpError)]
    kinds = [f"[`{base}`](#{base.lower()})" if cls is not ArcpError else f"`{base}`"]
    kinds += [f"`{name}`" for name in builtin if cls is not ArcpError]
    facts = [f"`{cls.__module__}`", f"a subclass of {' and '.join(kinds)}"]
    code = getattr(cls, "default_code", "")
    if code:
        facts.append(f"code `{code}`")
    exit_code, advice = error_exit(cls)
    shell = f"The exit code is [{int(exit_code)}](exit-codes.md#exit-{int(exit_code)})"
    printed = f"`` {advice} ``" if "`" in advice else f"`{advice}`"
    shell += f", and the command prints: {printed}." if advice else "."
    return (
        f"({cls.__name__.lower()})=\n## {cls.__name__}\n\n{' · '.join(facts)}\n\n"
        f"**What happened.** {happened}\n\n**What to do.** {cls.remedy}\n\n"
        f"**On the command line.** {shell}\n"
    )


def index() -> str:
    """The page on the classes, as it should be."""
    return "\n".join([INDEX, *map(_section, classes())])


def codes() -> str:
    """The page on the exit codes, as it should be."""
    rows = []
    for code in sorted(Exit):
        short, happened, remedy = code.meaning
        causes = [
            cls.__name__ for cls in classes() if error_exit(cls)[0] is code and cls is not ArcpError
        ]
        named = ", ".join(f"[{name}](index.md#{name.lower()})" for name in causes)
        rows.append(
            f"(exit-{int(code)})=\n## {int(code)}: {short}\n\n**What happened.** {happened}\n\n"
            f"**What to do.** {remedy}\n"
            + (f"\nErrors with this exit code: {named}.\n" if named else "")
        )
    return "\n".join([CODES, *rows])


SHORT = """\
---
orphan: true
---

# Short links

Each link that `arcp-client` prints under an error leads to an anchor of this page.

This page is generated: `python scripts/generate_error_pages.py`.

"""


def short() -> str:
    """The page that the command's short links lead to, as it should be."""
    rows = [
        f'- <a id="{int(code)}"></a>[{int(code)}: {code.meaning[0]}]'
        f"(reference/errors/exit-codes.md#exit-{int(code)})"
        for code in sorted(Exit)
    ]
    rows += [
        f'- <a id="{name.lower()}"></a>[{name}](reference/errors/index.md#{name.lower()})'
        for name in (cls.__name__ for cls in classes())
    ]
    return SHORT + "\n".join(rows) + "\n"


PAGES = {"index.md": index, "exit-codes.md": codes, "../../e.md": short}


def main() -> None:
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is out of date: run python scripts/generate_error_pages.py")


if __name__ == "__main__":
    main()
