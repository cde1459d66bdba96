"""Export a session as a web page, as Markdown, or as its events.

This module knows events and texts, and no sessions. It redacts secrets once more, because rules may have been
added since a line was written.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

from vademecum.errors import Collision, UnknownName
from vademecum.text import clock, fences
from vademecum.transcripts import events as kinds
from vademecum.transcripts.events import NO_USAGE, Compacted, Event, MessageEvent, Started, Summary
from vademecum.transcripts.log import clean_event
from vademecum.transcripts.messages import Image, Opaque, Text, Thinking, ToolCall, ToolResult, is_aside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from markdown_it import MarkdownIt

    from vademecum.transcripts.events import TornLine, Usage
    from vademecum.transcripts.log import Line
    from vademecum.transcripts.messages import Part

    Render = Callable[[Iterable[Event | TornLine], str, Usage], Iterator[str]]

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_LONGEST = 2000  # characters of a message in a list of messages
_RENDERED = 200_000  # characters of a text that is rendered as Markdown; a longer text is shown as it is
_HELD = 50  # messages with calls that wait for results
_LINKS = ("http:", "https:", "mailto:")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--user:#2a6fdb;--assistant:#1f8a4c;--other:#888}
*{box-sizing:border-box}
body{margin:0 auto;max-width:52rem;padding:0 .8rem 4rem;font:16px/1.55 system-ui,sans-serif;
overflow-wrap:anywhere}
header{position:sticky;top:0;background:Canvas;padding:.6rem 0;border-bottom:1px solid var(--line);z-index:1}
h1{font-size:1.15rem;margin:0 0 .3rem}
header p{margin:0 0 .4rem;font-size:.85rem;opacity:.75}
input{width:100%;font:inherit;padding:.45rem .6rem;border:1px solid var(--line);border-radius:.4rem}
article{margin:1rem 0;padding:.1rem 0 .1rem .8rem;border-left:4px solid var(--other)}
article.user{border-color:var(--user)}article.assistant{border-color:var(--assistant)}
article h2{font-size:.8rem;margin:0 0 .2rem;opacity:.75;font-weight:600}
article.aside{opacity:.65}
article>p,article>ul,article>ol,article>table,article>blockquote{margin:.4rem 0}
article h1,article h3,article h4,article h5,article h6{font-size:1rem;margin:.8rem 0 .3rem}
article>h2+details{margin-top:.2rem}
blockquote{margin-left:0;padding-left:.8rem;border-left:3px solid var(--line);opacity:.85}
table{border-collapse:collapse;display:block;overflow:auto}
td,th{border:1px solid var(--line);padding:.2rem .5rem;text-align:left}
code{font:.87em/1.45 ui-monospace,monospace;background:var(--soft);border-radius:.2rem;padding:.05rem .2rem}
mark{background:#ffd54a;color:#000;border-radius:.15rem}
pre{white-space:pre-wrap;margin:.3rem 0;font:inherit}
pre>code{display:block;padding:.5rem .6rem;overflow:auto}
details details{margin-left:.8rem}
details{margin:.4rem 0;background:var(--soft);border:1px solid var(--line);border-radius:.4rem;
padding:.3rem .6rem}
details pre{font:13px/1.45 ui-monospace,monospace;max-height:30rem;overflow:auto}
summary{cursor:pointer;font:13px/1.6 ui-monospace,monospace}
img{max-width:100%;height:auto}
[hidden]{display:none}
@media print{header{position:static}input{display:none}}
"""

