//! One leaf column of a read: its pages through both passes, then its array and layers.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::file::{Layer, PageLayout, PageMetadata};
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};

use super::dictionary;
use crate::encodings::codec::Scratch;
use crate::layout::{First, NullRead, Output, Prepared, Second};
use crate::repdef;
use crate::repdef::assemble::{Assembler, Levels, PathLayer};
use crate::source::{Fetch, Fetched};
use crate::values::{Leaf, Physical, Values, leaf_array};

/// A leaf column of a read.
#[derive(Debug)]
pub(super) struct LeafColumn {
    /// Dotted path of the field, for errors.
    pub(super) path: String,
    pub(super) column: u32,
    pub(super) data_type: DataType,
    /// The leaf and the layers around it, innermost first.
    pub(super) layers: Vec<PathLayer>,
    /// Positions of the column for one of each layer around the leaf, innermost first: more than 1 from a fixed-size
    /// list of structs on outwards.
    pub(super) repeated: Vec<usize>,
    /// Of a struct in one column: its members there.
    pub(super) members: Vec<Field>,
}

impl LeafColumn {
    /// Positions of the column for a row.
    pub(super) fn per_row(&self) -> u64 {
        self.repeated.last().map_or(1, |&n| n as u64)
    }
}

/// A leaf column while it is read.
#[derive(Debug)]
pub(super) struct ColumnRead<'a> {
    source: &'a LeafColumn,
    /// The values as they are stored: of a dictionary, its items.
    leaf: Leaf,
    rows: usize,
    pages: Vec<PageRead<'a>>,
}

#[derive(Debug)]
struct PageRead<'a> {
    page: usize,
    metadata: &'a PageMetadata,
    rows: RowRanges,
    first: Option<First>,
    second: Option<Second>,
    /// Instead of both, where only nulls are asked for.
    nulls: Option<NullRead>,
}

/// The array of a leaf and what is around it.
#[derive(Debug)]
pub(super) struct LeafArray {
    /// The values, nulls of the leaf itself included.
    pub array: ArrayRef,
    /// The layers around the leaf, outermost first, each with its length.
    pub layers: Vec<LayerArray>,
}

/// A layer around a leaf.
#[derive(Debug)]
pub(super) struct LayerArray {
    /// Positions.
    pub len: usize,
    /// Null buffer, if there are nulls.
    pub nulls: Option<NullBuffer>,
    /// Offsets of a list.
    pub offsets: Option<Vec<i64>>,
}

impl LayerArray {
    /// Keeps every n-th position.
    fn downsample(&mut self, n: usize) {
        if n > 1 {
            self.len /= n;
            let every = |nulls: NullBuffer| (0..self.len).map(|at| nulls.is_valid(at * n)).collect();
            self.nulls = self.nulls.take().map(every);
        }
    }
}

impl<'a> ColumnRead<'a> {
    /// A column of which that many rows are read.
    pub(super) fn new(source: &'a LeafColumn, rows: usize) -> Result<Self> {
        let leaf = match &source.data_type {
            DataType::Dictionary(_, items) => Leaf::of(items)?,
            other => Leaf::of(other)?,
        };
        Ok(Self { source, leaf, rows, pages: Vec::new() })
    }

    /// Index of the column in the file.
    pub(super) fn column(&self) -> u32 {
        self.source.column
    }

    /// Whether the values are indices and items.
    pub(super) fn keys_only(&self) -> bool {
        matches!(self.source.data_type, DataType::Dictionary(..))
    }

    /// Whether a page was prepared for this type.
    pub(super) fn fits(&self, prepared: &Prepared) -> bool {
        prepared.keys_only == self.keys_only() && prepared.leaf == self.leaf
    }

    /// Adds the next page.
    pub(super) fn push(&mut self, page: usize, metadata: &'a PageMetadata, rows: RowRanges, first: First) {
        self.pages.push(PageRead { page, metadata, rows, first: Some(first), second: None, nulls: None });
    }

    /// Adds the next page, of which no values are read.
    pub(super) fn push_nulls(
        &mut self,
        page: usize,
        metadata: &'a PageMetadata,
        rows: RowRanges,
        nulls: NullRead,
    ) {
        self.pages.push(PageRead { page, metadata, rows, first: None, second: None, nulls: Some(nulls) });
    }

