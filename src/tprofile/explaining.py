"""What a finding, a verdict or a term means: `explain`, from the pages in docs/."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from .analysis.finding import KINDS, Finding
from .errors import TprofileError

_IN_SECTIONS = ("verdict", "glossary", "comparison")
"""Pages of which each section is a term of its own."""

_LONGEST = 100
"""Characters of a term that are looked at for near misses."""

_SECTION = re.compile(r"^## ", re.MULTILINE)
_SEE = re.compile(r"See\s\[[^\]]*\]\([^)]*\)\.")
_LINK = re.compile(r"\[([^\]]*)\]\(([\w-]+)\.md(?:#[\w-]*)?\)")


@dataclass(frozen=True, repr=False)
class Explanation:
    """A page, or a section of one. It shows itself at the end of a cell and in a terminal."""

    name: str
    markdown: str

    def __str__(self) -> str:
        return self.markdown

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return self.markdown

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.markdown)


def explain(term: str | Finding | None = None) -> Explanation:
    """Return the page on a kind of finding, a verdict, a subject or a term; shown as Markdown.

    `term` is a name in any case, such as "sync", "overhead-bound", "timing" or "self CPU", or a
    `Finding`, whose kind it stands for. Without one, the names that there are. Raises TprofileError
    for a name that is none of them, with those that are like it.
    """
    if term is None:
        return _contents()
    name = term.kind if isinstance(term, Finding) else term
    if not isinstance(name, str):
        raise TprofileError(
            f"the term is {reprlib.repr(name)}, but must be text, such as 'sync', or a Finding."
        )
    every = _terms()
    wanted = every.get(_plain(name))
    if wanted is not None:
        return wanted
    near = difflib.get_close_matches(_plain(name[:_LONGEST]), every, 3)
    hint = " or ".join(f"{every[one].name!r}" for one in near)
    raise TprofileError(
        f"there is no page on {reprlib.repr(name)}."
        + (f" Did you mean {hint}?" if near else "")
        + " tprofile.explain() lists all that there is."
    )


@cache
def _meanings() -> dict[str, str]:
    pages = _pages()
    return {
        _plain(name): body.partition("\n\n")[0]
        for page in ("verdict", "glossary")
        for names, body in _sections(pages[page])
        for name in names
    }


def meaning(term: str) -> str:
    """Return what a verdict or a term of the glossary means, as one line without links.

    Raises KeyError for what is neither.
    """
    text = _SEE.sub("", _meanings()[_plain(term)])
    return " ".join(_LINK.sub(r"\1", text).replace("`", "").split())


def _plain(name: str) -> str:
    """Return a name as it is compared: "CPU only" is "cpu-only"."""
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()


def _pages() -> dict[str, str]:
    """Return the text of every page by its name."""
    found = sorted(files(__package__).joinpath("docs").iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
        for file in found
        if file.name.endswith(".md")
    }


def _terms() -> dict[str, Explanation]:
    """Return what there is to show by its name, as it is compared."""
    pages = _pages()
    every = {_plain(name): _shown(name, text) for name, text in pages.items()}
    for page in _IN_SECTIONS:
        for names, body in _sections(pages[page]):
            text = f"# {', '.join(names)}\n\n{body}"
            for name in names:
                every.setdefault(_plain(name), _shown(name, text, page))
    return every


def _sections(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the names in each second-level heading, and what stands under it."""
    for section in _SECTION.split(text)[1:]:
        heading, _, body = section.partition("\n")
        yield heading.split(", "), body.strip() + "\n"


def _shown(name: str, text: str, page: str | None = None) -> Explanation:
    """Return a text whose links, which lead to files, are calls at its end."""
    linked = [target for _, target in _LINK.findall(text)]
    calls = [_call(one) for one in dict.fromkeys([*linked, *([page] if page else [])])]
    text = _LINK.sub(r"\1", text)
    return Explanation(name, text + (f"\nMore: {', '.join(calls)}\n" if calls else ""))


def _call(name: str) -> str:
    return f'`tprofile.explain("{name}")`'


def _contents() -> Explanation:
    pages = _pages()
    kinds = [f"- `{kind}`: {_first_sentence(pages[kind])}" for kind in KINDS]
    rest = [f"- `{name}`: {_heading(text)}" for name, text in pages.items() if name not in KINDS]
    verdicts, terms, compared = (
        ", ".join(f"`{name}`" for names, _ in _sections(pages[page]) for name in names)
        for page in _IN_SECTIONS
    )
    parts = [
        f"# What there is to explain\n\n{_call('sync')} shows one of these; case does not matter.",
        "## Findings\n\n" + "\n".join(kinds),
        f"## Findings of a comparison\n\n{compared}",
        f"## Verdicts\n\n{verdicts}",
        f"## Terms\n\n{terms}",
        "## Pages\n\n" + "\n".join(rest),
    ]
    return Explanation("contents", "\n\n".join(parts) + "\n")


def _heading(text: str) -> str:
    heading = text.partition("\n")[0].removeprefix("# ")
    return heading.partition(": ")[2] or heading


def _first_sentence(text: str) -> str:
    return " ".join(text.split("\n\n")[1].split())
