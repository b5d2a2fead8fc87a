//! Column metadata: golden bytes, every encoding, the rules that depend on the file version.

use bytes::Bytes;
use prost::Message;

use crate::file::{
    ColumnMetadata, CompressionScheme, CompressiveEncoding as Encoding, ConstantLayout, FileVersion,
    FullZipLayout, FullZipWidth, General, Layer, MiniBlockLayout, PackedMember, PageLayout, PageMetadata,
};
use crate::wire::file::v2;
use crate::wire::{any, encodings21};
use crate::{Error, ErrorKind};

fn flat(bits: u64) -> Encoding {
    Encoding::Flat { bits_per_value: bits }
}

fn boxed(encoding: Encoding) -> Box<Encoding> {
    Box::new(encoding)
}

fn mini_block(values: Encoding, large: bool) -> PageLayout {
    PageLayout::MiniBlock(MiniBlockLayout {
        rep: Some(flat(16)),
        def: Some(Encoding::OutOfLineBitpacking { uncompressed_bits: 16, compressed_bits: 3 }),
        values,
        dictionary: Some((Encoding::Variable { bits_per_offset: 32 }, 12)),
        layers: vec![Layer::NullableItem, Layer::NullAndEmptyList],
        num_buffers: 1,
        repetition_index_depth: 1,
        num_items: 1000,
        has_large_chunk: large,
    })
}

fn column(layout: PageLayout) -> ColumnMetadata {
    let page = PageMetadata { buffers: vec![64..80, 128..128], num_rows: 10, layout, priority: 5 };
    ColumnMetadata { pages: vec![page.clone(), page], is_blob: false }
}

#[test]
fn an_empty_column_has_the_references_bytes() {
    let bytes = ColumnMetadata { pages: Vec::new(), is_blob: false }.encode().unwrap();
    let any = [b"\x0a\x1f/lance.encodings.ColumnEncoding".as_slice(), b"\x12\x02\x0a\x00"].concat();
    assert_eq!(any.len(), 37);
    // Encoding { direct { encoding: any } } as field 1.
    assert_eq!(bytes, [b"\x0a\x29\x12\x27\x0a\x25".as_slice(), &any].concat());
}

#[test]
fn every_encoding_survives() {
    let encodings = vec![
        flat(7),
        Encoding::Variable { bits_per_offset: 64 },
        Encoding::Constant { value: Some(Bytes::from_static(b"x")) },
        Encoding::Constant { value: None },
        Encoding::OutOfLineBitpacking { uncompressed_bits: 32, compressed_bits: 5 },
        Encoding::InlineBitpacking { uncompressed_bits: 64 },
        Encoding::Fsst {
            symbol_table: Bytes::from(vec![1; 2312]),
            values: boxed(Encoding::Variable { bits_per_offset: 32 }),
        },
        Encoding::Dictionary { indices: boxed(flat(32)), items: boxed(flat(8)), num_items: 4 },
        Encoding::Rle { values: boxed(flat(32)), run_lengths: boxed(flat(8)) },
        Encoding::ByteStreamSplit { values: boxed(flat(32)) },
        Encoding::General(General { scheme: CompressionScheme::Lz4, level: None, values: boxed(flat(8)) }),
        Encoding::General(General {
            scheme: CompressionScheme::Zstd,
            level: Some(-3),
            values: boxed(flat(8)),
        }),
        Encoding::FixedSizeList { items_per_value: 4, has_validity: true, values: boxed(flat(32)) },
        Encoding::PackedStruct { bits_per_value: vec![64, 64], values: boxed(flat(128)) },
        Encoding::VariablePackedStruct {
            members: vec![
                PackedMember { width: FullZipWidth::Fixed(32), values: flat(32) },
                PackedMember {
                    width: FullZipWidth::Variable(32),
                    values: Encoding::Variable { bits_per_offset: 32 },
                },
            ],
        },
    ];
    for encoding in encodings {
        for version in [FileVersion::V2_1, FileVersion::V2_2] {
            let column = column(mini_block(encoding.clone(), version == FileVersion::V2_2));
            let bytes = column.encode().unwrap();
            assert_eq!(ColumnMetadata::decode(&bytes, version).unwrap(), column);
            for at in 0..bytes.len() {
                let _ = ColumnMetadata::decode(&bytes[..at], version);
                let mut flipped = bytes.clone();
                flipped[at] ^= 0xff;
                let _ = ColumnMetadata::decode(&flipped, version);
            }
        }
    }
}