    /// Takes the bytes of the first pass and requests those of the second.
    pub(super) fn advance(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<()> {
        let keys_only = self.keys_only();
        for page in &mut self.pages {
            if let Some(nulls) = &mut page.nulls {
                nulls.advance(bytes);
            }
            let Some(first) = page.first.take() else { continue };
            let location = || location(self.source, page.page, page.metadata);
            let second =
                first.second(page.metadata, &self.leaf, keys_only, &page.rows, bytes, fetch).at(location)?;
            page.second = Some(second);
        }
        Ok(())
    }

    /// Takes the bytes of the second pass and requests those of blobs, unless these are only described.
    pub(super) fn blobs(&mut self, bytes: &mut Fetched<'_>, file_size: u64, fetch: &mut Fetch) -> Result<()> {
        for page in &mut self.pages {
            if let Some(second) = &mut page.second {
                second
                    .third(&page.rows, bytes, file_size, fetch)
                    .at(|| location(self.source, page.page, page.metadata))?;
            }
        }
        Ok(())
    }

    /// The pages and what is known of them.
    pub(super) fn prepared(&self) -> impl Iterator<Item = (usize, &Arc<Prepared>)> {
        self.pages.iter().filter_map(|p| p.second.as_ref().map(|s| (p.page, s.prepared())))
    }

    /// Bytes of the values, about.
    fn value_bytes(&self) -> Result<usize> {
        let pages = self.pages.iter().filter_map(|page| Some((page.second.as_ref()?, &page.rows)));
        pages
            .map(|(second, rows)| second.value_bytes(rows))
            .try_fold(0, |sum: usize, n| Ok(sum.saturating_add(n?)))
    }

    /// Takes the bytes of the second and third pass and builds the array. `most` is the size of the file.
    pub(super) fn finish(self, bytes: &mut Fetched<'_>, blobs: &[Bytes], most: u64) -> Result<LeafArray> {
        if self.keys_only() { self.finish_keys(bytes, blobs) } else { self.finish_values(bytes, blobs, most) }
    }

    /// Indices and items of each page, put together in the end.
    fn finish_keys(self, bytes: &mut Fetched<'_>, blobs: &[Bytes]) -> Result<LeafArray> {
        let Self { source, leaf, rows, pages } = self;
        let mut layers = LayersRead::new(source, &leaf);
        let mut pieces = Vec::with_capacity(pages.len());
        let (mut missing, mut scratch) = (Vec::new(), Scratch::default());
        for page in pages {
            let location = || location(source, page.page, page.metadata);
            let Some(second) = page.second else { continue };
            let prepared = Arc::clone(second.prepared());
            let items = prepared.dictionary();
            let physical = items.map_or(leaf.physical, |(_, width)| Physical::Fixed(*width));
            let mut values = Values::with_capacity(&Leaf { physical, ..leaf.clone() }, 0)?;
            let mut levels = Levels::default();
            missing.clear();
            let out = Output {
                leaf: &leaf,
                values: &mut values,
                levels: &mut levels,
                missing: &mut missing,
                scratch: &mut scratch,
            };
            second.decode(&page.rows, bytes, blobs, out).at(location)?;
            let items = items.map(|(items, _)| items.as_ref());
            let piece = dictionary::piece(&source.data_type, &leaf, values, items, &mut missing);
            pieces.push(piece.at(location)?);
            check_missing(&missing, 0, page.metadata, &levels).at(location)?;
            layers.append(page.metadata, &mut levels).at(location)?;
        }
        layers.finish(rows, |_, nulls| dictionary::join(&source.data_type, &pieces, nulls))
    }

    /// The values of all pages, one after another.
    fn finish_values(self, bytes: &mut Fetched<'_>, blobs: &[Bytes], most: u64) -> Result<LeafArray> {
        let mut values = Values::with_capacity(&self.leaf, self.rows)?;
        if self.pages.len() > 1 {
            // Room for all pages at once: values are not moved when the next page comes.
            values
                .data
                .reserve_bytes(self.value_bytes()?.min(usize::try_from(most).unwrap_or(usize::MAX)))?;
        }
        let Self { source, leaf, rows, pages } = self;
        let mut layers = LayersRead::new(source, &leaf);
        let (mut missing, mut scratch) = (Vec::new(), Scratch::default());
        for page in pages {
            let location = || location(source, page.page, page.metadata);
            let mut levels = Levels::default();
            if let Some(nulls) = page.nulls {
                nulls.decode(&leaf, &page.rows, &mut values, &mut levels).at(location)?;
            } else if let Some(second) = page.second {
                let before = values.data.count();
                missing.clear();
                let out = Output {
                    leaf: &leaf,
                    values: &mut values,
                    levels: &mut levels,
                    missing: &mut missing,
                    scratch: &mut scratch,
                };
                second.decode(&page.rows, bytes, blobs, out).at(location)?;
                check_missing(&missing, before, page.metadata, &levels).at(location)?;
            } else {
                continue;
            }
            layers.append(page.metadata, &mut levels).at(location)?;
        }
        layers.finish(rows, |len, nulls| leaf_array(&leaf, values, len, nulls))
    }
}

/// The layers of a leaf and around it, while pages are added.
#[derive(Debug)]
struct LayersRead<'a> {
    source: &'a LeafColumn,
    assembler: Assembler,
    /// Whether the leaf is anything but a struct without members: that is stored as all null and is never null.
    has_members: bool,
    /// The layers where nothing is stored of them: of structs around one without members.
    valid: Option<Vec<Layer>>,
}

