//! The details of a fragment reuse entry (table format 9.5).

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use super::table::fragment_reuse_index_details::Content;
use super::table::fragment_reuse_version::Group;
use super::{decode_message, table};
use crate::bitmaps::{decode_treemap, encode_treemap};
use crate::manifest::{AddressMoves, Fragment, FragmentReuse};
use crate::{Error, FragmentId, Result};

/// Field 1 of a `FragmentReuseContent`, a message.
const VERSIONS: u8 = 1 << 3 | 2;

impl FragmentReuse {
    /// The details, with those before in front. Errors: `Unsupported` if those are in a file.
    pub(crate) fn encode(&self, before: Option<&Bytes>) -> Result<Bytes> {
        let mut content = BytesMut::new();
        if let Some(before) = before {
            let details: table::FragmentReuseIndexDetails =
                decode_message("fragment reuse details", before.clone())?;
            match details.content {
                Some(Content::Inline(inline)) => content.extend_from_slice(&inline),
                Some(Content::External(file)) => {
                    return Err(Error::unsupported(format!(
                        "The moves of earlier compactions are in a file of their own ({}): have pylance's \
                         optimize_indices and cleanup take them up, or compact without defer_index_remap",
                        file.path
                    )));
                }
                None => {}
            }
        }
        let mut groups = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            groups.push(Group {
                changed_row_addrs: encode_treemap(&group.moved).into(),
                old_fragments: group.old_fragments.iter().map(digest).collect(),
                new_fragments: group.new_fragments.iter().map(digest).collect(),
            });
        }
        let version =
            table::FragmentReuseVersion { dataset_version: self.dataset_version.0, groups }.encode_to_vec();
        content.put_u8(VERSIONS);
        prost::encode_length_delimiter(version.len(), &mut content)
            .map_err(|e| Error::internal("a length").with_source(e))?;
        content.extend_from_slice(&version);
        let details = table::FragmentReuseIndexDetails { content: Some(Content::Inline(content.freeze())) };
        Ok(details.encode_to_vec().into())
    }
}

/// Where the moves of a fragment reuse entry are.
#[derive(Debug)]
pub enum StoredMoves {
    /// In the entry.
    Inline(AddressMoves),
    /// In a file of the entry's folder: [`AddressMoves::decode`] reads these bytes of it.
    File {
        /// Its name.
        name: String,
        /// The first byte.
        offset: u64,
        /// How many.
        size: u64,
    },
}

impl StoredMoves {
    /// What the details of a fragment reuse entry say. Errors: `Corrupt`.
    pub fn of_details(details: &Bytes) -> Result<Self> {
        let details: table::FragmentReuseIndexDetails =
            decode_message("fragment reuse details", details.clone())?;
        Ok(match details.content {
            None => Self::Inline(AddressMoves::new()),
            Some(Content::Inline(content)) => Self::Inline(AddressMoves::decode(content)?),
            Some(Content::External(file)) => {
                Self::File { name: file.path, offset: file.offset, size: file.size }
            }
        })
    }
}

impl AddressMoves {
    /// The moves of all compactions that a fragment reuse entry notes. Errors: `Corrupt`.
    pub fn decode(content: Bytes) -> Result<Self> {
        let content: table::FragmentReuseContent = decode_message("fragment reuse content", content)?;
        let id = |digest: &table::FragmentDigest| {
            u32::try_from(digest.id)
                .map(FragmentId)
                .map_err(|_| Error::corrupt(format!("fragment reuse content: fragment {}", digest.id)))
        };
        let mut moves = Self::new();
        for group in content.versions.iter().flat_map(|version| &version.groups) {
            let moved = decode_treemap(&group.changed_row_addrs)
                .map_err(|e| e.at("fragment reuse content: moved addresses"))?;
            let old = group.old_fragments.iter().map(id).collect::<Result<Vec<_>>>()?;
            let new = group.new_fragments.iter().map(|new| Ok((id(new)?, new.physical_rows)));
            moves.add(&moved, old, new.collect::<Result<Vec<_>>>()?, None)?;
        }
        Ok(moves)
    }
}

