//! Indices of three letters: which texts have them.
//!
//! | file | columns |
//! |---|---|
//! | `ngram_postings.lance` | `tokens` u32: three letters or digits; `posting_list`: the rows whose text has them |
//!
//! Texts are put into lower case and letters with accents become those without. A token is 37² times the first
//! character, 37 times the second and once the third, of which a digit counts from 1 on and a letter from 11 on; token 0 has
//! the rows without a text. Sets of rows are stored as [`RowSet::encode_treemap`] says.
//!
//! A searched text is looked up by its letters and digits of ASCII, which no reading of texts changes.

use std::io::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, UInt32Array};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use pennon_core::file::FileVersion;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};
use pennon_datafile::{Ahead, ColumnMap, FileReader};

use crate::answer::Answer;
use crate::files::{AHEAD, IndexFiles, SetsWriter, WrittenFile, column};
use crate::row_set::RowSet;
use crate::value_test::ValueTest;

const FILE: &str = "ngram_postings.lance";

/// An index of three letters that was opened: its tokens are in memory, their rows are read when they are needed.
#[derive(Debug)]
pub struct NGramIndex {
    reader: FileReader,
    postings: Field,
    columns: ColumnMap,
    /// With the row of the file of each, by token.
    tokens: Vec<(u32, u64)>,
    name: String,
}

impl NGramIndex {
    /// Reads the tokens. Errors: `NotFound`, `Store`, and `Corrupt` with the name of the file.
    pub fn open(files: &dyn IndexFiles) -> Result<Self> {
        let source = files.open(FILE)?;
        let name = source.name().to_owned();
        let reader = FileReader::open_ahead(source, Ahead::Held(AHEAD))?;
        Self::of_file(reader, &name).map_err(|e| e.in_file(name))
    }

    fn of_file(reader: FileReader, name: &str) -> Result<Self> {
        let (tokens, postings) = (column(&reader, "tokens")?, column(&reader, "posting_list")?);
        let columns = reader.column_map();
        let all = RowRanges::from(0..reader.metadata().num_rows);
        let read = reader.read(&[tokens], &columns, &all)?;
        let tokens = read.first().and_then(|array| array.as_primitive_opt::<UInt32Type>());
        let tokens = tokens.ok_or_else(|| Error::corrupt("`tokens` is not uint32"))?;
        let mut tokens: Vec<(u32, u64)> =
            tokens.iter().zip(0..).filter_map(|(token, row)| Some((token?, row))).collect();
        tokens.sort_unstable();
        let mut pairs = tokens.iter().zip(tokens.iter().skip(1));
        if let Some(((token, _), _)) = pairs.find(|((before, _), (token, _))| before == token) {
            return Err(Error::corrupt(format!("the token {token} is there twice")));
        }
        Ok(Self { reader, postings, columns, tokens, name: name.to_owned() })
    }

    /// How many tokens there are.
    pub fn num_tokens(&self) -> usize {
        self.tokens.len()
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        self.tokens.len() * size_of::<(u32, u64)>() + self.reader.memory_size()
    }

    /// The rows whose text may have some bytes in it; `None` for other tests, and for bytes without three letters.
    ///
    /// Errors: `Store`, and `Corrupt` with the name of the file.
    pub fn search(&self, test: &ValueTest) -> Result<Option<Answer>> {
        let ValueTest::Contains(bytes) = test else { return Ok(None) };
        let wanted = tokens_of(bytes);
        if wanted.is_empty() {
            return Ok(None);
        }
        let row = |token: &u32| {
            let at = self.tokens.binary_search_by_key(token, |(token, _)| *token).ok()?;
            self.tokens.get(at).map(|(_, row)| *row)
        };
        let Some(rows) = wanted.iter().map(row).collect::<Option<RowRanges>>() else {
            return Ok(Some(Answer::candidates(RowSet::new())));
        };
        let sets = self.sets(&rows)?.into_iter();
        let all = sets.reduce(|all, set| all.intersection(&set));
        Ok(Some(Answer::candidates(all.unwrap_or_default())))
    }

    /// Every token with its rows, some at a time. Errors: those of [`Self::search`].
    pub fn scan(&self, give: &mut dyn FnMut(u32, RowSet) -> Result<()>) -> Result<()> {
        const AT_ONCE: usize = 1024;
        for tokens in self.tokens.chunks(AT_ONCE) {
            let mut by_row: Vec<(u64, u32)> = tokens.iter().map(|(token, row)| (*row, *token)).collect();
            by_row.sort_unstable();
            let rows: RowRanges = by_row.iter().map(|(row, _)| *row).collect();
            for ((_, token), set) in by_row.into_iter().zip(self.sets(&rows)?) {
                give(token, set)?;
            }
        }
        Ok(())
    }

    /// The sets of some rows of the file.
    fn sets(&self, rows: &RowRanges) -> Result<Vec<RowSet>> {
        let corrupt = |message: &str| Error::corrupt(message).in_file(&self.name);
        let read = self.reader.read(std::slice::from_ref(&self.postings), &self.columns, rows)?;
        let postings = read.first().and_then(|array| array.as_binary_opt::<i32>());
        let postings = postings.ok_or_else(|| corrupt("`posting_list` is not binary"))?;
        if postings.null_count() > 0 {
            return Err(corrupt("a token has no rows"));
        }
        let set = |bytes: Option<&[u8]>| RowSet::decode_treemap(bytes.unwrap_or_default());
        postings.iter().map(|bytes| set(bytes).map_err(|e| e.in_file(&self.name))).collect()
    }
}