_SCRIPT = """
const box = document.getElementById('search'), found = document.getElementById('found');
const all = Array.from(document.querySelectorAll('article'));
const texts = all.map(each => each.textContent.toLowerCase());
function pieces(text, words) {  // plain, hit, plain, hit, …
  const lower = text.toLowerCase(), found = [];
  for (let at = 0, from = 0; ; ) {
    let best = -1, size = 0;
    for (const word of words) {
      const place = lower.indexOf(word, at);
      if (place >= 0 && (best < 0 || place < best || (place === best && word.length > size))) {
        best = place;
        size = word.length;
      }
    }
    if (best < 0) return [...found, text.slice(from)];
    found.push(text.slice(from, best), text.slice(best, best + size));
    at = from = best + size;
  }
}
function mark(node, words) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const text of texts) {
    // A letter that becomes two when it is small would shift what follows it.
    if (text.data.toLowerCase().length !== text.data.length) continue;
    const cut = pieces(text.data, words);
    if (cut.length === 1) continue;
    const made = cut.map((piece, at) => {
      if (at % 2 === 0) return piece;
      const hit = document.createElement('mark');
      hit.textContent = piece;
      return hit;
    });
    text.replaceWith(...made);
  }
}
function unmark() {
  document.querySelectorAll('main mark').forEach(hit => {
    const around = hit.parentNode;
    hit.replaceWith(hit.textContent);
    around.normalize();
  });
}
box.addEventListener('input', () => {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  unmark();
  let count = 0;
  all.forEach((each, at) => {
    const fits = words.every(word => texts[at].includes(word));
    each.hidden = !fits;
    count += fits;
    if (fits && words.length) mark(each, words);
    each.querySelectorAll('details').forEach(fold => {
      const inside = fold.textContent.toLowerCase();
      fold.open = words.length > 0 && words.some(word => inside.includes(word));
    });
  });
  found.textContent = words.length ? count + ' of ' + all.length : '';
});
"""


def renderer(ending: str) -> Render:
    """Return the function that exports a session to a file with this ending."""
    known: dict[str, Render] = {".html": as_html, ".md": as_markdown, ".jsonl": as_jsonl}
    if ending.lower() not in known:
        raise UnknownName(
            f"cannot export a session as {ending or 'a file without an ending'}",
            hint=f"let the name end in {', '.join(known)}",
        )
    return known[ending.lower()]


