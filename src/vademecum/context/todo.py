"""The agent's to-do list as an immutable value, and the operations on it.

Numbers are never reused, so that "done 3" means the same before and after a trim.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import InvalidText, NotFound, UnknownName
from vademecum.transcripts.events import Todo as Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vademecum.transcripts import Json, Log
    from vademecum.transcripts.events import Items

OPERATIONS = ("write", "update", "add", "list", "done")
_TITLE_CHARS = 300
_ITEMS = 200


class TodoStatus(StrEnum):
    """The state of an item of the to-do list."""

    PENDING = "pending"
    ACTIVE = "in-progress"
    BLOCKED = "blocked"
    DONE = "done"


_OTHER_NAMES = {
    "in_progress": TodoStatus.ACTIVE,
    "active": TodoStatus.ACTIVE,
    "not-started": TodoStatus.PENDING,
    "open": TodoStatus.PENDING,
    "todo": TodoStatus.PENDING,
    "completed": TodoStatus.DONE,
    "complete": TodoStatus.DONE,
}
_BOXES = {
    TodoStatus.PENDING: "[ ]",
    TodoStatus.ACTIVE: "[>]",
    TodoStatus.BLOCKED: "[!]",
    TodoStatus.DONE: "[x]",
}


class TodoItem(NamedTuple):
    """An item of the to-do list."""

    number: int
    title: str
    status: TodoStatus = TodoStatus.PENDING


class TodoList(NamedTuple):
    """The items of the to-do list, and the next number to assign."""

    items: tuple[TodoItem, ...] = ()
    next: int = 1

    @property
    def open(self) -> tuple[TodoItem, ...]:
        """The items that are not done."""
        return tuple(item for item in self.items if item.status is not TodoStatus.DONE)


def write(todo: TodoList, entries: Iterable[str | Mapping[str, Json]]) -> TodoList:
    """Return a list with these entries only.

    An entry with a known number changes that item; other entries become new items.
    """
    present = {item.number: item for item in todo.items}
    made = TodoList((), todo.next)
    for entry in entries:
        title, status, number = _read(entry)
        if number in present and all(item.number != number for item in made.items):
            item = TodoItem(number, title or present[number].title, status or present[number].status)
            made = made._replace(items=(*made.items, item))
        else:
            made = _append(made, title, status)
    return made


def add(todo: TodoList, entries: Iterable[str | Mapping[str, Json]]) -> TodoList:
    """Return the list with new items at its end."""
    for entry in entries:
        title, status, _ = _read(entry)
        todo = _append(todo, title, status)
    return todo


def update(todo: TodoList, number: int, *, title: str | None = None, status: str | None = None) -> TodoList:
    """Return the list with the title, the status, or both of one item changed."""
    found = _find(todo, number)
    changed = TodoItem(
        number,
        found.title if title is None else _title(title),
        found.status if status is None else _status(status),
    )
    return todo._replace(items=tuple(changed if item.number == number else item for item in todo.items))


def done(todo: TodoList, number: int) -> TodoList:
    """Return the list with one item marked as done."""
    return update(todo, number, status=TodoStatus.DONE)


def operate(todo: TodoList, request: Mapping[str, Json]) -> tuple[TodoList, str]:
    """Run the operation that an agent's JSON request names; return the new list and its text."""
    operation = str(request.get("operation", "list"))
    entries = request.get("items", request.get("todos", []))
    if operation not in OPERATIONS:
        raise UnknownName(
            f"there is no todo operation {operation!r}", hint=f"use one of {', '.join(OPERATIONS)}"
        )
    if not isinstance(entries, list):
        raise InvalidText("`items` must be a list", hint='pass `items` as ["first thing", "second thing"]')
    if operation == "write":
        todo = write(todo, entries)
    elif operation == "add":
        todo = add(todo, entries or [request.get("title", "")])
    elif operation == "update":
        todo = _update_all(todo, entries or [request])
    elif operation == "done":
        numbers = request.get("ids")
        for each in numbers if isinstance(numbers, list) else [request.get("id")]:
            todo = done(todo, _number(each))
    return todo, render(todo)


