//! Zones to bytes.

use twox_hash::XxHash64;

use super::{
    Bound, BoundKind, Collector, ENTRY, HAS_BOUNDS, HAS_NAN, HAS_NULLS, HEADER, LAYOUT_VERSION, MAGIC,
    UNBOUNDED, ZONE_ROWS, Zone,
};

/// Files of so many bytes or less are read together with their metadata: there is nothing to save.
const SMALL_FILE: u64 = 64 * 1024;
/// The statistics are at most this part of a file.
const SHARE: u64 = 100;

/// The buffer for a file of so many rows and bytes of data, if statistics are worth their size.
pub(crate) fn encode(columns: Vec<Option<Collector>>, rows: u64, file_bytes: u64) -> Option<Vec<u8>> {
    if file_bytes <= SMALL_FILE || columns.iter().all(Option::is_none) {
        return None;
    }
    let mut columns: Vec<Option<(BoundKind, Vec<Zone>)>> =
        columns.into_iter().map(|c| c.map(|c| (c.kind, c.zones))).collect();
    let mut zone_rows = ZONE_ROWS as u64;
    loop {
        let bytes = buffer(&columns, rows, zone_rows)?;
        if (bytes.len() as u64).saturating_mul(SHARE) <= file_bytes {
            return Some(bytes);
        }
        if zone_rows >= rows {
            return None;
        }
        zone_rows *= 2;
        for (_, zones) in columns.iter_mut().flatten() {
            *zones = in_pairs(std::mem::take(zones));
        }
    }
}

fn in_pairs(zones: Vec<Zone>) -> Vec<Zone> {
    let mut zones = zones.into_iter();
    let pair = || {
        let mut zone = zones.next()?;
        if let Some(next) = zones.next() {
            zone.merge(next);
        }
        Some(zone)
    };
    std::iter::from_fn(pair).collect()
}

fn buffer(columns: &[Option<(BoundKind, Vec<Zone>)>], rows: u64, zone_rows: u64) -> Option<Vec<u8>> {
    let mut table = Vec::with_capacity(columns.len() * ENTRY);
    let mut blocks = Vec::new();
    for column in columns {
        let start = blocks.len();
        let code = match column {
            None => 0,
            Some((kind, zones)) => {
                zones.iter().try_for_each(|zone| put_zone(zone, *kind, &mut blocks))?;
                kind.code()
            }
        };
        let block = blocks.get(start..).unwrap_or_default();
        table.extend_from_slice(&code.to_le_bytes());
        table.extend_from_slice(&u32::try_from(block.len()).ok()?.to_le_bytes());
        table.extend_from_slice(&XxHash64::oneshot(0, block).to_le_bytes());
    }
    let mut bytes = Vec::with_capacity(HEADER + table.len() + blocks.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&LAYOUT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(columns.len()).ok()?.to_le_bytes());
    bytes.extend_from_slice(&rows.to_le_bytes());
    bytes.extend_from_slice(&zone_rows.to_le_bytes());
    let seed = XxHash64::oneshot(0, &bytes);
    bytes.extend_from_slice(&XxHash64::oneshot(seed, &table).to_le_bytes());
    bytes.extend_from_slice(&table);
    bytes.extend_from_slice(&blocks);
    Some(bytes)
}

fn put_zone(zone: &Zone, kind: BoundKind, out: &mut Vec<u8>) -> Option<()> {
    let mut bits = 0;
    if let Some(bounds) = &zone.bounds {
        bits |= HAS_BOUNDS;
        bits |= if bounds.max.is_none() { UNBOUNDED } else { 0 };
    }
    bits |= if zone.has_nan { HAS_NAN } else { 0 };
    bits |= if zone.nulls > 0 { HAS_NULLS } else { 0 };
    out.push(bits);
    if zone.nulls > 0 {
        out.extend_from_slice(&u32::try_from(zone.nulls).ok()?.to_le_bytes());
    }
    if let Some(bounds) = &zone.bounds {
        put_bound(&bounds.min, kind, out)?;
        bounds.max.as_ref().map_or(Some(()), |max| put_bound(max, kind, out))?;
    }
    Some(())
}

fn put_bound(bound: &Bound, kind: BoundKind, out: &mut Vec<u8>) -> Option<()> {
    match (bound, kind) {
        (Bound::Int(value), BoundKind::Signed(width) | BoundKind::Unsigned(width)) => {
            out.extend_from_slice(value.to_le_bytes().get(..width)?);
        }
        #[expect(clippy::cast_possible_truncation, reason = "it was an f32 before")]
        (Bound::Float(value), BoundKind::Float(4)) => out.extend_from_slice(&(*value as f32).to_le_bytes()),
        (Bound::Float(value), BoundKind::Float(_)) => out.extend_from_slice(&value.to_le_bytes()),
        (Bound::Bytes(value), BoundKind::Bytes) => {
            out.push(u8::try_from(value.len()).ok()?);
            out.extend_from_slice(value);
        }
        _ => return None,
    }
    Some(())
}
