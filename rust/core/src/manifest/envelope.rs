//! The manifest file around the manifest message (table format 2.1).
//!
//! | order | content | present |
//! |---|---|---|
//! | 0 | values of dictionaries, see [`super::ManifestDictionaries`] | in tables with files of version 0.1 |
//! | 1 | u32 length, index section | if the version has an index |
//! | 2 | u32 length, transaction | unless it is only in its own file |
//! | 3 | u32 length, manifest | always |
//! | 4 | u64 position of 3, u16 major 0, u16 minor 2, `LANC` | always, 16 bytes |
//!
//! The pieces follow each other without padding, so every length is checked against the next piece.

use std::ops::Range;

use bytes::Bytes;

use super::Manifest;
use crate::{Error, Result, checksum};

const MAGIC: &[u8; 4] = b"LANC";
const MAJOR: u16 = 0;
const MINOR: u16 = 2;
const FOOTER: u64 = 16;
const PREFIX: u64 = 4;

/// The end of a manifest file, from which the rest is found.
#[derive(Debug, Clone, Copy)]
pub struct Tail;

impl Tail {
    /// Bytes to fetch from the end of a manifest file of unknown content: most manifests are smaller.
    pub const SIZE: u64 = 64 * 1024;

    /// Whether a file of `file_size` bytes that ends with `tail` may not have been written to its end: it is too short
    /// or the magic is missing. Other damage has other causes than a write that was cut off.
    pub fn may_be_torn(tail: &[u8], file_size: u64) -> bool {
        file_size < FOOTER + PREFIX || !tail.ends_with(MAGIC)
    }

    /// Whether a whole file was not written to its end. One whose lengths agree was, and only its magic is damaged.
    pub fn is_torn(file: &[u8]) -> bool {
        let mut mended = file.to_vec();
        if let Some(magic) = mended.last_chunk_mut::<4>() {
            *magic = *MAGIC;
        }
        Self::may_be_torn(file, length_of(file)) && Self::locate(&mended, length_of(file)).is_err()
    }

    /// Where the manifest message lies in a file of `file_size` bytes that ends with `tail`, its length prefix left
    /// out.
    ///
    /// The prefix is checked if it lies in `tail`. Errors: `Corrupt` if the file is too short, does not end with the
    /// magic or its lengths do not agree; `Unsupported` for another version of the layout.
    pub fn locate(tail: &[u8], file_size: u64) -> Result<Range<u64>> {
        let Some((rest, footer)) = tail.split_last_chunk::<16>() else {
            return Err(Error::corrupt(format!(
                "{file_size} bytes, a manifest file has at least {}",
                FOOTER + PREFIX
            )));
        };
        let [p0, p1, p2, p3, p4, p5, p6, p7, major0, major1, minor0, minor1, magic @ ..] = *footer;
        if &magic != MAGIC {
            return Err(Error::corrupt(format!(
                "offset {}: it ends with {magic:02x?}, a manifest file ends with \"LANC\"",
                file_size.saturating_sub(4)
            )));
        }
        let (major, minor) = (u16::from_le_bytes([major0, major1]), u16::from_le_bytes([minor0, minor1]));
        if major != MAJOR || minor > MINOR {
            return Err(Error::unsupported(format!(
                "manifest file version {major}.{minor} is not known (known: up to {MAJOR}.{MINOR})"
            )));
        }
        let position = u64::from_le_bytes([p0, p1, p2, p3, p4, p5, p6, p7]);
        let end = file_size.saturating_sub(FOOTER);
        let start = position.checked_add(PREFIX).filter(|&start| start <= end);
        let Some(start) = start else {
            return Err(Error::corrupt(format!(
                "offset {end}: the manifest is said to start at {position}, the file has {file_size} bytes"
            )));
        };
        // The prefix, if it was fetched: counted from the end, since the start of `tail` is not known to be aligned.
        let before_footer = usize::try_from(end - position).unwrap_or(usize::MAX);
        if let Some(at) = rest.len().checked_sub(before_footer) {
            check_length("manifest", position, rest.get(at..).unwrap_or_default(), end - start)?;
        }
        Ok(start..end)
    }
}

/// Checks the length that `piece` starts with against the space up to the next piece.
fn check_length(what: &str, position: u64, piece: &[u8], available: u64) -> Result<()> {
    let length = piece.first_chunk::<4>().map(|bytes| u64::from(u32::from_le_bytes(*bytes)));
    if length == Some(available) {
        return Ok(());
    }
    let found = length.map_or("no length".to_owned(), |n| format!("{n} bytes"));
    Err(Error::corrupt(format!("offset {position}: {what} of {found}, expected {available}")))
}

/// A decoded manifest file and its sections.
#[derive(Debug, Clone)]
pub struct ManifestFile {
    /// The manifest.
    pub manifest: Manifest,
    /// What was read: the whole file, or a part that ends where the file ends.
    bytes: Bytes,
    file_size: u64,
    /// Position of the manifest's length prefix.
    position: u64,
}

impl ManifestFile {
    /// Whether the manifest has a checksum, which is right: it would not have been decoded otherwise.
    pub fn has_checksum(&self) -> bool {
        let end = self.bytes.len().checked_sub(usize::try_from(FOOTER).unwrap_or(usize::MAX));
        end.and_then(|end| self.bytes.get(..end)).is_some_and(checksum::is_at_end)
    }

    /// Decodes a whole file. Errors: those of [`Tail::locate`] and [`Manifest::decode`].
    pub fn decode(file: Bytes) -> Result<Self> {
        let size = length_of(&file);
        Self::decode_tail(file, size)
    }