#[test]
fn every_layout_survives() {
    let layers = vec![
        Layer::AllValidItem,
        Layer::AllValidList,
        Layer::NullableItem,
        Layer::NullableList,
        Layer::EmptyableList,
        Layer::NullAndEmptyList,
    ];
    let full_zip = |width| {
        PageLayout::FullZip(FullZipLayout {
            bits_rep: 1,
            bits_def: 2,
            width,
            num_items: 10,
            num_visible_items: 8,
            values: flat(4096),
            layers: layers.clone(),
        })
    };
    let constant = |inline_value, levels| {
        PageLayout::Constant(ConstantLayout { layers: layers.clone(), inline_value, rep: levels, def: None })
    };
    let layouts = vec![
        full_zip(FullZipWidth::Fixed(4096)),
        full_zip(FullZipWidth::Variable(64)),
        constant(None, None),
        constant(Some(Bytes::from_static(&[0; 32])), Some((flat(16), 9))),
        PageLayout::Blob { inner: Box::new(mini_block(flat(128), true)), layers: layers.clone() },
    ];
    for layout in layouts {
        let column = column(layout);
        assert_eq!(ColumnMetadata::decode(&column.encode().unwrap(), FileVersion::V2_2).unwrap(), column);
    }
}

fn decode_error(layout: PageLayout, version: FileVersion) -> Error {
    ColumnMetadata::decode(&column(layout).encode().unwrap(), version).unwrap_err()
}

#[test]
fn rules_of_the_file_version() {
    for (large, version) in [(true, FileVersion::V2_1), (false, FileVersion::V2_2)] {
        let error = decode_error(mini_block(flat(8), large), version);
        assert!(
            error.kind() == ErrorKind::Corrupt && error.to_string().contains("has_large_chunk"),
            "{error}"
        );
        assert!(error.to_string().starts_with("page 0"), "{error}");
    }
    let constant = |value| {
        PageLayout::Constant(ConstantLayout {
            layers: vec![Layer::AllValidItem],
            inline_value: Some(value),
            rep: None,
            def: None,
        })
    };
    assert_eq!(
        decode_error(constant(Bytes::from_static(b"1")), FileVersion::V2_1).kind(),
        ErrorKind::Corrupt
    );
    assert_eq!(
        decode_error(constant(Bytes::from(vec![0; 33])), FileVersion::V2_2).kind(),
        ErrorKind::Corrupt
    );
    for version in [FileVersion::Legacy, FileVersion::V2_3] {
        let error = decode_error(mini_block(flat(8), true), version);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&version.to_string()), "{error}");
    }
}

/// A column of one page with this type URL and encoding.
pub(super) fn raw(type_url: &str, encoding: Vec<u8>) -> Vec<u8> {
    let empty = ColumnMetadata { pages: Vec::new(), is_blob: false }.encode().unwrap();
    let mut wire = v2::ColumnMetadata::decode(Bytes::from(empty)).unwrap();
    let mut any = any::wrap("x", encoding);
    any.type_url = type_url.to_owned();
    let direct = v2::DirectEncoding { encoding: any.encode_to_vec().into() };
    let encoding = Some(v2::Encoding { location: Some(v2::encoding::Location::Direct(direct)) });
    wire.pages.push(v2::column_metadata::Page { encoding, ..Default::default() });
    wire.encode_to_vec()
}

#[test]
fn type_urls_need_a_slash() {
    let constant = encodings21::ConstantLayout { layers: vec![1], ..Default::default() };
    let layout =
        encodings21::PageLayout { layout: Some(encodings21::page_layout::Layout::ConstantLayout(constant)) };
    let decode = |url: &str| ColumnMetadata::decode(&raw(url, layout.encode_to_vec()), FileVersion::V2_2);
    assert!(decode("/lance.encodings21.PageLayout").is_ok());
    assert!(decode("type.googleapis.com/lance.encodings21.PageLayout").is_ok());
    assert_eq!(decode("lance.encodings21.PageLayout").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(decode("/lance.encodings.ArrayEncoding").unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(decode("/lance.encodings23.PlanarLayout").unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn encodings_that_are_not_read_are_named() {
    use encodings21::compressive_encoding::Compression;
    for (compression, number) in [
        (Some(Compression::Range(Bytes::new())), 14),
        (Some(Compression::Delta(Bytes::new())), 15),
        (None, 0),
    ] {
        let values = encodings21::CompressiveEncoding { compression };
        let mini = encodings21::MiniBlockLayout {
            layers: vec![1],
            value_compression: Some(values),
            has_large_chunk: true,
            ..Default::default()
        };
        let layout =
            encodings21::PageLayout { layout: Some(encodings21::page_layout::Layout::MiniBlockLayout(mini)) };
        let bytes = raw("/lance.encodings21.PageLayout", layout.encode_to_vec());
        let column = ColumnMetadata::decode(&bytes, FileVersion::V2_2).unwrap();
        match &column.pages[0].layout {
            PageLayout::MiniBlock(layout) => assert_eq!(layout.values, Encoding::Unknown(number)),
            other => panic!("{other:?}"),
        }
        assert_eq!(column.encode().unwrap_err().kind(), ErrorKind::Internal);
    }
}
