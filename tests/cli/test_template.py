"""Templates of topics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.cli.replay import FieldError, Template, TemplateError


@pytest.mark.parametrize(
    ("template", "record", "topic"),
    [
        ("/zeek/{_path}", {"_path": "dns"}, "/zeek/dns"),
        ("{a}", {"a": "x"}, "x"),
        ("/{a}/{b}/{a}", {"a": "x", "b": 5}, "/x/5/x"),
        ("/fixed", {}, "/fixed"),
        ("/{{not}}/{a}", {"a": "x"}, "/{not}/x"),
        ("/{{}}", {}, "/{}"),
        ("/{a}", {"a": True}, "/true"),
        ("/{a}", {"a": 1.5}, "/1.5"),
        ("/{a}", {"a": -3}, "/-3"),
        ("/{a}", {"a": ""}, "/"),
        ("/{a} b/", {"a": "x"}, "/x b/"),
    ],
)
def test_fields_are_filled(template: str, record: dict[str, object], topic: str) -> None:
    """Texts, integers, floats and booleans fill a field; double braces are braces; no field is fine, too."""
    assert Template(template).fill(record) == topic


def test_a_flat_name_with_dots_comes_first() -> None:
    """`id.orig_h` is a field of its own, as Zeek writes it; only without it do the dots lead into nested maps."""
    fill = Template("/{id.orig_h}").fill
    assert fill({"id.orig_h": "flat", "id": {"orig_h": "nested"}}) == "/flat"
    assert fill({"id": {"orig_h": "nested"}}) == "/nested"


@pytest.mark.parametrize(
    ("template", "record", "reason"),
    [
        ("/{a}", {}, "field 'a' is missing"),
        ("/{a.b}", {"a": 5}, "field 'a.b' is missing"),
        ("/{a.b}", {"a": {}}, "field 'a.b' is missing"),
        ("/{a}", {"a": None}, "field 'a' is null"),
        ("/{a}", {"a": [1]}, "field 'a' is a list, a topic takes texts and numbers"),
        ("/{a}", {"a": {}}, "field 'a' is a map, a topic takes texts and numbers"),
        ("/{a}/{b}", {"a": "x"}, "field 'b' is missing"),
    ],
)
def test_a_record_that_does_not_fit_names_the_field(template: str, record: dict[str, object], reason: str) -> None:
    """What is missing, null or no scalar is an error that says which field and why."""
    with pytest.raises(FieldError) as caught:
        Template(template).fill(record)
    assert str(caught.value) == reason


@pytest.mark.parametrize("template", ["/{", "/}", "/{a", "/a}", "/{}", "/{a{b}}", "/{{a}"])
def test_a_template_with_loose_braces_is_refused(template: str) -> None:
    """A brace without its other half, or around nothing, is an error at the start, not at the first record."""
    with pytest.raises(TemplateError):
        Template(template)


def test_the_fields_are_known() -> None:
    """A template tells its fields, in order."""
    assert Template("/{b}/{{x}}/{a}").fields == ("b", "a")


@given(before=st.text("/ab{}"), value=st.text(), after=st.text("/ab{}"))
def test_filling_is_concatenation(before: str, value: str, after: str) -> None:
    """Whatever the text around a field is, doubled braces keep it, and the value is put in as it is."""
    template = before.replace("{", "{{").replace("}", "}}") + "{f}" + after.replace("{", "{{").replace("}", "}}")
    assert Template(template).fill({"f": value}) == before + value + after