    /// Decodes a file of `file_size` bytes from its last bytes, which must hold the whole manifest message and its
    /// length prefix. Errors: as [`Self::decode`]; `Internal` if too few bytes were read.
    pub fn decode_tail(tail: Bytes, file_size: u64) -> Result<Self> {
        let message = Tail::locate(&tail, file_size)?;
        let position = message.start - PREFIX;
        let missing = || Error::internal(format!("the manifest at {position} was not read"));
        let start = offset_in(&tail, file_size, position).ok_or_else(missing)?;
        let piece = tail.slice(start..tail.len() - 16);
        check_length("manifest", position, &piece, message.end - message.start)?;
        let manifest =
            Manifest::decode(piece.slice(4..)).map_err(|e| e.at(format!("offset {}", message.start)))?;
        Ok(Self { manifest, bytes: tail, file_size, position })
    }

    /// Where the index section lies in the file, with its length prefix; `None` without indices.
    pub fn index_section(&self) -> Result<Option<Range<u64>>> {
        let next = self.manifest.transaction_section.filter(|&at| Some(at) > self.manifest.index_section);
        self.section("index section", self.manifest.index_section, next.unwrap_or(self.position))
    }

    /// Where the inline transaction lies in the file, with its length prefix; `None` if there is none.
    pub fn transaction_section(&self) -> Result<Option<Range<u64>>> {
        let next = self.manifest.index_section.filter(|&at| Some(at) > self.manifest.transaction_section);
        self.section("transaction", self.manifest.transaction_section, next.unwrap_or(self.position))
    }

    fn section(&self, what: &str, at: Option<u64>, end: u64) -> Result<Option<Range<u64>>> {
        match at {
            None => Ok(None),
            Some(at) if at.checked_add(PREFIX).is_some_and(|start| start <= end) && end <= self.position => {
                Ok(Some(at..end))
            }
            Some(at) => Err(Error::corrupt(format!(
                "the {what} is said to start at {at}, expected a position before {}",
                end.min(self.position)
            ))),
        }
    }

    /// The bytes of a section from [`Self::index_section`] or [`Self::transaction_section`], if they were read
    /// along, without the length prefix.
    pub fn read_along(&self, section: &Range<u64>) -> Result<Option<Bytes>> {
        let start = offset_in(&self.bytes, self.file_size, section.start);
        let end = offset_in(&self.bytes, self.file_size, section.end);
        match (start, end) {
            (Some(start), Some(end)) if start <= end => {
                Self::unwrap_section(self.bytes.slice(start..end), section.start).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The content of a section that was fetched from `position`. Errors: `Corrupt` if its length is not that of the
    /// section.
    pub fn unwrap_section(section: Bytes, position: u64) -> Result<Bytes> {
        let length = section.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
        let available = section.len().saturating_sub(4);
        match length.and_then(|n| usize::try_from(n).ok()) {
            // A gap after a section is harmless; other writers may leave one. This library leaves none, and its sections end
            // with their checksum.
            Some(length) if length == available || (length < available && !checksum::is_at_end(&section)) => {
                Ok(section.slice(4..4 + length))
            }
            _ => Err(Error::corrupt(format!(
                "offset {position}: a section of {} bytes, its length says {length:?}",
                section.len()
            ))),
        }
    }

    /// The index section of a file that was read whole; `None` without indices.
    pub fn indices(&self) -> Result<Option<Bytes>> {
        self.content(self.index_section()?)
    }

    /// The inline transaction of a file that was read whole; `None` if there is none.
    pub fn transaction(&self) -> Result<Option<Bytes>> {
        self.content(self.transaction_section()?)
    }

    fn content(&self, section: Option<Range<u64>>) -> Result<Option<Bytes>> {
        let Some(section) = section else { return Ok(None) };
        match self.read_along(&section)? {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(Error::internal(format!("the section at {} was not read", section.start))),
        }
    }
}

/// Where a position of the file is in its last bytes.
fn offset_in(tail: &[u8], file_size: u64, position: u64) -> Option<usize> {
    tail.len().checked_sub(usize::try_from(file_size.checked_sub(position)?).ok()?)
}

/// Lays out a manifest file and sets the manifest's two section positions.
///
/// `indices` and `transaction` are encoded messages; the manifest gets a checksum. Errors: `Unsupported` if a piece
/// reaches 4 GiB; `Internal` if values of dictionaries were not read.
pub fn write_manifest_file(
    manifest: &mut Manifest,
    indices: Option<&[u8]>,
    transaction: Option<&[u8]>,
) -> Result<Vec<u8>> {
    if manifest.carried.dictionaries.are_missing() {
        return Err(Error::internal("the values of dictionaries in the manifest file were not read"));
    }
    let mut file = manifest.carried.dictionaries.pages.as_ref().map_or_else(Vec::new, |pages| pages.to_vec());
    manifest.index_section = push_piece(&mut file, indices)?;
    manifest.transaction_section = push_piece(&mut file, transaction)?;
    let position = length_of(&file);
    if manifest.encode_piece(&mut file).is_none() {
        return Err(Error::unsupported("a manifest of more than 4 GiB"));
    }
    file.extend_from_slice(&position.to_le_bytes());
    file.extend_from_slice(&MAJOR.to_le_bytes());
    file.extend_from_slice(&MINOR.to_le_bytes());
    file.extend_from_slice(MAGIC);
    Ok(file)
}

fn push_piece(file: &mut Vec<u8>, piece: Option<&[u8]>) -> Result<Option<u64>> {
    let Some(piece) = piece else { return Ok(None) };
    let Ok(length) = u32::try_from(piece.len()) else {
        return Err(Error::unsupported(format!("{} bytes in one piece of a manifest file", piece.len())));
    };
    let position = length_of(file);
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(piece);
    Ok(Some(position))
}

fn length_of(file: &[u8]) -> u64 {
    u64::try_from(file.len()).unwrap_or(u64::MAX)
}