def render(todo: TodoList) -> str:
    """Return the list as text for an agent."""
    if not todo.items:
        return "The to-do list is empty."
    return "\n".join(f"{_BOXES[item.status]} {item.number}. {item.title}" for item in todo.items)


def to_json(todo: TodoList) -> dict[str, Json]:
    """Return a list in the JSON form that the transcript holds."""
    items = [{"id": item.number, "title": item.title, "status": str(item.status)} for item in todo.items]
    return {"items": items, "next": todo.next}


def from_json(value: Mapping[str, Json]) -> TodoList:
    """Return the list that a transcript's JSON holds; raise ValueError, KeyError or TypeError for anything
    else.
    """
    items = tuple(
        TodoItem(int(each["id"]), str(each["title"]), TodoStatus(each["status"])) for each in value["items"]
    )
    return TodoList(items, max([int(value.get("next", 1)), *(item.number + 1 for item in items)]))


def from_items(items: Items) -> TodoList:
    """Return the list of an event of a log; an empty one when the event is damaged."""
    try:
        return from_json({"items": items})
    except (ValueError, KeyError, TypeError):
        return TodoList()


def read_log(log: Log) -> TodoList:
    """Return the newest to-do list in a session's log; an empty list if there is none or it is damaged."""
    last = None
    for raw in log.raw():
        last = raw if raw.kind == Event.kind else last
    event = last.read() if last else None
    if not isinstance(event, Event):
        return TodoList()
    try:
        return from_json({"items": event.items, "next": event.next or 1})
    except (ValueError, KeyError, TypeError):
        return TodoList()


def _update_all(todo: TodoList, entries: Iterable[Json]) -> TodoList:
    for entry in entries:
        if not isinstance(entry, dict):
            raise InvalidText("an update needs an object", hint='pass {"id": 3, "status": "done"}')
        todo = update(todo, _number(entry.get("id")), title=entry.get("title"), status=entry.get("status"))
    return todo


def _append(todo: TodoList, title: str, status: TodoStatus | None) -> TodoList:
    if len(todo.items) >= _ITEMS:
        raise InvalidText(f"the list already has {_ITEMS} items", hint="write a shorter list")
    item = TodoItem(todo.next, _title(title), status or TodoStatus.PENDING)
    return TodoList((*todo.items, item), todo.next + 1)


def _read(entry: str | Mapping[str, Json]) -> tuple[str, TodoStatus | None, int | None]:
    if isinstance(entry, str):
        return _title(entry), None, None
    if not hasattr(entry, "get"):
        raise InvalidText("an item is a text or an object with a title", hint='pass {"title": "what to do"}')
    title = str(entry.get("title") or entry.get("content") or entry.get("text") or "")
    status = _status(entry["status"]) if entry.get("status") else None
    number = entry.get("id")
    known = number if isinstance(number, int) and not isinstance(number, bool) else None
    return " ".join(title.split())[:_TITLE_CHARS], status, known


def _title(text: Json) -> str:
    found = " ".join(str(text).split())[:_TITLE_CHARS]
    if not found:
        raise InvalidText("a to-do item needs a title", hint="pass a title")
    return found


def _status(text: Json) -> TodoStatus:
    word = str(text).strip().lower()
    try:
        return _OTHER_NAMES.get(word) or TodoStatus(word)
    except ValueError as error:
        names = ", ".join(TodoStatus)
        raise UnknownName(f"there is no status {word!r}", hint=f"use one of {names}") from error


def _number(value: Json) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise NotFound(f"{value!r} is not the number of a to-do item", hint="list them first") from error


def _find(todo: TodoList, number: int) -> TodoItem:
    found = next((item for item in todo.items if item.number == number), None)
    if found is None:
        have = ", ".join(str(item.number) for item in todo.items) or "none"
        raise NotFound(f"there is no to-do item with number {number}", hint=f"there are: {have}")
    return found
