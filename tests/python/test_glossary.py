"""The check of words in sources and documents: it finds each word of its lists, and nothing in a clean text."""

from __future__ import annotations

from pathlib import Path

import glossary
import pytest

CLEAN = """
//! Rows of a fragment, changed in place. Repeated reads of one row are joined.
/// An [`Entry`] is the place where a row lives; some rows live there twice.
pub struct Entry<'a> { source: &'a [u8], one_of: char, replaced: bool }
impl Entry<'_> {
    fn update_in_place(&self, r#in: usize) -> Option<char> {
        let (quote, text) = ('"', "about\\" one, again");
        let raw = r#"place "there""#;
        let bytes = (b"twice", b'\\'', br"whole");
        /* place, some */ Some(quote).filter(|_| text.len() + raw.len() + bytes.0.len() > self.source.len() + r#in)
    }
}
"""


def words(source: str, path: str = "rust/x.rs") -> list[tuple[int, str]]:
    """Line and word of what is found."""
    return [(line, word) for line, word, _ in glossary.in_source(source, path)]


def camel(part: str) -> str:
    """A part of a name as it is in the name of a type."""
    return "".join(word.capitalize() for word in part.split("_"))


def test_a_clean_text_has_no_findings() -> None:
    assert words(CLEAN) == []


@pytest.mark.parametrize("name", glossary.NAMES)
def test_each_name_is_found_as_a_whole(name: str) -> None:
    assert words(f"let x = 1;\nlet {name} = 2;") == [(2, name)]
    assert words(f"/// It is in `{name}`.\nstruct X;") == [(1, name)]
    assert words(f"let x{name}x = 2;") == []


@pytest.mark.parametrize("part", glossary.PARTS)
def test_each_part_is_found_in_every_form(part: str) -> None:
    for name in (part, part.upper(), f"of_{part}", f"{part}_2", camel(part), f"Data{camel(part)}File"):
        assert (1, name) in words(f"fn x({name}: u8) {{}}"), name
    assert words(f"fn x(x{part.replace('_', 'x_x')}x: u8) {{}}") == []


@pytest.mark.parametrize("name", glossary.TYPES + glossary.OPERATIONS)
def test_a_bare_type_is_found_where_it_is_defined(name: str) -> None:
    assert words(f"use x::{name};\nstruct {name};\nenum Data{name} {{}}\n") == [(2, name)]
    assert words(f"use x::DataX as {name};") == [(1, name)]
    in_operations = words(f"struct {name};", f"{glossary.OPERATIONS_IN[0]}x.rs")
    assert in_operations == ([] if name in glossary.OPERATIONS else [(1, name)])


@pytest.mark.parametrize("phrase", glossary.PHRASES)
def test_each_phrase_is_found_in_comments_and_strings(phrase: str) -> None:
    first, _, rest = phrase.partition(" ")
    broken = f"{first}\n    /// {rest}" if rest else phrase
    for text in (f"// So {phrase}.", f"/* So {phrase.upper()}. */", f"/// So {broken}.", f'let x = "so {phrase}";'):
        assert (2, phrase) in words(f"let x = 1;\n{text}\n"), text
    assert words(f"// So x{phrase}x.") == []


def test_repetition_is_ordinary_where_nested_columns_are() -> None:
    assert words("// A repetition.\nlet repetition = 1;", "rust/datafile/src/x.rs") == []


@pytest.mark.parametrize("phrase", glossary.PHRASES)
def test_each_phrase_is_found_in_python_and_in_documents(phrase: str) -> None:
    broken = phrase.replace(" ", "\n    # ", 1)
    for text in (f"# So {broken}.", f'"""So {phrase.upper()}."""', f'x = f"so {phrase}"'):
        found = glossary.in_python(f"x = 1\nif x:\n    {text}\n", "tests/x.py")
        assert [(line, word) for line, word, _ in found] == [(3, phrase)], text
    document = glossary.READERS[".md"](f"# Title\n\nSo {phrase.replace(' ', chr(10))}.\n", "docs/x.md")
    assert [(line, word) for line, word, _ in document] == [(3, phrase)]


def test_names_of_python() -> None:
    source = "place = some = 1\n\n\ndef some(one): ...\n\n\nclass Plan: ...\n"
    found = [(line, word) for line, word, _ in glossary.in_python(source, "python/pennon/x.py")]
    assert found == [(1, "place"), (4, "some"), (7, "Plan")]
    assert list(glossary.in_python(source, "tests/python/x.py")) == []


def test_a_finding_names_its_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glossary, "TO_DO", ())
    folder = tmp_path / "benches" / "rust"
    folder.mkdir(parents=True)
    (folder / "places.rs").write_text("// Clean.\nfn rows() {}\n\nfn told() {}\n")
    found = [finding.removeprefix("benches/rust/places.rs") for finding in glossary.findings(tmp_path)]
    assert found == [f": places: write {glossary.PARTS['places']}", f":4: told: write {glossary.PARTS['told']}"]
