"""A linter for the words of documents: `python -m tests.contracts.words [FILES]`.

It reports phrases that are not plain English, with a better one, sentences that are too long, and table cells that are
too long. Code is not read: neither blocks nor text in backticks.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["problems"]

ROOT = Path(__file__).parents[2]

SENTENCE_WORDS = 35
CELL_WORDS = 20

PHRASES_ONLY = ("docs/adr/", "docs/reference/")
"""Decisions, and pages that are generated: long sentences and cells are allowed."""

PHRASES = {
    # Pronouns without a noun.
    r"whoever|whomever": "users who, clients that",
    r"whatever|whichever": "any, each, all; or repeat the noun",
    r"(?:no|some|any|every)body|someone|anyone": "no client, a user, all subscribers",
    r"he|his|him|himself|she": "they, their",
    r"(?:of|with|for|from|by|than|on|about) what": "a noun",
    r"what (?:is|was|were|are|has|had|it|they)": "a noun: the settings, the messages",
    r"(?:for|to|of|by|from|than) who": "a noun: subscribers that, users who",
    r"who (?:it|they|somebody) (?:is|are)": "the user, the identity",
    r"all that (?:is|are|was|were)|all what": "all, or a noun",
    r"that which|those who|they who|that what": "a noun",
    r"(?:of|with|for|from) those": "repeat the noun",
    # Verbs of the field.
    r"tell|tells|told|telling": "report, send, notify, say",
    r"hears?|heard": "receive",
    r"(?:is|are|was|were) refused|refuses": "rejected, rejects",
    r"stands?(?!-)|stood": "is, remains",
    r"lets? (?:it |them |her )?go(?: of)?|let go": "drops, releases",
    r"comes? to (?:be|an? |the same|know)|come about|comes about": "becomes, reaches, happens",
    r"go(?:es)? on": "continues",
    r"(?:is|are) (?:asked|waited|looked) for": "is requested, is pending",
    r"(?:is|are) to be": "must be, can be",
    r"to be had|had from": "available",
    r"see to it": "make sure",
    r"does without|do without": "does not need",
    r"wishes": "requests",
    r"is away|are away|was away": "is unreachable",
    r"gets? to know|learns? of": "receives, detects",
    r"makes? out": "detects",
    r"gives? back": "returns",
    # Little words.
    r"anew": "again",
    r"beside": "with, next to",
    r"beneath": "below",
    r"of itself|of its own accord": "automatically",
    r"is for \w+ to": "the subject first: subscribers decide",
    r"so much as": "even",
    r"behind (?:its|their|the) back": "without notice",
    r"for the time being|by and by": "until when",
    r"there\w* is no (?:\w+ ){1,3}but|none but|nothing but": "only",
    r"(?<!there )is (?:no|none)(?= (?!longer|more|less|other|better))": "is not a",
    r"without a word": "silently, without a message",
    r"by chance": "at random",
    r"save for|be it|be they": "except, whether",
    r"there(?:of|in|from|upon|with)|where(?:of|in|from|upon|with)|hence|thence|thereby": "so, its, in which",
    r"in order that": "so that",
    r"it is (?:the|a) \w+ (?:that|which|who)": "the subject first",
    r"there and back": "round trip",
    r"up to,? and without": "before, up to",
    r"news of": "changes of",
    r"simply|obviously|of course|please|note that": "nothing: say the fact",
}
"""A phrase that is not plain, and words to use instead."""

_PHRASE = re.compile("|".join(rf"\b(?P<p{number}>{phrase})\b" for number, phrase in enumerate(PHRASES)), re.IGNORECASE)
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"(`+)(?:.|\n)+?\1(?!`)")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9`$])")
_BLOCK = re.compile(r"^\s*(?:[*+-]|\d+\.|#+|>)\s+|^\s*$|^\s*\|")
_WORD = re.compile(r"\w")


def problems(path: str, text: str) -> Iterator[str]:
    """Yield problems of a page, as `path:line: problem`."""
    text = _hide(text)
    for found in _PHRASE.finditer(text):
        better = list(PHRASES.values())[int((found.lastgroup or "p0")[1:])]
        shown = " ".join(found[0].split())
        yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: '{shown}': {better}"
    if path.startswith(PHRASES_ONLY):
        return
    for line, block in _blocks(text):
        if block.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", block)[1:-1]:
                if (count := _words(cell)) > CELL_WORDS:
                    yield f"{path}:{line}: a table cell of {count} words, {CELL_WORDS} at most: {_beginning(cell)}"
        else:
            for sentence in _END.split(block):
                if (count := _words(sentence)) > SENTENCE_WORDS:
                    shown = _beginning(sentence)
                    yield f"{path}:{line}: a sentence of {count} words, {SENTENCE_WORDS} at most: {shown}"


def _hide(text: str) -> str:
    """Return a page without its code, comments and addresses; lines keep their numbers."""
    for hidden in (_FENCE, _COMMENT):
        text = hidden.sub(lambda found: "\n" * found[0].count("\n"), text)
    text = _CODE.sub(lambda found: "`x`" + "\n" * found[0].count("\n"), text)
    return _LINK.sub(lambda found: found[1], text)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs, items, headings and rows of tables, each with the number of its first line."""
    first, lines = 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        begins = _BLOCK.match(line)
        if begins and lines:
            yield first, " ".join(lines)
            lines = []
        if not lines:
            first = number
        if stripped := line[begins.end() if begins and "|" not in begins[0] else 0 :].strip():
            lines.append(stripped)


def _words(text: str) -> int:
    return sum(1 for word in text.split() if _WORD.search(word))


def _beginning(text: str) -> str:
    return " ".join(text.split()[:8]) + " ..."


def main(names: list[str]) -> int:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    pages = names or [name for name in listed.splitlines() if not name.startswith((".", "tests/", "hub/", "peers/"))]
    found = [line for name in pages for line in problems(name, (ROOT / name).read_text())]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
