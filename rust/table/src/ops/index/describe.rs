//! What indices a version has, and how far they reach.

use std::collections::BTreeMap;
use std::sync::Arc;

use pennon_core::manifest::IndexMetadata;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::wire::vector_index::VectorIndexDetails;
use pennon_core::{Error, Result};
use pennon_datafile::statistics::Bound;
use pennon_index::{IndexKind, ScalarIndex, VectorIndexKind, VectorModel};
use roaring::RoaringBitmap;

use super::vectors::VectorStatistics;
use super::{live_rows, vectors};
use crate::dataset::Dataset;
use crate::indices::{Coverage, Segment, is_about_the_index, kind_of, pass_over, segments};
use crate::runtime::blocking;
use crate::versions::snapshot::Snapshot;

/// A segment of an index.
#[derive(Debug, Clone)]
pub struct SegmentDescription {
    /// Its entry.
    pub parts: IndexParts,
    /// Fragments of the version that it covers.
    pub covered: RoaringBitmap,
    /// Live rows of these.
    pub rows: u64,
    /// Bytes of its files.
    pub size_bytes: u64,
}

/// What a segment says of itself.
#[derive(Debug, Clone, PartialEq)]
pub enum SegmentStatistics {
    /// Of a B-tree.
    BTree {
        /// Number of pages.
        pages: u64,
        /// Rows of a page, at most.
        page_rows: u64,
        /// The smallest and the largest value as text; temporal values as the numbers that are stored.
        bounds: Option<(String, String)>,
    },
    /// Of a bitmap index: number of values, null among them; of a label list index: number of items.
    Bitmap(u64),
    /// Of a zone map.
    ZoneMap {
        /// Number of zones.
        zones: u64,
        /// Rows of a zone, at most.
        zone_rows: u32,
    },
    /// Of a Bloom filter index.
    BloomFilter {
        /// Number of zones.
        zones: u64,
        /// Rows of a zone, at most.
        zone_rows: u32,
        /// The share of other values that a filter takes for its own.
        probability: f64,
    },
    /// Of an index of three letters: how many of these.
    NGram(u64),
}

/// An index of a version.
#[derive(Debug, Clone)]
pub struct IndexDescription {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: IndexKind,
    /// Of an index over vectors: which kind of those, and what its details say.
    pub vectors: Option<(VectorIndexKind, VectorIndexDetails)>,
    /// Paths of its fields.
    pub fields: Vec<String>,
    /// Its segments, in the order of the manifest.
    pub segments: Vec<SegmentDescription>,
    /// Fragments and live rows of the version that some segment covers.
    pub indexed_fragments: u64,
    /// Live rows of these.
    pub indexed_rows: u64,
    /// Fragments that none covers.
    pub unindexed_fragments: u64,
    /// Live rows of these.
    pub unindexed_rows: u64,
}

impl Dataset {
    /// The indices of this version by name, entries of the format itself among them.
    pub async fn describe_indices(&self) -> Result<Vec<IndexDescription>> {
        let snapshot = Arc::clone(self.snapshot());
        let entries = snapshot.indices().await?;
        blocking(move || describe_all(&snapshot, &entries)).await
    }

    /// What the segments of an index say of themselves, those that can be read and cover something.
    ///
    /// Errors: `NotFound` for a name that no index has; those of reading.
    pub async fn index_statistics(&self, name: &str) -> Result<Vec<SegmentStatistics>> {
        let read = |snapshot: &Snapshot, segment: &Segment| {
            Ok(match segment.open(snapshot)?.as_ref() {
                ScalarIndex::BTree(index) => SegmentStatistics::BTree {
                    pages: index.num_pages() as u64,
                    page_rows: index.page_rows(),
                    bounds: segment
                        .with_pages(snapshot, |pages| index.bounds(pages))?
                        .map(|(min, max)| (text(&min), text(&max))),
                },
                ScalarIndex::Bitmap(index) => SegmentStatistics::Bitmap(index.num_keys() as u64),
                ScalarIndex::LabelList(index) => SegmentStatistics::Bitmap(index.num_items() as u64),
                ScalarIndex::ZoneMap(index) => SegmentStatistics::ZoneMap {
                    zones: index.num_zones() as u64,
                    zone_rows: index.zone_rows(),
                },
                ScalarIndex::BloomFilter(index) => SegmentStatistics::BloomFilter {
                    zones: index.num_zones() as u64,
                    zone_rows: index.zone_rows(),
                    probability: index.probability(),
                },
                ScalarIndex::NGram(index) => SegmentStatistics::NGram(index.num_tokens() as u64),
            })
        };
        self.each_segment(name, read).await
    }

    /// Reads an index into the session, as much of it as there is room for. Errors: those of [`Self::index_statistics`].
    pub async fn prewarm_index(&self, name: &str) -> Result<()> {
        let read = |snapshot: &Snapshot, segment: &Segment| {
            if segment.kind == IndexKind::Vector {
                vectors::prewarm(snapshot, segment)
            } else {
                prewarm(snapshot, segment)
            }
        };
        self.each_segment(name, read).await.map(drop)
    }

