//! How a page puts levels and values together: mini-block, full-zip, constant or blob (file format 4.4 to 4.8).
//!
//! Reading a page takes up to two passes, so that a read over many pages and columns needs two requests in all:
//! first the metadata of the page (chunk table, repetition index, dictionary), then the values themselves, which
//! local sources return block by block. The metadata of a mini-block page is kept for later reads. Only blobs take
//! a third pass.

pub(crate) mod blob;
mod constant;
mod full_zip;
mod mini_block;
mod nulls;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pennon_core::file::{CompressiveEncoding, PageLayout, PageMetadata};
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

pub(crate) use self::nulls::NullRead;
use crate::encodings::codec::{Codec, Scratch};
use crate::encodings::le::to_usize;
use crate::repdef::assemble::Levels;
use crate::source::{Fetch, Fetched};
use crate::values::{Data, Leaf, Physical, Values};

/// What is known of a page before its values are read.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The type it was prepared for.
    pub leaf: Leaf,
    /// Whether dictionary indices stay indices.
    pub keys_only: bool,
    form: Form,
}

#[derive(Debug)]
enum Form {
    MiniBlock(mini_block::Page),
    FullZip(full_zip::Page),
    Constant(constant::Page),
    /// The page of the descriptors.
    Blob(Box<Prepared>),
}

/// The destination of the values of a page.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    /// The type of the values.
    pub leaf: &'a Leaf,
    /// The values.
    pub values: &'a mut Values,
    /// The levels of the page's rows; empty at the start.
    pub levels: &'a mut Levels,
    /// Positions, counted from the start of `values`, of nulls whose dictionary index has no item.
    pub missing: &'a mut Vec<usize>,
    /// Memory to use again.
    pub scratch: &'a mut Scratch,
}

/// First pass of a page: what has been requested.
#[derive(Debug)]
pub(crate) struct First {
    prepared: Option<Arc<Prepared>>,
    tickets: Vec<usize>,
}

/// Second pass of a page.
#[derive(Debug)]
pub(crate) struct Second {
    prepared: Arc<Prepared>,
    plan: PagePlan,
}

#[derive(Debug)]
enum PagePlan {
    MiniBlock(mini_block::MiniBlockPlan),
    FullZip(full_zip::FullZipPlan),
    Constant(constant::ConstantPlan),
    /// Descriptors that are being read.
    Descriptors(Box<PagePlan>),
    Blob(blob::BlobPlan),
}

/// Items of a page's dictionary.
pub(crate) type Dictionary = Arc<Data>;

/// Requests what must be known before the values. The rows are relative to the page.
pub(crate) fn first(
    page: &PageMetadata,
    prepared: Option<Arc<Prepared>>,
    rows: &RowRanges,
    fetch: &mut Fetch,
) -> Result<First> {
    let tickets = match &page.layout {
        PageLayout::MiniBlock(layout) if prepared.is_none() => mini_block::first(page, layout, fetch)?,
        PageLayout::MiniBlock(_) => Vec::new(),
        PageLayout::FullZip(layout) => full_zip::first(page, layout, rows, fetch)?,
        PageLayout::Constant(_) => page.buffers.iter().map(|b| fetch.add(b.clone())).collect(),
        PageLayout::Blob { inner, layers } => {
            return first(&blob::descriptors(page, inner, layers)?, None, rows, fetch);
        }
        PageLayout::Array(_) => return Err(array_in_layout()),
    };
    Ok(First { prepared, tickets })
}

impl First {
    /// Requests the values. `bytes` is the result of the first pass.
    pub(crate) fn second(
        self,
        page: &PageMetadata,
        leaf: &Leaf,
        keys_only: bool,
        rows: &RowRanges,
        bytes: &[Bytes],
        fetch: &mut Fetch,
    ) -> Result<Second> {
        let got: Vec<Bytes> = self.tickets.iter().filter_map(|&t| bytes.get(t).cloned()).collect();
        let prepared = match self.prepared {
            Some(prepared) => prepared,
            None => Arc::new(Prepared::new(page, leaf, keys_only, &got)?),
        };
        let plan = prepared.plan(page, rows, &got, fetch)?;
        Ok(Second { prepared, plan })
    }
}