def write(path: Path, content: Iterable[str], *, force: bool = False) -> None:
    """Write a file completely or not at all, readable by its owner only; overwrite a file only
    with `force`.
    """
    if path.exists() and not force:
        raise Collision(f"{path} already exists", hint="choose another name, or pass --force")
    staged = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(
            os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            for text in content:
                file.write(text.encode(errors="replace").decode())
        os.replace(staged, path)
    finally:
        staged.unlink(missing_ok=True)


def as_jsonl(events: Iterable[Event | TornLine], title: str, usage: Usage = NO_USAGE) -> Iterator[str]:
    """Yield the events as lines of the log; damaged lines are left out."""
    for event in _safe(events):
        yield kinds.render(event).decode() + "\n"


# -------------------------------------------------------------------- Markdown


def as_markdown(events: Iterable[Event | TornLine], title: str, usage: Usage = NO_USAGE) -> Iterator[str]:
    """Yield a session as Markdown: a heading for each message, and tool calls and results in fences."""
    yield f"# {_heading(title)}\n"
    for event in _safe(events):
        if isinstance(event, Started):
            yield "".join(f"\n- {name}: {_heading(value)}" for name, value in _about(event, usage)) + "\n"
        elif isinstance(event, Summary | Compacted):
            yield f"\n## Summary · {_when(event.time)}\n\n{_visible(event.text)}\n"
        elif isinstance(event, MessageEvent):
            yield f"\n## {_who(event)}\n"
            for part in event.message.parts:
                yield f"\n{_markdown(part)}\n"


def _markdown(part: Part) -> str:
    if isinstance(part, Text):
        return _visible(part.text)
    if isinstance(part, Thinking):
        return "\n".join(f"> {line}" for line in _visible(part.text).splitlines())
    if isinstance(part, Image):
        return f"*[{label(part)}]*"
    return f"**{_heading(label(part))}**\n\n{fences.wrap(content_text(part))}"


# -------------------------------------------------------------------- a web page


def as_html(events: Iterable[Event | TornLine], title: str, usage: Usage = NO_USAGE) -> Iterator[str]:
    """Yield a session as one HTML page that loads nothing and runs only its own search."""
    return page(title, _articles(events, usage), what="this session")


def page(title: str, body: Iterable[str], *, what: str) -> Iterator[str]:
    """Render a page of articles with a search field; whatever the articles hold, only that search can run."""
    policy = (
        f"default-src 'none'; style-src '{_allowed(_STYLE)}'; script-src '{_allowed(_SCRIPT)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    name = escape(_heading(title))
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<header>\n<h1>{name}</h1>\n<input id="search" type="search" placeholder="Search" '
        f'aria-label="Search {escape(what)}" autocomplete="off">\n<p id="found" aria-live="polite"></p>\n'
        "</header>\n<main>\n"
    )
    yield from body
    yield f"</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"


def _articles(events: Iterable[Event | TornLine], usage: Usage) -> Iterator[str]:
    markdown = markdown_reader()
    for event, results in _with_results(_safe(events)):
        if isinstance(event, Started):
            facts = " · ".join(f"{name} {value}" for name, value in _about(event, usage))
            yield f"<p>{escape(facts)}</p>\n"
        elif isinstance(event, Summary | Compacted):
            yield (
                f'<article class="aside"><h2>summary · {escape(_when(event.time))}</h2>'
                f"<pre>{escape(event.text)}</pre></article>\n"
            )
        elif isinstance(event, MessageEvent):
            aside = " aside" if is_aside(event.message) else ""
            yield f'<article class="{event.message.role}{aside}"><h2>{escape(_who(event))}</h2>\n'
            for part in event.message.parts:
                yield _html(part, results, markdown) + "\n"
            yield "</article>\n"


def _with_results(events: Iterable[Event]) -> Iterator[tuple[Event, dict[str, ToolResult]]]:
    """Yield each event with the results of its calls; messages that hold only those results are left out."""
    pending: list[MessageEvent] = []
    results: dict[str, ToolResult] = {}
    for next_event in events:
        event = next_event
        if not isinstance(event, MessageEvent | Started | Summary | Compacted):
            continue
        open_ids = {
            call.id for waiting_event in pending for call in waiting_event.message.calls if call.id
        } - {*results}
        if isinstance(event, MessageEvent):
            own = {part.id: part for part in event.message.results if part.id in open_ids}
            results |= own
            rest = tuple(part for part in event.message.parts if part not in own.values())
            if own and not rest:
                continue
            event = replace(event, message=event.message._replace(parts=rest)) if own else event
            if open_ids - {*own} and event.message.calls and len(pending) < _HELD:
                pending.append(event)  # the calls of one answer may stand in several messages
                continue
        yield from ((waiting_event, results) for waiting_event in pending)
        pending, results = [], {}
        if isinstance(event, MessageEvent) and event.message.calls:
            pending.append(event)
        else:
            yield event, {}
    yield from ((waiting_event, results) for waiting_event in pending)


def _html(part: Part, results: Mapping[str, ToolResult], markdown: MarkdownIt) -> str:
    if isinstance(part, Text):
        return render_markdown(part.text, markdown)
    if isinstance(part, Image):
        return _picture(part)
    pictures = part.content if isinstance(part, ToolResult) else ()
    extra = "".join(_picture(each) for each in pictures if isinstance(each, Image))
    result = results.get(part.id) if isinstance(part, ToolCall) else None
    if result is not None:
        extra += _html(result._replace(name=""), {}, markdown)
    return (
        f"<details><summary>{escape(label(part))}</summary>"
        f"<pre>{escape(content_text(part))}</pre>{extra}</details>"
    )


def markdown_reader() -> MarkdownIt:
    """Return a Markdown parser for pages that allows no HTML, no pictures and only external links."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    made.disable("image")
    made.validateLink = lambda url: url.strip().lower().startswith(_LINKS)  # type: ignore[method-assign]  # how it is set
    return made


def render_markdown(text: str, markdown: MarkdownIt) -> str:
    """Return a Markdown text as HTML; a very long text is shown without formatting."""
    if len(text) > _RENDERED:
        return f"<pre>{escape(text)}</pre>"
    return str(markdown.render(_visible(text))).rstrip("\n")


def _picture(image: Image) -> str:
    """Return the HTML of a picture that is in the log; a picture elsewhere is named and not fetched."""
    if image.media_type in _PICTURES and _BASE64.fullmatch(image.data):
        return f'<img alt="" src="data:{image.media_type};base64,{"".join(image.data.split())}">'
    return f"<p>[{escape(label(image))}]</p>"


def _allowed(content: str) -> str:
    """Return the hash by which the page's security policy allows this script or style, and no others."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


# -------------------------------------------------------------------- texts


def _safe(events: Iterable[Event | TornLine]) -> Iterator[Event]:
    """Yield the events with secrets redacted; damaged lines are left out."""
    for event in events:
        if isinstance(event, Event):
            yield clean_event(event)


def _about(event: Started, usage: Usage) -> Iterator[tuple[str, str]]:
    for name in ("created", "agent", "model", "cwd", "project"):
        value = getattr(event, name)
        if value:
            yield name, _when(value) if name == "created" else value
    if usage.calls:
        yield "used", usage.tell()


def _when(time: str) -> str:
    """Return a time as people read it: to the minute, in UTC."""
    moment = clock.parse(time)
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if moment else time


def _who(event: MessageEvent) -> str:
    message = event.message
    parts = [str(message.role), message.name, message.model, _when(message.time or event.time)]
    return " · ".join(_heading(each) for each in parts if each)


def label(part: Part) -> str:
    """Return the title under which the web page folds a part of a message."""
    if isinstance(part, ToolCall):
        return f"{part.name or 'a tool'} {_short(part.arguments)}".strip()
    if isinstance(part, ToolResult):
        return f"{'error' if part.error else 'result'} {part.name} {_short(part.text)}".replace(
            "  ", " "
        ).strip()
    if isinstance(part, Image):
        return f"picture {part.media_type} {part.url if not part.url.startswith('data:') else ''}".strip()
    return "thoughts" if isinstance(part, Thinking) else "other"


def content_text(part: Part) -> str:
    """Return the text that the web page shows when a folded part is opened."""
    if isinstance(part, ToolCall):
        return _visible(_pretty(part.arguments))
    if isinstance(part, ToolResult):
        return _visible("\n".join(content_text(each) for each in part.content))
    if isinstance(part, Opaque):
        return _visible(json.dumps(part.value, ensure_ascii=False, indent=1, default=str))
    return _visible(part.text) if isinstance(part, Text | Thinking) else f"[{label(part)}]"


def _pretty(arguments: str) -> str:
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return json.dumps(value, ensure_ascii=False, indent=1)


def _short(text: str) -> str:
    line = " ".join(text[:400].split())
    return line if len(line) <= 80 else line[:79] + "…"


def _heading(text: str) -> str:
    return " ".join(_visible(text).split()) or "Session"


def _visible(text: str) -> str:
    """Return a text without characters that hide or reverse its content, or that a file cannot hold."""
    return _INVISIBLE.sub("", text)


def escape(text: str) -> str:
    """Return a text escaped for HTML, without characters that hide its content."""
    return html.escape(_visible(text), quote=True)


def format_line(line: Line, *, whole: bool = False) -> list[str]:
    """Return a line of a log as lines of text for a person.

    Without `whole`, long texts are cut, and events that are not part of the conversation give no lines.
    """
    at = f"{line.number}: " if line.number else ""
    if isinstance(line.event, kinds.TornLine):
        return [f"{at}[a torn line of {line.event.size:,} bytes: {line.event.why}]"]
    event = clean_event(line.event)  # before anything of it is cut
    if isinstance(event, MessageEvent):
        found = [f"\n{at}{event.message.role} · {event.time}"]
        for part in event.message.parts:
            if isinstance(part, Text):
                found.append(part.text if whole else _beginning(part.text))
            else:
                found.append(
                    f"  [{label(part)}]" if not whole else f"  [{label(part)}]\n{content_text(part)}"
                )
        return found
    if isinstance(event, Summary | Compacted):
        return [f"\n{at}summary · {event.time}", event.text if whole else _beginning(event.text)]
    if isinstance(event, kinds.Renamed):
        return [f"\n{at}renamed to {event.name}"]
    if isinstance(event, kinds.Ended):
        return [f"\n{at}ended ({event.why})"]
    if not whole:
        return []
    found = [f"\n{at}{event.kind} · {event.time}"]
    if isinstance(event, kinds.Checkpoint):
        items = (f"{item.get('title', '')} ({item.get('status', '')})" for item in event.todo)
        found += [f"task: {event.task}", *(f"to do: {each}" for each in items)]
        found += [f"call: {each}" for each in event.tools]
    return found


def _beginning(text: str) -> str:
    more = len(text) - _LONGEST
    return text if more <= 0 else f"{text[:_LONGEST]} … [{more:,} more characters]"
