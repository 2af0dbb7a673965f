"""What labels may look like, and how a set of them stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import InvalidNameError
from hub.names.grammar import LABEL_LIMIT_BYTES, LABELS_LIMIT, check_label, check_labels


@pytest.mark.parametrize("label", ["a", "type=dns", "ä" * 64, "a" * LABEL_LIMIT_BYTES, "with a space", "/a/b"])
def test_labels(label: str) -> None:
    assert check_label(label) == label


@pytest.mark.parametrize(
    ("label", "cause"),
    [
        ("", "is empty"),
        ("a" * 129, "is 129 bytes long, the limit is 128 bytes"),
        ("ä" * 65, "is 130 bytes long"),
        ("a\nb", r"U\+000A at character 1"),
        ("\x7f", r"U\+007F"),
        ("\ud800", r"U\+D800"),
    ],
)
def test_no_labels(label: str, cause: str) -> None:
    with pytest.raises(InvalidNameError, match=cause):
        check_label(label)


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", min_codepoint=0xA0) | st.sampled_from("abc"), min_size=1, max_size=8),
        max_size=40,
    )
)
def test_a_set_of_labels_is_in_the_order_of_its_bytes(labels: list[str]) -> None:
    distinct = set(labels)
    if len(distinct) > LABELS_LIMIT:
        with pytest.raises(InvalidNameError, match=f"{len(distinct)} labels, the limit is 32"):
            check_labels(labels)
        return
    checked = check_labels(labels)
    assert checked == check_labels(reversed(labels))
    assert [label.encode() for label in checked] == sorted({label.encode() for label in labels})
