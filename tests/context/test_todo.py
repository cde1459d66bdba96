"""The todo list: numbers stay, bad requests are refused with a hint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import every_case
from vademecum.context.todo import (
    TodoItem,
    TodoList,
    TodoStatus,
    add,
    done,
    from_json,
    operate,
    render,
    to_json,
    update,
    write,
)
from vademecum.errors import VadeError


def test_write_add_update_done_and_list() -> None:
    todo, text = operate(
        TodoList(), {"operation": "write", "items": ["read", {"title": "write", "status": "active"}]}
    )
    assert text == "[ ] 1. read\n[>] 2. write"
    todo, _ = operate(todo, {"operation": "add", "title": "check"})
    todo, _ = operate(todo, {"operation": "done", "id": 1})
    todo, _ = operate(todo, {"operation": "update", "id": "3", "title": "check it", "status": "blocked"})
    assert operate(todo, {"operation": "list"}) == (todo, "[x] 1. read\n[>] 2. write\n[!] 3. check it")
    assert [item.number for item in todo.open] == [2, 3]


def test_numbers_are_never_given_twice() -> None:
    todo = write(
        add(TodoList(), ["one", "two"]), [{"id": 2, "status": "done"}, "three", {"id": 2, "title": "again"}]
    )
    assert todo.items == (TodoItem(2, "two", TodoStatus.DONE), TodoItem(3, "three"), TodoItem(4, "again"))
    assert add(write(todo, []), ["next"]).items == (TodoItem(5, "next"),)


def test_an_empty_list_says_so() -> None:
    assert render(TodoList()) == "The to-do list is empty."


@every_case(
    "request_",
    [
        {"operation": "erase"},
        {"operation": "done", "id": 9},
        {"operation": "done"},
        {"operation": "update", "id": 1, "status": "perhaps"},
        {"operation": "update", "items": ["x"]},
        {"operation": "add", "title": "  \n"},
        {"operation": "write", "items": "all"},
        {"operation": "write", "items": [7]},
        {"operation": "add", "items": ["x"] * 500},
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_a_hint(request_: dict[str, Any]) -> None:
    with pytest.raises(VadeError) as caught:
        operate(add(TodoList(), ["one"]), request_)
    assert caught.value.hint


JSON = st.sampled_from([None, True, 1, 2, -1, 1e400, "", "1", "done", "x y", [], [1, 2], {"a": 1}])
ENTRIES = st.text(max_size=5) | st.dictionaries(st.sampled_from(["id", "title", "status"]), JSON)
REQUESTS = st.fixed_dictionaries(
    {"operation": st.sampled_from(["write", "add", "update", "done", "list"])},
    optional={"items": st.lists(ENTRIES, max_size=4), "id": JSON, "ids": JSON, "title": JSON, "status": JSON},
)


@settings(max_examples=200, deadline=None)
@given(st.lists(REQUESTS, max_size=8))
def test_whatever_an_agent_asks_the_list_stays_sound(requests: list[dict[str, Any]]) -> None:
    todo = TodoList()
    for each in requests:
        try:
            todo, text = operate(todo, each)
        except VadeError:
            continue
        numbers = [item.number for item in todo.items]
        assert len(set(numbers)) == len(numbers)
        assert all(0 < number < todo.next for number in numbers)
        assert len(text.splitlines()) == max(len(numbers), 1)
        assert from_json(json.loads(json.dumps(to_json(todo)))) == todo


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=5), st.data())
def test_doing_a_thing_twice_is_doing_it_once(titles: list[str], data: st.DataObject) -> None:
    todo = add(TodoList(), titles)
    number = data.draw(st.sampled_from([item.number for item in todo.items]))
    assert done(done(todo, number), number) == done(todo, number)
    assert update(todo, number) == todo
