"""Memory over HTTP: an API for programs and pages for people, in one process (`vade serve`).

For whoever writes a view:

- A view is a module of `views/` with `VIEW = PageView(path, title, data, template)` from `pages`, and its row
  in `views/__init__.py`, in the order of the menu. A page of one thing (`/records/{key}`) has `menu=False`.
- `data(ask: Ask) -> dict` is a plain function, called in a thread with a memory of its own: `ask.memory` is
  an open `Memory` of whoever asks (a person's word on the page, an agent's through a token); `ask.query` are
  the words behind `?` (`ask.query.get("q", "")`, `.getlist("tag")`), `ask.path` the parts of the address in
  braces, `ask.visitor` who it is. What it returns can be written as JSON: it is the answer at `path.json`,
  and `data` in the template at `path`. Secrets are taken out of it on the way. A `VadeError` becomes a page
  or problem+json with its hint. `?project=ID` opens the memory of another known project.
- A template extends `base.html` and has `title`, `view`, `data`, `query`, `menu` (views), `door`, `secret`,
  `version`, and the functions `at("/path")` for every address of ours (links, forms, images of views) and
  `static("style.css")` for files; the filter `markdown` renders a text safely. Everything is escaped; no
  inline script or style runs (CSP), nor any from elsewhere. Data for a script go into attributes
  (`data-…='{{ value|tojson }}'` is escaped) or are fetched.
- Addresses: a page lives below a door of its session (`/~…/memories`), which its cookie is bound to. Never
  write `href="/memories"`, write `href="{{ at('/memories') }}"`. In scripts:
  `document.querySelector("meta[name=vade-door]").content + "/memories.json"`.
- The page calls the API below the same door, `{door}/api/v1/…`, with the header `Vade-Page`, whose value is
  the content of `meta[name=vade-page]`. Bodies are JSON. Every answer about one record or document has an
  `ETag`; every change of one needs it back in `If-Match` (428 without it). When it was changed meanwhile the
  answer is 409 with `current` (text and etag) and `yours`. `Idempotency-Key` (any 8 to 64 characters) makes a
  retried POST happen once.
- Errors are `application/problem+json`: `title`, `status`, `detail`, `hint`, `kind`; show `detail`, `hint`.
- What can be taken back names a run (`"run": "…"`): `POST {door}/api/v1/runs/{run}/undo`. A forgotten record
  comes back by `POST {door}/api/v1/records/{key}/restore`.
- `new EventSource(door + "/api/v1/events")` tells what changed: events named `change` with
  `{"kind": "record", "key": …, "path": …}`; it needs no header.
"""