impl Prepared {
    /// Checks a page. `got` are the bytes of the first pass.
    fn new(page: &PageMetadata, leaf: &Leaf, keys_only: bool, got: &[Bytes]) -> Result<Self> {
        let form = match &page.layout {
            PageLayout::MiniBlock(layout) => {
                Form::MiniBlock(mini_block::Page::new(page, layout, leaf, keys_only, got)?)
            }
            PageLayout::FullZip(layout) => Form::FullZip(full_zip::Page::new(layout, leaf)?),
            PageLayout::Constant(layout) => Form::Constant(constant::Page::new(page, layout, leaf, got)?),
            PageLayout::Blob { inner, layers } => {
                let page = blob::descriptors(page, inner, layers)?;
                Form::Blob(Box::new(Self::new(&page, &blob::descriptor_leaf()?, false, got)?))
            }
            PageLayout::Array(_) => return Err(array_in_layout()),
        };
        Ok(Self { leaf: leaf.clone(), keys_only, form })
    }

    /// Requests the values.
    fn plan(
        &self,
        page: &PageMetadata,
        rows: &RowRanges,
        got: &[Bytes],
        fetch: &mut Fetch,
    ) -> Result<PagePlan> {
        match (&self.form, &page.layout) {
            (Form::MiniBlock(form), _) => Ok(PagePlan::MiniBlock(form.second(page, rows, fetch)?)),
            (Form::FullZip(form), _) => Ok(PagePlan::FullZip(form.second(page, rows, got, fetch)?)),
            (Form::Constant(_), PageLayout::Constant(layout)) => {
                Ok(PagePlan::Constant(constant::ConstantPlan::new(page, layout, got)?))
            }
            (Form::Blob(descriptors), PageLayout::Blob { inner, layers }) => {
                let page = blob::descriptors(page, inner, layers)?;
                Ok(PagePlan::Descriptors(Box::new(descriptors.plan(&page, rows, got, fetch)?)))
            }
            _ => Err(Error::internal("a page was prepared with another layout")),
        }
    }

    /// Decodes the rows.
    fn decode(
        &self,
        plan: PagePlan,
        rows: &RowRanges,
        bytes: &mut Fetched<'_>,
        out: Output<'_>,
    ) -> Result<()> {
        match (&self.form, plan) {
            (Form::MiniBlock(form), PagePlan::MiniBlock(plan)) => form.decode(&plan, rows, bytes, out),
            (Form::FullZip(form), PagePlan::FullZip(plan)) => form.decode(&plan, rows, bytes, out),
            (Form::Constant(form), PagePlan::Constant(plan)) => form.decode(plan, rows, out),
            _ => Err(Error::internal("a page was planned with another layout")),
        }
    }
}

impl Second {
    /// What is known of the page now.
    pub(crate) fn prepared(&self) -> &Arc<Prepared> {
        &self.prepared
    }

    /// Requests the bytes of blobs, whose positions are in `bytes`, the result of the second pass. For descriptions
    /// nothing is requested.
    pub(crate) fn third(
        &mut self,
        rows: &RowRanges,
        bytes: &mut Fetched<'_>,
        file_size: u64,
        fetch: &mut Fetch,
    ) -> Result<()> {
        if !matches!(self.plan, PagePlan::Descriptors(_)) {
            return Ok(());
        }
        let nothing = PagePlan::Blob(blob::BlobPlan::default());
        if let (Form::Blob(page), PagePlan::Descriptors(plan)) =
            (&self.prepared.form, std::mem::replace(&mut self.plan, nothing))
        {
            let count = row_count(rows)?;
            let mut values = Values::with_capacity(&page.leaf, count)?;
            let out = Output {
                leaf: &page.leaf,
                values: &mut values,
                levels: &mut Levels::default(),
                missing: &mut Vec::new(),
                scratch: &mut Scratch::default(),
            };
            page.decode(*plan, rows, bytes, out)?;
            let mut blobs = blob::BlobPlan::new(&values, count, file_size)?;
            if self.prepared.leaf.physical != Physical::Packed {
                blobs.request(fetch);
            }
            self.plan = PagePlan::Blob(blobs);
        }
        Ok(())
    }

    /// Bytes of the values of these rows, about; 0 where the layout does not tell before they are decoded.
    pub(crate) fn value_bytes(&self, rows: &RowRanges) -> Result<usize> {
        match (&self.prepared.form, &self.plan) {
            (Form::MiniBlock(form), PagePlan::MiniBlock(plan)) => form.bytes_of(plan, row_count(rows)?),
            (Form::FullZip(_), PagePlan::FullZip(plan)) => to_usize(plan.bytes()),
            _ => Ok(0),
        }
    }

    /// Decodes the rows. `bytes` is the result of the second pass, `blobs` that of the third.
    pub(crate) fn decode(
        self,
        rows: &RowRanges,
        bytes: &mut Fetched<'_>,
        blobs: &[Bytes],
        out: Output<'_>,
    ) -> Result<()> {
        match self.plan {
            PagePlan::Blob(plan) => plan.decode(rows, blobs, out),
            plan => self.prepared.decode(plan, rows, bytes, out),
        }
    }
}