/// The tokens of a text, as far as it is ASCII: ascending, each once.
pub(crate) fn tokens_of(text: &[u8]) -> Vec<u32> {
    let number = |byte: &u8| match byte.to_ascii_lowercase() {
        digit @ b'0'..=b'9' => Some(u32::from(digit - b'0') + 1),
        letter @ b'a'..=b'z' => Some(u32::from(letter - b'a') + 11),
        _ => None,
    };
    let token = |window: &[u8]| window.iter().try_fold(0_u32, |token, byte| Some(token * 37 + number(byte)?));
    let mut tokens: Vec<u32> = text.windows(3).filter_map(token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

/// Writes the file of an index of three letters.
pub struct NGramWriter<W> {
    sets: SetsWriter<W>,
    /// Tokens that are not written yet.
    tokens: Vec<u32>,
}

impl<W: Write> NGramWriter<W> {
    /// A writer. Errors: those of [`pennon_datafile::FileWriter::try_new`].
    pub fn try_new(sink: W, version: FileVersion) -> Result<Self> {
        let stored = [("lance-encoding:compression".to_owned(), "none".to_owned())];
        let schema = ArrowSchema::new(vec![
            ArrowField::new("tokens", DataType::UInt32, true),
            ArrowField::new("posting_list", DataType::Binary, false).with_metadata(stored.into()),
        ]);
        Ok(Self { sets: SetsWriter::try_new(sink, schema, version)?, tokens: Vec::new() })
    }

    /// Appends a token with its rows.
    pub fn write(&mut self, token: u32, rows: &RowSet) -> Result<()> {
        self.sets.push(rows.encode_treemap()?);
        self.tokens.push(token);
        if self.sets.is_full() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.tokens.is_empty() {
            return Ok(());
        }
        self.sets.flush(Arc::new(UInt32Array::from(std::mem::take(&mut self.tokens))))
    }

    /// Writes what is left. The sink is flushed, not synced.
    pub fn finish(mut self) -> Result<WrittenFile<W>> {
        self.flush()?;
        self.sets.finish(FILE)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use pennon_datafile::{ByteSource, MemorySource};
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    struct File(Vec<u8>);

    impl IndexFiles for File {
        fn open(&self, name: &str) -> Result<Arc<dyn ByteSource>> {
            Ok(Arc::new(MemorySource::new(name, self.0.clone())))
        }
    }

    fn written(texts: &[Option<String>]) -> File {
        let mut sets: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (row, text) in texts.iter().enumerate() {
            let tokens = text.as_ref().map_or(vec![0], |text| tokens_of(text.as_bytes()));
            tokens.into_iter().for_each(|token| sets.entry(token).or_default().push(row as u64 * 3));
        }
        let mut writer = NGramWriter::try_new(Vec::new(), FileVersion::V2_1).unwrap();
        for (token, rows) in sets {
            writer.write(token, &RowSet::of(rows)).unwrap();
        }
        File(writer.finish().unwrap().sink)
    }

    #[test]
    fn tokens_of_the_reference() {
        assert_eq!(tokens_of(b"abc"), [15516]);
        assert_eq!(tokens_of(b"HEL"), [25219]);
        assert_eq!(tokens_of(b"ab"), Vec::<u32>::new());
        assert_eq!(tokens_of("ab-cde\u{e4}bc".as_bytes()), tokens_of(b"cde"));
        assert_eq!(tokens_of(b"000"), [37 * 37 + 37 + 1]);
    }

    proptest! {
        #[test]
        fn no_text_is_missed(
            texts in proptest::collection::vec(proptest::option::weighted(0.9, "[abAB-]{0,8}"), 0..30),
            part in "[abAB-]{0,5}",
        ) {
            let index = NGramIndex::open(&written(&texts)).unwrap();
            let test = ValueTest::Contains(part.clone().into_bytes());
            let contains = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains(&part));
            match index.search(&test).unwrap() {
                None => prop_assert!(tokens_of(part.as_bytes()).is_empty()),
                Some(answer) => {
                    for (row, _) in texts.iter().enumerate().filter(|(_, text)| contains(text)) {
                        prop_assert!(answer.rows.contains(row as u64 * 3), "{:?}", texts[row]);
                    }
                }
            }
            let mut found = BTreeSet::new();
            index
                .scan(&mut |token, set| {
                    found.insert((token, set.len()));
                    Ok(())
                })
                .unwrap();
            prop_assert_eq!(found.len(), index.num_tokens());
        }
    }

    #[test]
    fn damaged_files_are_an_error_or_give_rows() {
        let texts: Vec<Option<String>> = (0..60).map(|n| Some(format!("text {}", n * 7919 % 61))).collect();
        let good = written(&texts).0;
        let test = ValueTest::Contains(b"tex".to_vec());
        for at in 0..good.len() {
            for change in [1_u8, 0x80] {
                let mut damaged = good.clone();
                damaged[at] ^= change;
                let Ok(index) = NGramIndex::open(&File(damaged)) else { continue };
                drop(index.search(&test));
            }
        }
        for end in 0..good.len() {
            let searched =
                NGramIndex::open(&File(good[..end].to_vec())).and_then(|index| index.search(&test));
            assert!(searched.is_err(), "cut at {end}");
        }
    }
}
