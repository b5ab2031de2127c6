"""How destinations are typed again where files have moved."""

import pytest
from bindery.markdown.link_typing import Form, Style, read_form, write_form
from conftest import Case
from hypothesis import assume, given
from hypothesis import strategies as st


@pytest.mark.cases("destinations.txt")
def test_a_destination_is_typed_anew_in_its_own_way(case: Case) -> None:
    """What the author chose stays, and moving back gives what was there."""
    raw, style, *places = (field.strip() for field in case.given.split(" | "))
    here, new_here, target = ("" if place == "-" else place for place in places)
    assert style in ("bare", "html", "srcset")
    form = read_form(raw, style, here)  # type: ignore[arg-type]
    if form is None:
        case.expect("no path")
        return
    written = write_form(form, new_here, target or form.path)
    again = read_form(written, style, new_here)  # type: ignore[arg-type]
    assert again is not None
    assert again.path == (target or form.path)
    back = write_form(again, here, form.path)
    case.expect(f"{written}\n{back}")


NAMES = st.sampled_from(("a", "b", "c d", "é", "e(1)", "f%", "g#1", "h&amp;", "i|j", "..k"))
FOLDERS = st.lists(NAMES, max_size=4).map("/".join)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(FOLDERS, FOLDERS, PATHS, PATHS, st.sampled_from(("bare", "html")))
def test_every_destination_leads_where_it_should(
    here: str, new_here: str, path: str, new_path: str, style: Style
) -> None:
    """Whatever moves where, what is written is read as the path that is meant, and moving back
    gives what was typed."""
    assume(not f"{here}/".startswith(f"{path}/"))  # a file is not a folder
    typed = write_form(Form(path, style, "", False, "#x", ()), here, path)
    form = read_form(typed, style, here)
    assert form is not None
    written = write_form(form, new_here, new_path)
    again = read_form(written, style, new_here)
    assert again is not None
    assert (again.path, again.tail) == (new_path, "#x")
    assert write_form(again, here, path) == typed
