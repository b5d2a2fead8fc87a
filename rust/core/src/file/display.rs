//! Layouts and encodings as people read them: `mini-block: fsst(variable 32), dictionary of 9: lz4(variable 32)`.

use std::fmt;

use super::array_encoding::{ArrayEncoding, FlatArray};
use super::compression::CompressionScheme;
use super::encoding::{
    CompressiveEncoding, ConstantLayout, FullZipLayout, General, MiniBlockLayout, PageLayout,
};

impl fmt::Display for PageLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MiniBlock(layout) => layout.fmt(f),
            Self::Constant(layout) => layout.fmt(f),
            Self::FullZip(layout) => layout.fmt(f),
            Self::Blob { inner, .. } => write!(f, "blob: {inner}"),
            Self::Array(array) => array.fmt(f),
        }
    }
}

impl fmt::Display for ArrayEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flat(flat) => flat.fmt(f),
            Self::NoNulls(values) => values.fmt(f),
            Self::SomeNulls { values, .. } => write!(f, "nullable({values})"),
            Self::AllNulls => f.write_str("all null"),
            Self::FixedSizeList { dimension, items } => write!(f, "fixed-size list of {dimension}: {items}"),
            Self::List { num_items, .. } => write!(f, "list of {num_items} items"),
            Self::Struct => f.write_str("struct"),
            Self::Binary(binary) => write!(f, "binary({})", binary.bytes),
            Self::Fsst { codes, .. } => write!(f, "fsst(binary({}))", codes.bytes),
            Self::Dictionary { indices, items, num_items } => {
                write!(f, "{indices}, dictionary of {num_items}: {items}")
            }
            Self::PackedStruct { members, .. } => {
                f.write_str("packed struct(")?;
                for (at, member) in members.iter().enumerate() {
                    write!(f, "{}{member}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Self::Unknown(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for FlatArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.compression {
            None => write!(f, "flat {}", self.bits_per_value),
            Some(CompressionScheme::Lz4) => write!(f, "lz4(flat {})", self.bits_per_value),
            Some(CompressionScheme::Zstd) => write!(f, "zstd(flat {})", self.bits_per_value),
        }
    }
}

impl fmt::Display for MiniBlockLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mini-block: {}", self.values)?;
        if let Some((items, count)) = &self.dictionary {
            write!(f, ", dictionary of {count}: {items}")?;
        }
        levels(f, self.rep.as_ref(), self.def.as_ref())
    }
}

impl fmt::Display for ConstantLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inline_value {
            Some(value) => write!(f, "constant: {} bytes inline", value.len())?,
            None => f.write_str("constant")?,
        }
        levels(f, self.rep.as_ref().map(|(codec, _)| codec), self.def.as_ref().map(|(codec, _)| codec))
    }
}

impl fmt::Display for FullZipLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "full-zip: {}", self.values)?;
        match self.bits_rep + self.bits_def {
            0 => Ok(()),
            bits => write!(f, ", levels: {bits} bits"),
        }
    }
}

fn levels(
    f: &mut fmt::Formatter<'_>,
    rep: Option<&CompressiveEncoding>,
    def: Option<&CompressiveEncoding>,
) -> fmt::Result {
    if let Some(rep) = rep {
        write!(f, ", repetition: {rep}")?;
    }
    if let Some(def) = def {
        write!(f, ", definition: {def}")?;
    }
    Ok(())
}

