"""Our `NamedTuple` does what that of `typing` does, for classes that both can make."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing

import pytest

from vademecum.named_tuple import NamedTuple


class Ours(NamedTuple):
    """A place."""

    x: int
    name: str = "here"

    @property
    def shout(self) -> str:
        """The name, louder."""
        return self.name.upper()


class Theirs(typing.NamedTuple):
    """A place."""

    x: int
    name: str = "here"


def test_a_value_is_made_shown_changed_and_compared_as_by_typing() -> None:
    made, other = Ours(1), Theirs(1)
    assert repr(made) == repr(other).replace("Theirs", "Ours")
    assert tuple(made) == tuple(other)
    assert hash(made) == hash(other) == hash((1, "here"))
    assert (made.shout, made._fields, made._asdict()) == ("HERE", other._fields, other._asdict())
    assert made._replace(name="there") == Ours(name="there", x=1) == Ours._make([1, "there"])
    assert Ours._field_defaults == Theirs._field_defaults
    assert str(inspect.signature(Ours)) == "(x: 'int', name: 'str' = 'here')"
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert type(copy.copy(made)) is type(pickle.loads(pickle.dumps(made))) is Ours
    match made:
        case Ours(x, name):
            assert (x, name) == (1, "here")


@pytest.mark.parametrize("made", [Ours, Theirs])
def test_wrong_arguments_are_refused_as_by_typing(made: type) -> None:
    for wrong in ((), (1, "a", 2)):
        with pytest.raises(TypeError, match="positional argument"):
            made(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        made(1, colour="red")
    with pytest.raises((TypeError, ValueError), match="colour"):
        made(1)._replace(colour="red")


@pytest.mark.parametrize("count", range(18))
def test_a_class_has_as_many_fields_as_are_written(count: int) -> None:
    names = [f"field_{number}" for number in range(count)]
    space: dict[str, object] = {"NamedTuple": NamedTuple, "__name__": __name__}
    exec("class Made(NamedTuple):\n    ''\n" + "".join(f"    {name}: int\n" for name in names), space)
    made = space["Made"]
    assert isinstance(made, type)
    assert made(*range(count)) == tuple(range(count))
    assert [getattr(made(**dict.fromkeys(names, 7)), name) for name in names] == [7] * count


def test_a_field_without_a_default_after_one_with_a_default_is_refused() -> None:
    with pytest.raises(TypeError, match="without a default"):
        exec("class Made(NamedTuple):\n    first: int = 1\n    second: int\n", {"NamedTuple": NamedTuple})
