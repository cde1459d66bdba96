"""A memory that cites code is held against the code."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.knowledge import citations
from vademecum.knowledge.citations import ProjectTree, Standing

CODE = "def connect():\n    pool = open_pool()\n    return pool\n\n\nclass RetryPolicy:\n    limit = 3\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src" / "db").mkdir(parents=True)
    (tmp_path / "src" / "db" / "pool.py").write_text(CODE)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "setup.md").write_text("# Setup\n")
    (tmp_path / "node_modules" / "left").mkdir(parents=True)
    (tmp_path / "node_modules" / "left" / "forgotten_name.js").write_text("forgotten_name")
    return tmp_path


def standings(text: str, root: Path, marks: dict[str, str] | None = None) -> dict[str, str]:
    tree = ProjectTree(root)
    found = citations.check_claims(citations.find_claims(text, tree=tree), tree, marks=marks)
    return {each.claim.cited: str(each.standing) for each in found}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The pool lives in src/db/pool.py.", {"src/db/pool.py": "verified"}),
        ("See ./docs/setup.md first", {"./docs/setup.md": "verified"}),
        ("Everything is below src/db/", {"src/db/": "verified"}),
        ("It was in src/old/gone.py once", {"src/old/gone.py": "gone"}),
        ("It is in lib/db/pool.py", {"lib/db/pool.py": "moved"}),
        ("`connect()` opens the pool", {"connect()": "verified"}),
        ("`RetryPolicy` bounds it, `OldPolicy` did before", {"RetryPolicy": "verified", "OldPolicy": "gone"}),
        ("`db.open_pool` is slow", {"db.open_pool": "verified"}),
        ("src/db/pool.py#L1-L3 opens it", {"src/db/pool.py#L1-L3": "verified"}),
        ("src/db/pool.py:2 is the line", {"src/db/pool.py:2": "verified"}),
        ("src/db/pool.py#L90-L99 was it", {"src/db/pool.py#L90-L99": "changed"}),
        ("pool.py has it", {"pool.py": "verified"}),
        ("db/pool.py has it", {"db/pool.py": "verified"}),  # from the folder of the sources
    ],
)
def test_how_a_claim_stands(text: str, expected: dict[str, str], root: Path) -> None:
    assert standings(text, root) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("src/db/pool.py allows four retries (the limit of RetryPolicy).", {"limit = 4": "changed"}),
        ("The limit is 3 in src/db/pool.py.", {}),  # as it is
        ("The server listens on port 8080 (config/web.yaml).", {"port = 8080": "changed"}),
        ("config/web.yaml: the cache backend is `redis`.", {"backend = redis": "changed"}),
        ("config/web.yaml lists 12 hosts, and each has a name.", {}),
        ("There are 4 of them in src/db/pool.py, so mind the time limit of the shell.", {}),
        ("In src/db/pool.py the pool is a `semaphore` of ours.", {}),
        ("`RetryPolicy` in docs/setup.md is explained.", {"RetryPolicy": "moved"}),
        ("Everything below attic/ is built by hand.", {"attic/": "gone"}),
        ("Django keeps its models in django/db/models.py.", {}),
    ],
)
def test_of_a_text_of_which_nothing_was_kept_values_names_and_folders_are_told(
    text: str, expected: dict[str, str], root: Path
) -> None:
    (root / "config").mkdir()
    (root / "config" / "web.yaml").write_text("port: 9090\ncache:\n  backend: memcached\n")
    (root / "docs" / "setup.md").write_text("# Setup\n")
    found = {cited: how for cited, how in standings(text, root).items() if how != "verified"}
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Set `APP_DEBUG=1` for a traceback.", {}),  # only a message names it, with words behind
        ("`APP_DEBUG = 1` gives a traceback.", {}),
        ("Run `APP_LEVEL=7 make test`.", {}),  # what to set for a command
        ("`DATABASE_URL=postgres://localhost/x` is read at the start.", {}),
        ("`APP_LEVEL = 7` is the level.", {"APP_LEVEL = 7": "changed"}),
        ("app/main.py has `APP_LEVEL=7`.", {"APP_LEVEL = 7": "changed"}),
        ("`redacted: words` is what the page shows.", {}),  # its type stands there, not its value
        ("`handler = later` is passed on.", {}),  # an expression
        ("`title: other` is the title.", {"title = other": "changed"}),
    ],
)
def test_only_a_plain_value_in_code_can_be_another_than_a_text_says(
    text: str, expected: dict[str, str], root: Path
) -> None:
    (root / "app").mkdir()
    (root / "app" / "main.py").write_text(
        "APP_LEVEL = 5\nredacted: bool\nhandler = lambda n: call(n)\ntitle = 'this'\n"
        "print('set APP_DEBUG=1 to see where')\nurl = os.environ['DATABASE_URL']\n"
    )
    found = {cited: how for cited, how in standings(text, root).items() if how != "verified"}
    assert found == expected


def test_what_to_set_for_a_command_and_names_of_a_language_are_not_kept_as_claims(root: Path) -> None:
    text = "Set `APP_LEVEL=5` and look at what `print()` writes; `len()` counts."
    (root / "app.py").write_text("APP_LEVEL = 5\nprint(APP_LEVEL)\n")
    assert citations.mark_claims(text, ProjectTree(root)) == {}
    kept = {"print()": citations.WAS_THERE}  # written by hand
    (root / "app.py").write_text("APP_LEVEL = 6\n")
    tree = ProjectTree(root)
    assert (
        citations.check_claims([x.claim for x in citations.find_stated(text, tree=tree, marks=kept)], tree)
        == []
    )


def test_a_project_that_defines_a_name_of_the_language_is_held_to_it(root: Path) -> None:
    (root / "src" / "db" / "out.py").write_text("def print():\n    pass\n")
    marks = citations.mark_claims("`print()` is ours.", ProjectTree(root))
    assert marks == {"print()": "src/db/out.py"}
    (root / "src" / "db" / "out.py").write_text("")
    tree = ProjectTree(root)
    stated = [each.claim for each in citations.find_stated("`print()` is ours.", tree=tree, marks=marks)]
    assert [each.standing for each in citations.check_claims(stated, tree)] == [Standing.GONE]


@pytest.mark.parametrize(
    "text",
    [
        "TCP/IP and/or UDP; see https://example.org/src/old/gone.py or example.org/page.html",
        "mail me at someone@example.org, version 1.2.3, at 10:30, in 2026/11/15",
        "```\nsrc/old/gone.py\n`OldPolicy`\n```\n",
        "use `pytest` and `make` and `true` with `--force`",
        "../../etc/passwd and /etc/passwd and ~/notes/a.md",
        "the owner/name form",
        "e.g. this, i.e. that, etc.",
    ],
)
def test_what_is_no_claim_about_this_tree(text: str, root: Path) -> None:
    assert standings(text, root) == {}


def test_what_tools_put_into_the_tree_proves_nothing(root: Path) -> None:
    assert standings("`forgotten_name` does it", root) == {"forgotten_name": "gone"}


def test_a_link_out_of_the_tree_is_not_followed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.py").write_text("secret_name = 1\n")
    (root / "src" / "link.py").symlink_to(outside / "secret.py")
    (root / "linked").symlink_to(outside)
    assert standings("`secret_name` and linked/secret.py", root)["secret_name"] == "gone"
    tree = ProjectTree(root)
    assert tree.read("linked/secret.py") is None
    assert tree.read("src/link.py") is None


def test_lines_that_moved_are_found_again_and_changed_ones_are_told(root: Path) -> None:
    text = "src/db/pool.py#L1-L3 opens the pool"
    marks = citations.mark_claims(text, ProjectTree(root))
    assert citations.parse_marks(citations.render_marks(marks)) == marks
    assert standings(text, root, marks) == {"src/db/pool.py#L1-L3": "verified"}
    (root / "src" / "db" / "pool.py").write_text("import os\n\n" + CODE)
    tree = ProjectTree(root)
    moved = citations.check_claims(citations.find_claims(text, tree=tree), tree, marks=marks)[0]
    assert moved.standing is Standing.MOVED
    assert "src/db/pool.py#L3-L5" in moved.why
    (root / "src" / "db" / "pool.py").write_text(CODE.replace("open_pool", "make_pool"))
    assert standings(text, root, marks) == {"src/db/pool.py#L1-L3": "changed"}
    (root / "src" / "db" / "pool.py").unlink()
    assert standings(text, root, marks) == {"src/db/pool.py#L1-L3": "gone"}


def test_an_indentation_is_no_change(root: Path) -> None:
    text = "src/db/pool.py#L1-L3"
    marks = citations.mark_claims(text, ProjectTree(root))
    (root / "src" / "db" / "pool.py").write_text("\n".join(f"    {line}" for line in CODE.split("\n")))
    assert standings(text, root, marks) == {text: "verified"}


def test_without_time_nothing_is_called_gone(root: Path) -> None:
    tree = ProjectTree(root, seconds=0.0)
    found = citations.check_claims(citations.find_claims("`OldPolicy` and `RetryPolicy`", tree=tree), tree)
    assert found == []
    assert not tree.whole


def test_the_worst_claim_is_told_first(root: Path) -> None:
    tree = ProjectTree(root)
    found = citations.check_claims(
        citations.find_claims("src/db/pool.py and src/old/gone.py", tree=tree), tree
    )
    assert any(each.standing is Standing.GONE for each in found)


@given(st.text(max_size=300))
def test_any_text_can_be_asked(text: str) -> None:
    tree = ProjectTree(Path(__file__).parent)
    for each in citations.check_claims(citations.find_claims(text, tree=tree), tree):
        assert each.claim.path


@pytest.mark.full
@given(
    st.dictionaries(
        st.from_regex(r"[a-z/]{1,20}\.py#L[1-9]", fullmatch=True),
        st.from_regex(r"[0-9a-f]{12}", fullmatch=True),
    )
)
def test_marks_come_back_as_they_were(marks: dict[str, str]) -> None:
    assert citations.parse_marks(citations.render_marks(marks)) == marks
