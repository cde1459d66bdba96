"""Memory over HTTP: an API for programs and pages for people, in one process (`vade serve`).

For authors of views:

- A view is a module of `views/` with `VIEW = PageView(path, title, data, template)` from `pages`, and a row
  in `views/__init__.py`, in the order of the menu. A page of a single thing (`/records/{key}`) has
  `menu=False`.
- `data(ask: ViewRequest) -> dict` is a plain function, called in a thread with its own memory: `ask.memory`
  is the visitor's open `Memory` (with a person's origin on the page, an agent's through a token);
  `ask.query` is the query string (`ask.query.get("q", "")`, `.getlist("tag")`), `ask.path` the parts of the
  address in braces, `ask.visitor` the visitor. Its result must be JSON: it is the answer at `path.json`, and
  `data` in the template at `path`. Secrets are removed from it. A `VadeError` becomes a page or problem+json
  with its hint. `?project=ID` opens the memory of another known project.
- A template extends `base.html` and has `title`, `view`, `data`, `query`, `menu` (views), `door` (the
  session's URL prefix), `secret`, `version`, and the functions `at("/path")` for every address of a view
  (links, forms, images) and `static("style.css")` for files; the filter `markdown` renders a text safely.
  Everything is escaped; no inline script or style runs (CSP), nor any from elsewhere. Data for a script go
  into attributes (`data-…='{{ value|tojson }}'` is escaped) or are fetched.
- Addresses: a page lives below its session's URL prefix (`/~…/memories`), to which its cookie is bound.
  Never write `href="/memories"`, write `href="{{ at('/memories') }}"`. In scripts:
  `document.querySelector("meta[name=vade-door]").content + "/memories.json"`.
- The page calls the API below the same prefix, `{prefix}/api/v1/…`, with the header `Vade-Page`, whose value
  is the content of `meta[name=vade-page]`. Bodies are JSON. Every answer about one record or document has an
  `ETag`; every change needs it back in `If-Match` (428 without it). If the document was changed meanwhile,
  the answer is 409 with `current` (text and etag) and `yours`. `Idempotency-Key` (any 8 to 64 characters)
  makes a retried POST happen once.
- Errors are `application/problem+json`: `title`, `status`, `detail`, `hint`, `kind`; show `detail`, `hint`.
- A change that can be undone names a run (`"run": "…"`): `POST {prefix}/api/v1/runs/{run}/undo`. A forgotten
  record comes back by `POST {prefix}/api/v1/records/{key}/restore`.
- `new EventSource(prefix + "/api/v1/events")` sends changes: events named `change` with `{"kind": "record",
  "key": …, "path": …}`; it needs no header.
"""
