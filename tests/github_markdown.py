"""Markdown as GitHub reads it: tables, what unfolds, and what would be a link, a picture, or name a user or an issue.

CommonMark with tables by markdown-it-py. GitHub looks for users, issues and commits in the text that Markdown has made,
but not within code; it takes entities for what they stand for, and drops backslashes.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token

_REFERENCES = re.compile(
    r"(?<!\w)@[a-z\d]|\S@[a-z\d-]+\.[a-z]|(?<![\w&])#\d|\w#\d|\bGH-\d"
    r"|\b(?=[\da-f]{7,40}\b)(?=\d*[a-f])(?=[a-f]*\d)[\da-f]+\b",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?<!\\)://|(?<!\\)\bwww\.", re.IGNORECASE)
_SUMMARY = re.compile(r"<details>\n<summary>([^<>]*)</summary>\n?")


@dataclass
class Page:
    """What a reader sees.

    Attributes:
        headings: of any level.
        tables: each a list of rows, the headings first, of the texts of cells.
        folds: titles of what unfolds.
        paragraphs: texts outside of tables.
        links: what could be clicked, would show a picture, or name somebody; and HTML that is not ours.
        depth: how many folds are open at the end.
    """

    headings: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    folds: list[str] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    depth: int = 0


def read(markdown: str) -> Page:
    """A page in GitHub-flavoured Markdown."""
    page, inside = Page(), ""
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type == "table_open":
            page.tables.append([])
        elif token.type == "tr_open":
            page.tables[-1].append([])
        elif token.type in ("td_open", "th_open", "heading_open"):
            inside = token.type
        elif token.type in ("td_close", "th_close", "heading_close"):
            inside = ""
        elif token.type == "html_block":
            _block(token.content, page)
        elif token.type == "inline":
            text = _text(token, page)
            if inside == "heading_open":
                page.headings.append(text)
            elif inside:
                page.tables[-1][-1].append(text)
            else:
                page.paragraphs.append(text)
        elif token.type in ("code_block", "fence", "hr"):
            page.links.append(f"{token.type}: {token.content}")
    return page


def _block(text: str, page: Page) -> None:
    """A block of HTML: our mark, or the begin or the end of what unfolds."""
    if summary := _SUMMARY.fullmatch(text):
        title = html.unescape(summary[1])
        page.folds.append(title.replace("\u200b", ""))
        page.links += _REFERENCES.findall(title)
        page.depth += 1
    elif text.strip() == "</details>":
        page.depth -= 1
    elif not re.fullmatch(r"<!-- [^<>]* -->\n*", text):
        page.links.append(f"HTML: {text}")


def _text(token: Token, page: Page) -> str:
    """The text of a paragraph, cell or heading; blanks of no width left out."""
    seen, plain = "", ""
    for part in token.children or []:
        if part.type in ("link_open", "image", "html_inline"):
            page.links.append(f"{part.type}: {part.content or part.attrs}")
        shown = {"softbreak": "\n", "hardbreak": "\n"}.get(part.type, part.content)
        seen += shown
        plain += " " if part.type == "code_inline" else shown
    page.links += _REFERENCES.findall(plain)
    page.links += _ADDRESS.findall(re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", token.content))
    return seen.replace("\u200b", "")
