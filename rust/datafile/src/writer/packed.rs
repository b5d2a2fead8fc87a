//! Pages of packed structs: the members of a row are adjacent (file format 4.5 and 4.9).
//!
//! | members | layout |
//! |---|---|
//! | of fixed width | mini-block, values as wide as a row |
//! | strings or fixed-size lists among them, from 2.2 on | full-zip, each row a value of variable width |

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::DataType;
use pennon_core::file::{CompressiveEncoding, FileVersion, PackedMember, PageLayout};
use pennon_core::{Error, Result};

use super::codec::Codec;
use super::levels::PageLevels;
use super::values::{Data, Values, null_slots};
use super::{full_zip, mini_block};
use crate::container::writer::Page;
use crate::encodings::flat::encode::Rope;
use crate::encodings::packed_struct::encode::fixed_rows;
use crate::encodings::variable::encode::Variable;
use crate::values::{Leaf, Physical};

/// Bytes of the length of a row.
const LENGTH: usize = 4;

/// Checks that all members can be stored in a row. Errors: `Unsupported`.
pub(crate) fn check(leaf: &Leaf, version: FileVersion) -> Result<()> {
    for member in &leaf.members {
        let why = match member.physical {
            Physical::Fixed(width) if width * member.items() == 0 => "have no bytes".to_owned(),
            Physical::Fixed(_) if version == FileVersion::V2_1 && !member.dimensions.is_empty() => {
                format!("need file version 2.0 or 2.2, this file has {version}")
            }
            Physical::Variable32 | Physical::Variable64 if version < FileVersion::V2_2 => {
                format!("need file version 2.2, this file has {version}")
            }
            Physical::Fixed(_) | Physical::Variable32 | Physical::Variable64 => continue,
            _ => "have no whole bytes".to_owned(),
        };
        let data_type = &member.data_type;
        return Err(Error::unsupported(format!("members of type {data_type} in a packed struct {why}")));
    }
    Ok(())
}

/// A page of these levels and the structs that are its slots, in the type of the leaf.
///
/// Errors: `InvalidInput` for members that are null without their struct.
pub(crate) fn page(
    leaf: &Leaf,
    levels: &PageLevels,
    arrays: &[ArrayRef],
    version: FileVersion,
) -> Result<Page> {
    let nulls = null_slots(levels);
    let mut members = Vec::with_capacity(leaf.members.len());
    for (at, member) in leaf.members.iter().enumerate() {
        let column = column(arrays, at)?;
        check_nulls(&column, nulls.as_ref(), name(leaf, at))?;
        members.push(Values::collect(member, levels, &column)?);
    }
    if members.iter().any(|m| !m.lists.is_empty() || matches!(m.data, Data::Variable(_))) {
        return variable(levels, &members, nulls.as_ref(), version);
    }
    let bytes = members.iter().filter_map(|member| match &member.data {
        Data::Fixed { width, bytes } => Some((bytes.to_vec(), *width)),
        _ => None,
    });
    fixed(levels, &bytes.collect::<Vec<_>>(), version)?
        .ok_or_else(|| Error::unsupported("packed structs, or lists of them, that fit into no chunk"))
}

/// A member of all structs.
pub(crate) fn column(structs: &[ArrayRef], at: usize) -> Result<Vec<ArrayRef>> {
    let member = |array: &ArrayRef| array.as_struct_opt()?.columns().get(at).cloned();
    let columns = structs.iter().map(member).collect::<Option<_>>();
    columns.ok_or_else(|| Error::internal(format!("a packed struct without member {at}")))
}

/// The name of a member.
pub(crate) fn name(leaf: &Leaf, at: usize) -> &str {
    match &leaf.data_type {
        DataType::Struct(fields) => fields.get(at).map_or("", |field| field.name()),
        _ => "",
    }
}

/// Errors: `InvalidInput` for nulls in slots that are not null.
pub(crate) fn check_nulls(column: &[ArrayRef], hidden: Option<&BooleanBuffer>, name: &str) -> Result<()> {
    let (mut start, mut broken) = (0, 0);
    for array in column {
        if let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
            let own = !nulls.inner();
            broken += match hidden {
                Some(hidden) => (&own & &!&hidden.slice(start, own.len())).count_set_bits(),
                None => own.count_set_bits(),
            };
        }
        start += array.len();
    }
    if broken == 0 {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "member `{name}` of a packed struct has {broken} nulls; only the struct itself can be null"
    )))
}

/// A page of rows whose members, bytes and width of each, have a fixed width. `None` when they fit into no chunk.
pub(crate) fn fixed(
    levels: &PageLevels,
    members: &[(Vec<u8>, usize)],
    version: FileVersion,
) -> Result<Option<Page>> {
    let row = members.iter().map(|(_, width)| width).sum();
    let rows = Buffer::from_vec(fixed_rows(members, levels.slots));
    let values = Values::fixed(row, Rope::new(vec![rows]));
    let mut page = mini_block::page(levels, &values, &Codec::default(), None, version)?;
    if let Some(Page { layout: PageLayout::MiniBlock(layout), .. }) = &mut page {
        layout.values = CompressiveEncoding::PackedStruct {
            bits_per_value: members.iter().map(|(_, width)| *width as u64 * 8).collect(),
            values: Box::new(Codec::default().encoding(&values)),
        };
    }
    Ok(page)
}

fn variable(
    levels: &PageLevels,
    members: &[Values],
    nulls: Option<&BooleanBuffer>,
    version: FileVersion,
) -> Result<Page> {
    let mut offsets = Vec::with_capacity(levels.slots + 1);
    let mut bytes = Vec::with_capacity(members.iter().map(Values::bytes).sum());
    offsets.push(0);
    for slot in 0..levels.slots {
        if nulls.is_none_or(|nulls| !nulls.value(slot)) {
            for member in members {
                full_zip::put_value(member, slot, 0, 0, &mut bytes);
            }
        }
        offsets.push(bytes.len() as u64);
    }
    let rows = Variable { offsets, bytes: Rope::new(vec![Buffer::from_vec(bytes)]), width: LENGTH };
    let rows = Values { lists: Vec::new(), data: Data::Variable(rows), item_bits: LENGTH * 8 };
    let mut page = full_zip::page(levels, &rows, &Codec::default(), version)?;
    if let PageLayout::FullZip(layout) = &mut page.layout {
        let members = members.iter().map(|member| {
            Ok(PackedMember {
                values: Codec::default().encoding(member),
                width: full_zip::width(member, version)?,
            })
        });
        layout.values =
            CompressiveEncoding::VariablePackedStruct { members: members.collect::<Result<Vec<_>>>()? };
    }
    Ok(page)
}