impl fmt::Display for CompressiveEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flat { bits_per_value } => write!(f, "flat {bits_per_value}"),
            Self::Variable { bits_per_offset } => write!(f, "variable {bits_per_offset}"),
            Self::Constant { value } => match value {
                Some(value) => write!(f, "constant of {} bytes", value.len()),
                None => f.write_str("constant null"),
            },
            Self::OutOfLineBitpacking { uncompressed_bits, compressed_bits } => {
                write!(f, "bitpack {uncompressed_bits}->{compressed_bits}")
            }
            // The width stands before each 1,024 values.
            Self::InlineBitpacking { uncompressed_bits } => write!(f, "bitpack {uncompressed_bits}"),
            Self::Fsst { values, .. } => write!(f, "fsst({values})"),
            Self::Dictionary { indices, items, num_items } => {
                write!(f, "dictionary({indices}, {num_items} items: {items})")
            }
            Self::Rle { values, run_lengths } => write!(f, "rle({values}, lengths: {run_lengths})"),
            Self::ByteStreamSplit { values } => write!(f, "byte-stream-split({values})"),
            Self::General(general) => general.fmt(f),
            Self::FixedSizeList { items_per_value, has_validity, values } => {
                let validity = if *has_validity { "validity, " } else { "" };
                write!(f, "fixed-size-list {items_per_value}({validity}{values})")
            }
            Self::PackedStruct { bits_per_value, values } => {
                let bits: Vec<String> = bits_per_value.iter().map(u64::to_string).collect();
                write!(f, "packed-struct {}({values})", bits.join("+"))
            }
            Self::VariablePackedStruct { members } => {
                let members: Vec<String> = members.iter().map(|m| m.values.to_string()).collect();
                write!(f, "packed-struct({})", members.join(", "))
            }
            Self::Unknown(number) => write!(f, "unknown encoding {number}"),
        }
    }
}

impl fmt::Display for General {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.scheme {
            CompressionScheme::Lz4 => "lz4",
            CompressionScheme::Zstd => "zstd",
        })?;
        if let Some(level) = self.level {
            write!(f, " {level}")?;
        }
        write!(f, "({})", self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{BinaryArray, Layer};

    #[test]
    fn a_page_reads_as_a_chain() {
        let variable = || CompressiveEncoding::Variable { bits_per_offset: 32 };
        let layout = PageLayout::MiniBlock(MiniBlockLayout {
            rep: None,
            def: Some(CompressiveEncoding::OutOfLineBitpacking { uncompressed_bits: 16, compressed_bits: 1 }),
            values: CompressiveEncoding::Flat { bits_per_value: 32 },
            dictionary: Some((
                CompressiveEncoding::General(General {
                    scheme: CompressionScheme::Lz4,
                    level: None,
                    values: Box::new(variable()),
                }),
                9,
            )),
            layers: vec![Layer::NullableItem],
            num_buffers: 1,
            repetition_index_depth: 0,
            num_items: 100,
            has_large_chunk: true,
        });
        assert_eq!(
            layout.to_string(),
            "mini-block: flat 32, dictionary of 9: lz4(variable 32), definition: bitpack 16->1"
        );
    }

    #[test]
    fn an_array_reads_as_a_tree() {
        let flat = |bits_per_value, compression| FlatArray { bits_per_value, buffer: 0, compression };
        let plain = |bits| Box::new(ArrayEncoding::NoNulls(Box::new(ArrayEncoding::Flat(flat(bits, None)))));
        let list = ArrayEncoding::FixedSizeList { dimension: 3, items: plain(32) };
        let nullable = ArrayEncoding::SomeNulls { validity: flat(1, None), values: Box::new(list) };
        assert_eq!(nullable.to_string(), "nullable(fixed-size list of 3: flat 32)");
        let bytes = flat(8, Some(CompressionScheme::Zstd));
        let binary = BinaryArray { indices: flat(64, None), bytes, null_adjustment: 1 };
        let items = Box::new(ArrayEncoding::Binary(binary));
        let dictionary = ArrayEncoding::Dictionary { indices: plain(8), items, num_items: 9 };
        assert_eq!(dictionary.to_string(), "flat 8, dictionary of 9: binary(zstd(flat 8))");
        let packed = ArrayEncoding::PackedStruct { members: vec![*plain(64), *plain(16)], buffer: 0 };
        assert_eq!(PageLayout::Array(packed).to_string(), "packed struct(flat 64, flat 16)");
    }
}