impl Prepared {
    /// Bytes of memory it holds, about.
    pub(crate) fn memory_size(&self) -> usize {
        let form = match &self.form {
            Form::MiniBlock(form) => form.memory_size(),
            Form::FullZip(_) => 2048,
            Form::Constant(_) => 64,
            Form::Blob(descriptors) => descriptors.memory_size(),
        };
        size_of::<Self>() + form
    }

    /// The dictionary of the page and the bytes of an index, if indices stay as they are.
    pub(crate) fn dictionary(&self) -> Option<&(Dictionary, usize)> {
        match &self.form {
            Form::MiniBlock(form) => form.dictionary(),
            _ => None,
        }
    }
}

/// Arrays occur only in files of version 2.0, which `array_encoding` reads.
fn array_in_layout() -> Error {
    Error::internal("an array of file version 2.0 as a page layout")
}

/// How many rows there are.
fn row_count(rows: &RowRanges) -> Result<usize> {
    to_usize(rows.count())
}

/// Compiles the codec of levels.
fn level_codec(encoding: &CompressiveEncoding) -> Result<Codec> {
    Codec::compile(encoding, Physical::Fixed(2), &[])
}

/// A buffer for levels.
fn level_buffer() -> Result<Data> {
    Data::with_capacity(Physical::Fixed(2), 0)
}

/// Decodes `n` levels into a buffer of [`level_buffer`] and returns them.
fn decode_levels<'a>(codec: &Codec, bytes: &[u8], n: usize, buffer: &'a mut Data) -> Result<&'a [u16]> {
    if let Data::Fixed { bytes, .. } = buffer {
        bytes.clear();
    }
    codec.append_block(bytes, n, buffer)?;
    match buffer {
        Data::Fixed { bytes, .. } if bytes.len() == 2 * n => Ok(bytes.typed_data()),
        _ => Err(Error::corrupt(format!("fewer than {n} levels"))),
    }
}

/// The buffer of a page. Errors: `Corrupt` when the page has no such buffer.
fn buffer(page: &PageMetadata, index: usize) -> Result<Range<u64>> {
    page.buffers.get(index).cloned().ok_or_else(|| {
        Error::corrupt(format!("{} buffers, the layout needs a buffer {index}", page.buffers.len()))
    })
}

/// Part of a buffer as a range of the file. Errors: `Corrupt` when the buffer is shorter.
fn within(buffer: &Range<u64>, part: Range<u64>) -> Result<Range<u64>> {
    match (buffer.start.checked_add(part.start), buffer.start.checked_add(part.end)) {
        (Some(start), Some(end)) if start <= end && end <= buffer.end => Ok(start..end),
        _ => Err(Error::corrupt(format!(
            "bytes {} to {} of a buffer of {} bytes",
            part.start,
            part.end,
            buffer.end.saturating_sub(buffer.start)
        ))),
    }
}

/// Bytes of an integer value of this encoding.
fn index_width(encoding: &CompressiveEncoding) -> Result<usize> {
    use CompressiveEncoding as E;
    let bits = match encoding {
        E::Flat { bits_per_value } => *bits_per_value,
        E::InlineBitpacking { uncompressed_bits } | E::OutOfLineBitpacking { uncompressed_bits, .. } => {
            *uncompressed_bits
        }
        E::Rle { values, .. } | E::ByteStreamSplit { values } => return index_width(values),
        E::General(general) => return index_width(&general.values),
        other => {
            return Err(Error::unsupported(format!(
                "dictionary indices in the form {other:?} cannot be read"
            )));
        }
    };
    match bits {
        8 => Ok(1),
        16 => Ok(2),
        32 => Ok(4),
        64 => Ok(8),
        _ => Err(Error::corrupt(format!("dictionary indices of {bits} bits"))),
    }
}

/// Counts visible positions before a position that only grows.
#[derive(Debug)]
struct VisibleCounter<'a> {
    def: &'a [u16],
    max_visible: u16,
    at: usize,
    count: usize,
}

impl<'a> VisibleCounter<'a> {
    /// With no definition levels everything is visible.
    fn new(def: &'a [u16], max_visible: u16) -> Self {
        Self { def, max_visible, at: 0, count: 0 }
    }

    /// Visible positions before `position`.
    fn before(&mut self, position: usize) -> usize {
        if self.def.is_empty() {
            return position;
        }
        let passed = self.def.get(self.at..position).unwrap_or_default();
        self.count += passed.iter().filter(|&&d| d <= self.max_visible).count();
        self.at = position.max(self.at);
        self.count
    }
}
