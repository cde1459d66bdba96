"""A LangGraph graph whose store is Vademecum: what its nodes put is Markdown that a person can read.

Needs no network: the node is a function.

    pip install "vademecum[langgraph]"
    python examples/graph_with_langgraph.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

try:
    from langgraph.graph import END, START, StateGraph
    from langgraph.store.base import BaseStore  # noqa: TC002  # LangGraph reads a node's annotations
    from typing_extensions import TypedDict
except ModuleNotFoundError as error:
    raise SystemExit(f"{error.name} is not installed: pip install 'vademecum[langgraph]'") from None

from vademecum import Memory
from vademecum.adapters.langgraph_store import RecordStore


class State(TypedDict):
    """What flows through the graph."""

    user: str
    said: str
    answer: str


def remember(state: State, *, store: BaseStore) -> dict[str, str]:
    """Look up what is known of this user, and keep what they said."""
    known = store.search(("users", state["user"]), query=state["said"], limit=1)
    store.put(("users", state["user"]), state["said"].split()[-1].strip("."), {"text": state["said"]})
    return {"answer": known[0].value["text"] if known else "nothing yet"}


def main() -> None:
    """Two runs of a graph, and what memory holds of them."""
    with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder, "home"), cwd=folder) as memory:
        store = RecordStore(memory)
        builder = StateGraph(State)
        builder.add_node("remember", remember)
        builder.add_edge(START, "remember")
        builder.add_edge("remember", END)
        graph = builder.compile(store=store)
        for said in ("I drink my coffee black.", "How do I drink my coffee?"):
            done = graph.invoke({"user": "ada", "said": said, "answer": ""})
            print(f"{said} -> {done['answer']}")
        print(store.list_namespaces())
        item = store.get(("users", "ada"), "black")
        print(item.value if item else None)
        print("as a record:", memory.list().records[0].path.rpartition("/")[2])


if __name__ == "__main__":
    main()
