"""The language of the search box: any text is refused by name, or means the same when it is written again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.admin.search_syntax import LONGEST, MOST, SearchError, Term, parse, written

#: Texts that come near the language: its own signs, and what surrounds them.
NEAR = st.text(alphabet='ab:."\\- *#<0\n', max_size=60)
LIKE_IT = st.lists(
    st.sampled_from(["type:a", '-queue:"b c"', "payload.x:", 'payload."y z".0:*', '"', "after:2h", "-", "x"])
)
TERMS = st.lists(
    st.builds(
        Term,
        value=st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=40),
        key=st.sampled_from(["", "type", "error", "id", "payload"]),
        path=st.just(()),
        quoted=st.just(True),
        negated=st.booleans(),
    ).flatmap(lambda term: paths(term) if term.key == "payload" else st.just(term)),
    max_size=5,
)


def paths(term: Term) -> st.SearchStrategy[Term]:
    """Return the term with any path."""
    names = st.lists(
        st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=10),
        min_size=1, max_size=3,
    )  # fmt: skip
    return names.map(lambda path: Term(term.value, "payload", tuple(path), quoted=True, negated=term.negated))


@given(st.one_of(st.text(max_size=200), NEAR, LIKE_IT.map(" ".join)))
def test_any_text_is_refused_by_name_or_means_the_same_when_written_again(text: str) -> None:
    try:
        terms = parse(text)
    except SearchError as error:
        terms = ()
        refusal = f"{error.term}: {error.rule}"
        assert str(error) == refusal  # noqa: PT017 - most texts are no error

    assert parse(written(terms)) == terms


@given(TERMS)
def test_any_terms_can_be_written(terms: list[Term]) -> None:
    assert parse(written(terms)) == tuple(terms)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        ("  ", ()),
        ("timeout", (Term("timeout"),)),
        ("type:documents.*  -queue:mail", (Term("documents.*", "type"), Term("mail", "queue", negated=True))),
        ('"out of memory"', (Term("out of memory", quoted=True),)),
        ('key:"say \\"hi\\" \\\\ twice"', (Term('say "hi" \\ twice', "key", quoted=True),)),
        ("key:index:a.pdf", (Term("index:a.pdf", "key"),)),
        ("payload.account.id:123", (Term("123", "payload", ("account", "id")),)),
        ('payload."odd name".0:*', (Term("*", "payload", ("odd name", "0")),)),
        ("no\x00thing", (Term("nothing"),)),
    ],
)
def test_terms_are_read(text: str, terms: tuple[Term, ...]) -> None:
    assert parse(text) == terms


@pytest.mark.parametrize(
    ("text", "term", "rule"),
    [
        ("queue:mail colour:red", "colour:red", "there is no key “colour”"),
        ("http://x", "http://x", "there is no key “http”"),
        ("type:", "type:", "a value is missing"),
        ("-", "-", "a value is missing"),
        ('"no end', '"no', "ends with a quote"),
        ('""', '""', "nothing within"),
        ('a"b', 'a"b', "a quote stands before"),
        ("payload:x", "payload:x", "by a path"),
        ("payload.a", "payload.a", "by a path"),
        ("payload." + "a." * 10 + "a:x", "payload." + "a." * 10 + "a:x", "10 names"),
        ("x" * (LONGEST + 1), "x" * 20 + "…", "1000 characters"),
        ("y " * MOST + "z", "z", "20 terms"),
    ],
)
def test_an_error_names_the_term_and_the_rule(text: str, term: str, rule: str) -> None:
    with pytest.raises(SearchError) as caught:
        parse(text)

    assert caught.value.term == term
    assert rule in caught.value.rule
