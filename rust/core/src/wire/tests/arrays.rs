//! Pages of file version 2.0: every encoding survives, damage is an error, what is not read is named.

use bytes::Bytes;
use prost::Message;

use super::pages::raw;
use crate::ErrorKind;
use crate::file::{
    ArrayEncoding as Array, BinaryArray, ColumnMetadata, CompressionScheme, FileVersion, FlatArray, Layer,
    PageLayout, PageMetadata,
};
use crate::wire::encodings as wire;
use wire::array_encoding::ArrayEncoding as Form;

const URL: &str = "/lance.encodings.ArrayEncoding";

fn flat(bits_per_value: u64, buffer: u32) -> FlatArray {
    FlatArray { bits_per_value, buffer, compression: None }
}

fn no_nulls(array: Array) -> Array {
    Array::NoNulls(Box::new(array))
}

fn column(array: Array) -> ColumnMetadata {
    let layout = PageLayout::Array(array);
    let page = PageMetadata { buffers: vec![3..80, 128..128], num_rows: 10, layout, priority: 0 };
    ColumnMetadata { pages: vec![page.clone(), page], is_blob: false }
}

#[test]
fn every_encoding_survives() {
    let binary = BinaryArray {
        indices: flat(64, 0),
        bytes: FlatArray { compression: Some(CompressionScheme::Zstd), ..flat(8, 1) },
        null_adjustment: 77,
    };
    let items = Array::SomeNulls { validity: flat(1, 1), values: Box::new(Array::Flat(flat(16, 2))) };
    let encodings = vec![
        Array::Flat(flat(0, 0)),
        Array::Flat(FlatArray { compression: Some(CompressionScheme::Lz4), ..flat(256, 1) }),
        no_nulls(Array::Flat(flat(8, 0))),
        Array::AllNulls,
        Array::SomeNulls {
            validity: flat(1, 0),
            values: Box::new(Array::FixedSizeList { dimension: 3, items: Box::new(items) }),
        },
        Array::List { offsets: flat(64, 0), null_offset_adjustment: 12, num_items: 11 },
        Array::Struct,
        Array::Binary(binary),
        Array::Fsst { codes: binary, symbol_table: Bytes::from(vec![1; 2312]) },
        Array::Dictionary {
            indices: Box::new(no_nulls(Array::Flat(flat(8, 0)))),
            items: Box::new(Array::Binary(binary)),
            num_items: 4,
        },
        Array::PackedStruct { members: vec![no_nulls(Array::Flat(flat(64, 0)))], buffer: 0 },
    ];
    for encoding in encodings {
        let column = column(encoding);
        let bytes = column.encode().unwrap();
        assert_eq!(ColumnMetadata::decode(&bytes, FileVersion::V2_0).unwrap(), column);
        for version in [FileVersion::V2_1, FileVersion::V2_2] {
            let error = ColumnMetadata::decode(&bytes, version).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
        for at in 0..bytes.len() {
            let _ = ColumnMetadata::decode(&bytes[..at], FileVersion::V2_0);
            let mut flipped = bytes.clone();
            flipped[at] ^= 0xff;
            let _ = ColumnMetadata::decode(&flipped, FileVersion::V2_0);
        }
    }
}

fn decode(form: Option<Form>) -> crate::Result<Array> {
    let array = wire::ArrayEncoding { array_encoding: form };
    let column = ColumnMetadata::decode(&raw(URL, array.encode_to_vec()), FileVersion::V2_0)?;
    match &column.pages[0].layout {
        PageLayout::Array(array) => Ok(array.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn encodings_that_are_not_read_are_named() {
    let buffer = Some(wire::Buffer { buffer_index: 0, buffer_type: 1 });
    let scheme = wire::Compression { scheme: "snappy".to_owned(), level: None };
    let page_buffer = Some(wire::Buffer::default());
    for (form, name) in [
        (Some(Form::Bitpacked(wire::Bitpacked::default())), "bitpacked"),
        (Some(Form::FixedSizeBinary(Box::default())), "fixed_size_binary"),
        (Some(Form::BitpackedForNonNeg(wire::BitpackedForNonNeg::default())), "bitpacked_for_non_neg"),
        (Some(Form::Constant(wire::Constant::default())), "constant"),
        (Some(Form::Flat(wire::Flat { buffer, ..Default::default() })), "buffer outside of its page"),
        (
            Some(Form::Flat(wire::Flat {
                buffer: page_buffer,
                compression: Some(scheme),
                ..Default::default()
            })),
            "unknown compression scheme",
        ),
        (None, "array encoding that is not known"),
    ] {
        let array = decode(form).unwrap();
        assert_eq!((array.name(), &array), (name, &Array::Unknown(name)));
        assert_eq!(column(array).encode().unwrap_err().kind(), ErrorKind::Internal);
    }
}

#[test]
fn what_is_missing_is_corrupt() {
    for form in [
        Form::Flat(wire::Flat::default()),
        Form::Binary(Box::default()),
        Form::List(Box::default()),
        Form::FixedSizeList(Box::default()),
        Form::Dictionary(Box::default()),
        Form::Fsst(Box::default()),
        Form::PackedStruct(wire::PackedStruct::default()),
    ] {
        let error = decode(Some(form)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().starts_with("page 0"), "{error}");
    }
}

#[test]
fn layouts_of_later_versions_do_not_belong_here() {
    let layout = PageLayout::Blob { inner: Box::new(constant()), layers: vec![Layer::AllValidItem] };
    let page = PageMetadata { buffers: Vec::new(), num_rows: 1, layout, priority: 0 };
    let bytes = ColumnMetadata { pages: vec![page], is_blob: false }.encode().unwrap();
    let error = ColumnMetadata::decode(&bytes, FileVersion::V2_0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

fn constant() -> PageLayout {
    let layers = vec![Layer::NullableItem];
    PageLayout::Constant(crate::file::ConstantLayout { layers, inline_value: None, rep: None, def: None })
}
