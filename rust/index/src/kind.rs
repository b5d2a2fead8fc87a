//! Kinds of index, by the type of their details, and which versions of their files are understood.
//!
//! Source: the message types of the format; the versions and the meaning of the stored numbers were verified with files
//! of the reference.

use crate::btree::LOOKUP_FILE;

/// What an index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexKind {
    /// Sorted pages of values with their rows.
    BTree,
    /// A set of rows for each value.
    Bitmap,
    /// A set of rows for each item of lists.
    LabelList,
    /// Bounds of runs of rows.
    ZoneMap,
    /// A Bloom filter for each run of rows.
    BloomFilter,
    /// A set of rows for each three letters of texts.
    NGram,
    /// An index over a path of JSON documents.
    Json,
    /// Full-text search.
    Inverted,
    /// Vectors.
    Vector,
    /// Which rows a compaction moved.
    FragmentReuse,
    /// Rows that are not in the table yet.
    MemWal,
    /// Something else.
    Unknown,
}

/// Packages whose message types mean the same.
const PACKAGES: [&str; 2] = ["lance.table.", "lance.index.pb."];

/// Kinds with the name of their details, without package, and the name of the kind.
const KINDS: [(IndexKind, &str, &str); 11] = [
    (IndexKind::BTree, "BTreeIndexDetails", "BTree"),
    (IndexKind::Bitmap, "BitmapIndexDetails", "Bitmap"),
    (IndexKind::LabelList, "LabelListIndexDetails", "LabelList"),
    (IndexKind::ZoneMap, "ZoneMapIndexDetails", "ZoneMap"),
    (IndexKind::BloomFilter, "BloomFilterIndexDetails", "BloomFilter"),
    (IndexKind::NGram, "NGramIndexDetails", "NGram"),
    (IndexKind::Json, "JsonIndexDetails", "Json"),
    (IndexKind::Inverted, "InvertedIndexDetails", "Inverted"),
    (IndexKind::Vector, "VectorIndexDetails", "Vector"),
    (IndexKind::FragmentReuse, "FragmentReuseIndexDetails", "FragmentReuse"),
    (IndexKind::MemWal, "MemWalIndexDetails", "MemWal"),
];

impl IndexKind {
    /// The kind with details of this type, with or without what precedes a slash. An entry without details is a B-tree
    /// if it has the files of one.
    ///
    /// ```
    /// use pennon_index::IndexKind;
    /// assert_eq!(IndexKind::of_details(Some("/lance.index.pb.BTreeIndexDetails"), &[]), IndexKind::BTree);
    /// assert_eq!(IndexKind::of_details(Some("/foo.BTreeIndexDetails"), &[]), IndexKind::Unknown);
    /// assert_eq!(IndexKind::of_details(None, &["page_lookup.lance"]), IndexKind::BTree);
    /// ```
    pub fn of_details(type_url: Option<&str>, files: &[&str]) -> Self {
        let Some(url) = type_url else {
            return if files.contains(&LOOKUP_FILE) { Self::BTree } else { Self::Unknown };
        };
        let full = url.rsplit_once('/').map_or(url, |(_, name)| name);
        let Some(name) = PACKAGES.iter().find_map(|package| full.strip_prefix(package)) else {
            return Self::Unknown;
        };
        KINDS.iter().find(|(_, details, _)| *details == name).map_or(Self::Unknown, |(kind, ..)| *kind)
    }

    /// The kind of a name, without regard to case and underscores.
    ///
    /// ```
    /// use pennon_index::IndexKind;
    /// assert_eq!(IndexKind::named("LABEL_LIST"), Some(IndexKind::LabelList));
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        let plain = |text: &str| text.replace('_', "").to_lowercase();
        KINDS.iter().find(|(.., shown)| plain(shown) == plain(name)).map(|(kind, ..)| *kind)
    }

    /// The type of the details of this kind, as the reference writes it.
    pub fn details_type(self) -> String {
        let package = match self {
            Self::BloomFilter | Self::Json | Self::Vector => "lance.index.pb",
            _ => "lance.table",
        };
        let name = KINDS.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, details, _)| details);
        format!("/{package}.{name}")
    }

    /// The name in lists of indices and in plans.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or("Unknown", |(_, _, name)| name)
    }

    /// Whether its files have zones: runs of rows, each with what is known of its values.
    pub fn has_zones(self) -> bool {
        matches!(self, Self::ZoneMap | Self::BloomFilter)
    }

    /// The newest version of its files that is read; `None` for kinds that are not read.
    pub fn newest_version(self) -> Option<i32> {
        Some(match self {
            Self::BTree | Self::LabelList => 1,
            Self::Vector => 2,
            Self::Bitmap | Self::ZoneMap | Self::BloomFilter | Self::NGram | Self::Json => 0,
            _ => return None,
        })
    }

    /// Whether the files of a version are read. Label lists of version 0 do not say which lists are null.
    pub fn reads(self, version: i32) -> bool {
        let oldest = i32::from(self == Self::LabelList);
        self.newest_version().is_some_and(|newest| (oldest..=newest).contains(&version))
    }

    /// Whether files of a version name rows by their addresses; else by their ids. Without stable row ids these are the
    /// same.
    pub fn has_addresses(self, version: i32, stable_row_ids: bool) -> bool {
        !stable_row_ids || self.has_zones() || (self == Self::BTree && version > 0)
    }
}