impl<'a> LayersRead<'a> {
    fn new(source: &'a LeafColumn, leaf: &Leaf) -> Self {
        let has_members = !matches!(&leaf.data_type, DataType::Struct(members) if members.is_empty());
        let is_stored = has_members || source.layers.iter().any(|layer| layer.is_list());
        let valid = (!is_stored).then(|| vec![Layer::AllValidItem; source.layers.len()]);
        Self { source, assembler: Assembler::new(&source.layers), has_members, valid }
    }

    /// Adds the levels of a page.
    fn append(&mut self, page: &PageMetadata, levels: &mut Levels) -> Result<()> {
        match &self.valid {
            None => self.assembler.append(layers_of(&page.layout), levels),
            Some(valid) => {
                levels.def.clear();
                self.assembler.append(valid, levels)
            }
        }
    }

    /// The array of so many rows, of the number of its values and their nulls, and what is around it.
    fn finish(
        self,
        rows: usize,
        array_of: impl FnOnce(usize, Option<NullBuffer>) -> Result<ArrayRef>,
    ) -> Result<LeafArray> {
        let source = self.source;
        let around = || format!("field `{}` (column {})", source.path, source.column);
        let mut layers = self.assembler.finish().into_iter().map(|layer| {
            let len = layer.len();
            let (nulls, offsets) = layer.finish();
            LayerArray { len, nulls, offsets }
        });
        let leaf = layers.next().ok_or_else(|| Error::internal("a leaf without layer"))?;
        let array = array_of(leaf.len, leaf.nulls.filter(|_| self.has_members)).at(around)?;
        let mut layers: Vec<LayerArray> = layers.collect();
        let outermost = layers.last().map_or(leaf.len, |l| l.len);
        if array.len() != leaf.len || outermost != rows {
            return Err(Error::corrupt(format!(
                "{} values of {} positions in {outermost} rows, {rows} rows were asked",
                array.len(),
                leaf.len
            ))
            .at(around()));
        }
        for (layer, &repeated) in layers.iter_mut().zip(&source.repeated) {
            layer.downsample(repeated);
        }
        layers.reverse();
        Ok(LeafArray { array, layers })
    }
}

fn layers_of(layout: &PageLayout) -> &[Layer] {
    match layout {
        PageLayout::MiniBlock(layout) => &layout.layers,
        PageLayout::Constant(layout) => &layout.layers,
        PageLayout::FullZip(layout) => &layout.layers,
        PageLayout::Blob { layers, .. } => layers,
        PageLayout::Array(_) => &[],
    }
}

/// Errors: `Corrupt` if a value that is not null has a dictionary index without item.
fn check_missing(missing: &[usize], base: usize, page: &PageMetadata, levels: &Levels) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let max_visible = repdef::max_visible(&repdef::bounds(layers_of(&page.layout))?);
    let visible: Vec<u16> = levels.def.iter().copied().filter(|&d| d <= max_visible).collect();
    match missing
        .iter()
        .find(|&&position| position.checked_sub(base).and_then(|p| visible.get(p)).is_none_or(|&d| d == 0))
    {
        Some(_) => Err(Error::corrupt("a dictionary index without item")),
        None => Ok(()),
    }
}

fn location(source: &LeafColumn, page: usize, metadata: &PageMetadata) -> String {
    let layout = match &metadata.layout {
        PageLayout::MiniBlock(_) => "mini-block",
        PageLayout::Constant(_) => "constant",
        PageLayout::FullZip(_) => "full-zip",
        PageLayout::Blob { .. } => "blob",
        PageLayout::Array(array) => array.name(),
    };
    let at = metadata.buffers.first().map_or(String::new(), |b| format!(" at {}", b.start));
    format!("field `{}` (column {}): {layout} page {page}{at}", source.path, source.column)
}
