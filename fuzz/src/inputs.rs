//! Inputs that are made of pieces. A data file names its parts by position, so that bytes put into one of them break it;
//! here each piece has its length, and the file is made of them when the target runs.
//!
//! | offset | content |
//! |---|---|
//! | 0 | file version: 2.0, 2.1 or 2.2, modulo 3 |
//! | 1 | number of global buffers, of which the first is the descriptor |
//! | 2 | number of columns |
//! | 3 | each global buffer and the metadata of each column: length (u32), bytes |
//! | then | the pages, which lie at the beginning of the file |

use pennon_core::file::{FileVersion, Footer};
use twox_hash::XxHash64;

/// The pieces of a data file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces {
    /// 0 for 2.0, 1 for 2.1, 2 for 2.2.
    pub version: u8,
    /// The first is the descriptor.
    pub buffers: Vec<Vec<u8>>,
    /// The metadata of each column.
    pub columns: Vec<Vec<u8>>,
    /// What is at the beginning of the file.
    pub pages: Vec<u8>,
}

/// The files of an index, and what is asked of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// Its kind, the type of the values, and a value that is searched for.
    pub head: [u8; Index::HEAD],
    /// Its only file, or that with the lookup or the centroids.
    pub first: Pieces,
    /// That with the pages or the vectors.
    pub second: Pieces,
}

/// The next piece: its length, and as many bytes of it as there are.
fn piece(data: &mut &[u8]) -> Vec<u8> {
    let Some((length, rest)) = data.split_first_chunk::<4>() else { return std::mem::take(data).to_vec() };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX).min(rest.len());
    let (found, rest) = rest.split_at(length);
    *data = rest;
    found.to_vec()
}

fn put(out: &mut Vec<u8>, piece: &[u8]) {
    out.extend_from_slice(&u32::try_from(piece.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(piece);
}

impl Pieces {
    /// Takes an input apart.
    pub fn decode(data: &[u8]) -> Self {
        let Some((&[version, buffers, columns], mut rest)) = data.split_first_chunk() else {
            return Self::default();
        };
        let buffers = (0..buffers).map(|_| piece(&mut rest)).collect();
        let columns = (0..columns).map(|_| piece(&mut rest)).collect();
        Self { version, buffers, columns, pages: rest.to_vec() }
    }

    /// The inverse of [`Self::decode`].
    pub fn encode(&self) -> Vec<u8> {
        let count = |pieces: &[Vec<u8>]| u8::try_from(pieces.len()).unwrap_or(u8::MAX);
        let mut out = vec![self.version, count(&self.buffers), count(&self.columns)];
        for piece in self.buffers.iter().take(255).chain(self.columns.iter().take(255)) {
            put(&mut out, piece);
        }
        out.extend_from_slice(&self.pages);
        out
    }

    /// A data file of these pieces; a hash of statistics is made right.
    pub fn file(&self) -> Vec<u8> {
        let mut out = self.pages.clone();
        let mut append = |piece: &[u8]| {
            out.resize(out.len().next_multiple_of(64), 0);
            let start = out.len() as u64;
            out.extend_from_slice(piece);
            [start, piece.len() as u64]
        };
        // The descriptor lies behind the other buffers, as in files of writers.
        let mut buffers: Vec<[u64; 2]> =
            self.buffers.iter().skip(1).map(|buffer| append(&hashed(buffer.clone()))).collect();
        let descriptor = self.buffers.first().map(Vec::as_slice).unwrap_or_default();
        buffers.insert(0, append(descriptor));
        let columns: Vec<[u64; 2]> = self.columns.iter().map(|column| append(column)).collect();
        let mut tables = [&columns, &buffers].map(|table| {
            let start = out.len() as u64;
            out.extend(table.iter().flatten().flat_map(|number| number.to_le_bytes()));
            start
        });
        let [column_table, global_buffer_table] = &mut tables;
        let footer = Footer {
            column_metadata: columns.first().map_or(*column_table, |column| column[0]),
            column_table: *column_table,
            global_buffer_table: *global_buffer_table,
            num_global_buffers: u32::try_from(buffers.len()).unwrap_or(u32::MAX),
            num_columns: u32::try_from(columns.len()).unwrap_or(u32::MAX),
            version: [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2][usize::from(self.version % 3)],
        };
        out.extend_from_slice(&footer.encode());
        out
    }

    /// Takes a data file apart; `None` if it is none.
    pub fn of_file(file: &[u8]) -> Option<Self> {
        let footer = Footer::decode(file).ok()?;
        let version = match footer.version {
            FileVersion::V2_0 => 0,
            FileVersion::V2_1 => 1,
            _ => 2,
        };
        let entry = |table: u64, at: u32| {
            let at = usize::try_from(table + u64::from(at) * 16).ok()?;
            let number = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?));
            let start = number(at)?;
            Some(usize::try_from(start).ok()?..usize::try_from(start + number(at + 8)?).ok()?)
        };
        let table = |start, count| (0..count).map(|at| entry(start, at)).collect::<Option<Vec<_>>>();
        let buffers = table(footer.global_buffer_table, footer.num_global_buffers)?;
        let columns = table(footer.column_table, footer.num_columns)?;
        let mut end = columns.iter().map(|range| range.start).min().unwrap_or(0);
        for buffer in buffers.iter().rev().chain(&buffers) {
            if buffer.end <= end && end - buffer.end < 64 {
                end = buffer.start;
            }
        }
        let cut = |ranges: Vec<std::ops::Range<usize>>| {
            ranges.into_iter().map(|range| Some(file.get(range)?.to_vec())).collect::<Option<Vec<_>>>()
        };
        Some(Self {
            version,
            buffers: cut(buffers)?,
            columns: cut(columns)?,
            pages: file.get(..end)?.to_vec(),
        })
    }
}

/// Makes the hashes of statistics right, whatever their bytes are: else they would hide what reads them.
pub fn hashed(mut buffer: Vec<u8>) -> Vec<u8> {
    const HEADER: usize = 40;
    let number = |buffer: &[u8], at: usize| {
        let bytes = buffer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_le_bytes).and_then(|number| usize::try_from(number).ok())
    };
    if !buffer.starts_with(b"PENNSTAT") {
        return buffer;
    }
    let columns = number(&buffer, 12).unwrap_or(0).min(buffer.len());
    let mut start = HEADER + columns * 16;
    for column in 0..columns {
        let at = HEADER + column * 16;
        let Some(length) = number(&buffer, at + 4) else { break };
        let Some(zones) = buffer.get(start..start.saturating_add(length)) else { break };
        let hash = XxHash64::oneshot(0, zones).to_le_bytes();
        start += length;
        if let Some(slot) = buffer.get_mut(at + 8..at + 16) {
            slot.copy_from_slice(&hash);
        }
    }
    if let Some(table) = buffer.get(HEADER..HEADER + columns * 16) {
        let hash = XxHash64::oneshot(XxHash64::oneshot(0, &buffer[..32]), table).to_le_bytes();
        buffer[32..HEADER].copy_from_slice(&hash);
    }
    buffer
}

impl Index {
    /// Bytes of [`Self::head`].
    pub const HEAD: usize = 12;

    /// Takes an input apart.
    pub fn decode(data: &[u8]) -> Self {
        let Some((head, mut rest)) = data.split_first_chunk() else { return Self::default() };
        let first = piece(&mut rest);
        Self { head: *head, first: Pieces::decode(&first), second: Pieces::decode(rest) }
    }

    /// The inverse of [`Self::decode`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.head.to_vec();
        put(&mut out, &self.first.encode());
        out.extend_from_slice(&self.second.encode());
        out
    }
}