fn digest(fragment: &Fragment) -> table::FragmentDigest {
    table::FragmentDigest {
        id: fragment.id.0.into(),
        physical_rows: fragment.physical_rows,
        num_deleted_rows: fragment.deleted_rows(),
    }
}

#[cfg(test)]
mod tests {
    use roaring::RoaringTreemap;

    use super::*;
    use crate::deletion::DeletionVector;
    use crate::manifest::{IndexMetadata, ReuseGroup, Timestamp};
    use crate::wire::index_parts::IndexParts;
    use crate::{ErrorKind, RowAddress, Version};

    fn fragment(id: u32, rows: u64) -> Fragment {
        Fragment { id: FragmentId(id), ..Fragment::new(Vec::new(), rows) }
    }

    fn compaction(version: u64, old: &[(u32, &DeletionVector)], new: u32) -> FragmentReuse {
        let old = old.iter().map(|(id, deleted)| (fragment(*id, 10), *deleted)).collect();
        let groups = vec![ReuseGroup::new(old, vec![fragment(new, 17)])];
        FragmentReuse { dataset_version: Version(version), groups }
    }

    fn content(entry: &IndexMetadata) -> table::FragmentReuseContent {
        let (_, details) = IndexParts::of(entry).unwrap().details.unwrap();
        let details = table::FragmentReuseIndexDetails::decode(details).unwrap();
        let Some(Content::Inline(inline)) = details.content else { panic!("no inline content") };
        table::FragmentReuseContent::decode(inline).unwrap()
    }

    /// The addresses of the reference for ten rows without 3 and 4, and ten without 3.
    #[test]
    fn entries_add_up() {
        let (both, last) = (DeletionVector::from_iter([3, 4]), DeletionVector::from_iter([3]));
        let uuid = uuid::Uuid::from_u128(7);
        let first =
            compaction(4, &[(0, &both), (1, &last)], 4).entry(&[], uuid, Timestamp::default()).unwrap();
        let moved = &content(&first).versions[0].groups[0].changed_row_addrs;
        let treemap = RoaringTreemap::deserialize_from(moved.as_ref()).unwrap();
        let expected = (0..3).chain(5..10).chain((0..10).filter(|o| *o != 3).map(|o| 1 << 32 | o));
        assert_eq!(treemap.iter().collect::<Vec<u64>>(), expected.collect::<Vec<_>>());
        assert_eq!(&moved[..12], [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

        let none = DeletionVector::empty();
        let second = compaction(7, &[(4, &none)], 5);
        let second = second.entry(std::slice::from_ref(&first), uuid, Timestamp::default()).unwrap();
        let versions: Vec<u64> = content(&second).versions.iter().map(|v| v.dataset_version).collect();
        assert_eq!(versions, [4, 7]);
        assert_eq!(second.dataset_version, Version(7));
        let (_, details) = IndexParts::of(&first).unwrap().details.unwrap();
        let StoredMoves::Inline(moves) = StoredMoves::of_details(&details).unwrap() else { panic!("a file") };
        let now = |fragment, offset| moves.current(RowAddress::new(FragmentId(fragment), offset));
        assert_eq!(now(0, 3), None);
        assert_eq!(now(1, 9), Some(RowAddress::new(FragmentId(4), 16)));
        assert_eq!(second.fragments, Some([4, 5].into_iter().collect()));
    }

    #[test]
    fn content_in_a_file_is_refused() {
        let file = table::ExternalFile { path: "details.binpb".to_owned(), offset: 0, size: 9 };
        let details = table::FragmentReuseIndexDetails { content: Some(Content::External(file)) };
        let error = compaction(1, &[], 2).encode(Some(&details.encode_to_vec().into())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("details.binpb"), "{error}");
    }
}