    /// What the segments of an index over vectors say of themselves, those that can be read and cover something.
    ///
    /// Errors: `NotFound` for a name that no index has; those of reading.
    pub async fn vector_index_statistics(&self, name: &str) -> Result<Vec<VectorStatistics>> {
        self.each_segment(name, vectors::statistics).await
    }

    /// What the newest segment of an index over vectors is built with, of those that can be read and cover something; `None`
    /// if there is none.
    ///
    /// Errors: `NotFound` for a name that no index has; those of reading.
    pub async fn vector_index_model(&self, name: &str) -> Result<Option<Arc<VectorModel>>> {
        Ok(self.each_segment(name, vectors::model).await?.pop())
    }

    async fn each_segment<T: Send + 'static>(
        &self,
        name: &str,
        read: impl Fn(&Snapshot, &Segment) -> Result<T> + Send + 'static,
    ) -> Result<Vec<T>> {
        if self.segments_of(name).await?.is_empty() {
            return Err(Error::not_found(format!("index not found: there is no index named '{name}'")));
        }
        let snapshot = Arc::clone(self.snapshot());
        let entries = snapshot.indices().await?;
        let name = name.to_owned();
        blocking(move || {
            let of_name = segments(&snapshot, &entries)?.into_iter().filter(|segment| segment.name == name);
            let read = |segment: Segment| match read(&snapshot, &segment) {
                Err(error) if is_about_the_index(&error) => {
                    pass_over(&snapshot, &segment.name, segment.uuid, &error);
                    None
                }
                found => Some(found),
            };
            of_name.filter_map(read).collect()
        })
        .await
    }
}

fn prewarm(snapshot: &Snapshot, segment: &Segment) -> Result<()> {
    match segment.open(snapshot)?.as_ref() {
        ScalarIndex::BTree(index) => segment.with_pages(snapshot, |pages| index.prewarm(pages)),
        ScalarIndex::Bitmap(_)
        | ScalarIndex::LabelList(_)
        | ScalarIndex::ZoneMap(_)
        | ScalarIndex::BloomFilter(_)
        | ScalarIndex::NGram(_) => Ok(()),
    }
}

/// An index for each name of the entries, in the order of the names. Blocks on the store.
fn describe_all(snapshot: &Snapshot, entries: &[IndexMetadata]) -> Result<Vec<IndexDescription>> {
    let mut by_name: BTreeMap<&str, Vec<&IndexMetadata>> = BTreeMap::new();
    for entry in entries {
        by_name.entry(&entry.name).or_default().push(entry);
    }
    let coverage = Coverage::of(snapshot, entries)?;
    by_name.into_iter().map(|(name, entries)| describe(snapshot, name, &entries, &coverage)).collect()
}

fn describe(
    snapshot: &Snapshot,
    name: &str,
    entries: &[&IndexMetadata],
    coverage: &Coverage,
) -> Result<IndexDescription> {
    let live: RoaringBitmap = snapshot.manifest.fragments.ids().map(|id| id.0).collect();
    let mut segments = Vec::with_capacity(entries.len());
    let (mut kind, mut fields, mut vectors) = (IndexKind::Unknown, Vec::new(), None);
    for entry in entries {
        let parts = IndexParts::of(entry)?;
        kind = kind_of(&parts).0;
        if kind == IndexKind::Vector {
            vectors = vectors::description(&parts)?.or(vectors);
        }
        let path = |id| snapshot.manifest.schema.path_of(id).unwrap_or_default();
        fields = parts.fields.iter().map(|id| path(*id)).collect();
        let covered = coverage.fragments(entry);
        let size_bytes = parts.files.iter().map(|(_, size)| *size).fold(0, u64::saturating_add);
        let rows = live_rows(snapshot, &covered);
        segments.push(SegmentDescription { parts, covered, rows, size_bytes });
    }
    if kind == IndexKind::Vector && vectors.is_none() {
        for segment in &segments {
            vectors = vectors::description_in_files(snapshot, &segment.parts)?;
            if vectors.is_some() {
                break;
            }
        }
    }
    let covered = segments.iter().fold(RoaringBitmap::new(), |all, segment| all | &segment.covered);
    let indexed_rows = live_rows(snapshot, &covered);
    Ok(IndexDescription {
        name: name.to_owned(),
        kind,
        vectors,
        fields,
        segments,
        indexed_fragments: covered.len(),
        indexed_rows,
        unindexed_fragments: live.len() - covered.len(),
        unindexed_rows: live_rows(snapshot, &live) - indexed_rows,
    })
}

fn text(bound: &Bound) -> String {
    match bound {
        Bound::Int(value) => value.to_string(),
        Bound::Float(value) => value.to_string(),
        Bound::Bytes(value) => String::from_utf8_lossy(value).into_owned(),
    }
}
