use arrow_array::cast::AsArray;
use arrow_array::{Array, LargeBinaryArray, ListArray, RecordBatchIterator, StringArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use pennon_core::ErrorKind;
use proptest::prelude::*;

use super::binary::Item;
use super::path::Selector;
use super::*;

/// Texts, and the bytes that the reference stores for them.
const STORED: [(&str, &str); 12] = [
    ("null", "2000000000000000"),
    ("true", "2000000040000000"),
    (r#""s""#, "200000001000000173"),
    ("-0", "200000002000000100"),
    ("12", "2000000020000002500c"),
    ("-129", "200000002000000340ff7f"),
    ("18446744073709551615", "200000002000000950ffffffffffffffff"),
    ("0.1", "2000000020000009603fb999999999999a"),
    ("NaN", "200000002000000110"),
    ("[[],{}]", "800000025000000450000004800000004000 0000"),
    (
        r#"{"z":1,"a":2,"bb":3}"#,
        "40000003100000011000000210000001200000022000000220000002 6162627a500250035001",
    ),
    (
        r#"{"a":1,"b":[1,2,"x"],"c":{"d":null,"e":1.5}}"#,
        "400000031000000110000001100000012000000250000015500000 1f616263500180000003200000022000000210000001\
         50015002784000000210000001100000010000000020000009646560 3ff8000000000000",
    ),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn parsed(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    text::parse(text, &mut out).unwrap();
    out
}

fn text_of(document: &[u8]) -> Result<String> {
    Item::of(document).and_then(text::to_text)
}

#[test]
fn bytes_are_those_of_the_reference() {
    for (text, stored) in STORED {
        assert_eq!(parsed(text), bytes(stored), "{text}");
    }
}

#[test]
fn text_is_compact_and_keys_ascend() {
    for (given, wanted) in [
        (r#" { "z" : 1 , "a" : [ ] } "#, r#"{"a":[],"z":1}"#),
        (r#""\u00e9\n\ud83d\ude00""#, "\"é\\n😀\""),
        ("-1.5e300", "-1.5e+300"),
        ("1.0", "1.0"),
        ("123456789012345678901234567890", "1.2345678901234568e+29"),
        ("1E400", "null"),
        ("", "null"),
        ("{a:'b'}", r#"{"a":"b"}"#),
        ("[1,]", "[1,null]"),
    ] {
        assert_eq!(text_of(&parsed(given)).unwrap(), wanted, "{given}");
    }
    // Null, as the reference has it.
    assert_eq!(text_of(b"").unwrap(), "null");
}

#[test]
fn decimals_of_other_writers_are_doubles() {
    for (number, wanted) in [
        ("70 000000000000007b 02", "1.23"),
        ("70 ffffffffffffffffffffffffffffff85 02", "-1.23"),
        ("70 ffffffffffffffffffffffffffffff85 05 02", "-1.23"),
        ("70 0000000000000000000000000000000000000000000000000000000000000007 00", "7.0"),
    ] {
        let number = bytes(number);
        let mut document = bytes("20000000");
        document.extend((0x2000_0000 | u32::try_from(number.len()).unwrap()).to_be_bytes());
        document.extend(number);
        assert_eq!(text_of(&document).unwrap(), wanted);
    }
}

#[test]
fn what_is_no_json_is_refused() {
    for text in ["{", "abc", "[1 2]", r#"{"a":1,"a":2}"#, r#"{"a":1,}"#, "1 2", r#""\x""#, "-inf", "1e"] {
        let mut out = vec![7];
        let error = text::parse(text, &mut out).unwrap_err();
        assert_eq!((error.kind(), out), (ErrorKind::InvalidInput, vec![7]), "{text}");
    }
}

#[test]
fn deep_documents() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(text_of(&parsed(&nested(1000))).unwrap(), nested(1000));
    let error = text::parse(&nested(1001), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("nested deeper"), "{error}");
    // Of another writer: nothing recurses.
    let mut document = bytes("80000000");
    for _ in 0..20_000 {
        let mut outer = bytes("80000001");
        outer.extend((0x5000_0000 | u32::try_from(document.len()).unwrap()).to_be_bytes());
        outer.extend(&document);
        document = outer;
    }
    assert_eq!(text_of(&document).unwrap().len(), 40_002);
    let error = select(&document, "$ ? (@ == 1)").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    // Many brackets that nest nothing.
    let flat = format!("[{}]", [r#""[[[""#; 2000].join(","));
    text::parse(&flat, &mut Vec::new()).unwrap();
}

#[test]
fn damaged_documents_are_corrupt() {
    for document in [
        "20",
        "20000000",
        "2000000010000002 73",
        "2000000070000000",
        "20000000d0000000",
        "2000000020000000",
        "2000000020000004 40112233",
        "2000000020000001 80",
        "2000000010000001 ff",
        "2000000050000004 80000000",
        "00000000",
        "9fffffff",
        "5fffffff",
        "8000000150000004 20000000",
        "4000000120000002 00000000 5001",
        "40000001100000ff 00000000 61",
    ] {
        let document = bytes(document);
        let error = text_of(&document).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{document:02x?}");
        assert_eq!(text::check(&document).unwrap_err().kind(), ErrorKind::Corrupt, "{document:02x?}");
    }
}

fn select(document: &[u8], path: &str) -> Result<Vec<String>> {
    Selector::parse(path)?.select(document, |items| items.iter().map(|item| text::to_text(*item)).collect())
}

#[test]
fn paths() {
    let document = parsed(r#"{"a":[{"b":1},{"b":2},3],"c d":{"e":[]},"f":"x"}"#);
    for (path, wanted) in [
        ("$", vec![r#"{"a":[{"b":1},{"b":2},3],"c d":{"e":[]},"f":"x"}"#]),
        ("$.a[*].b", vec!["1", "2"]),
        ("a[0].b", vec!["1"]),
        ("$.a[last]", vec!["3"]),
        ("$.a[last - 7]", vec![]),
        ("$.a[1 to 9]", vec![r#"{"b":2}"#, "3"]),
        ("$.a[0, last]", vec![r#"{"b":1}"#, "3"]),
        (r#"$."c d".e[0 to 1]"#, vec![]),
        ("$.a[0 to last - 9]", vec![]),
        (r#"$["f"][*]"#, vec![r#""x""#]),
        ("$.*", vec![r#"[{"b":1},{"b":2},3]"#, r#"{"e":[]}"#, r#""x""#]),
        ("$.**.b", vec!["1", "2"]),
        ("$.a[*] ? (@.b > 1)", vec![r#"{"b":2}"#]),
        ("$.none", vec![]),
    ] {
        assert_eq!(select(&document, path).unwrap(), wanted, "{path}");
    }
    for path in ["$.[", "$..a", "@.a", "lax $.a", r#"""#, r#"$."a"#, r#"$["a\""#] {
        assert_eq!(select(&document, path).unwrap_err().kind(), ErrorKind::InvalidInput, "{path}");
    }
    for path in [&"(".repeat(100), "$.a[0 to 1] ? (@ == 1)", &format!("$.{}", "a".repeat(5000))] {
        assert_eq!(select(&document, path).unwrap_err().kind(), ErrorKind::Unsupported, "{path}");
    }
    assert_eq!(select(&document, "$.f + 1").unwrap_err().kind(), ErrorKind::InvalidInput);
}

fn json_field(name: &str) -> Field {
    let metadata = [("ARROW:extension:name", "arrow.json"), ("ARROW:extension:metadata", "")];
    Field::new(name, DataType::Utf8, true).with_metadata(metadata.map(|(k, v)| (k.into(), v.into())).into())
}

fn there_and_back(field: &Field, array: ArrayRef) -> Result<(RecordBatch, RecordBatch)> {
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]).unwrap();
    let reader = Box::new(RecordBatchIterator::new([Ok(batch)], schema));
    let stored = stored(reader).next().unwrap().map_err(Error::invalid_input)?;
    Ok((stored.clone(), shown_batch(stored)?))
}

#[test]
fn nested_columns() {
    let member = Arc::new(json_field("m"));
    let texts: ArrayRef =
        Arc::new(StringArray::from(vec![Some("{ }"), None, Some("beneath a null"), Some("[1, 2]")]));
    let nulls = NullBuffer::from(vec![true, true, false, true]);
    let structs = StructArray::new(vec![Arc::clone(&member)].into(), vec![Arc::clone(&texts)], Some(nulls));
    let field = Field::new("s", structs.data_type().clone(), true);
    let (stored, shown) = there_and_back(&field, Arc::new(structs)).unwrap();
    assert_eq!(stored.column(0).as_struct().column(0).data_type(), &DataType::LargeBinary);
    let shown = shown.column(0).as_struct();
    assert!(shown.is_null(2));
    assert_eq!(shown.column(0).as_string::<i32>().value(3), "[1,2]");

    // The first text is outside of the slice.
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["not seen", "1", "{ }", "2"]));
    let lists = ListArray::new(member, OffsetBuffer::from_lengths([1, 0, 2, 1]), texts, None).slice(1, 3);
    let field = Field::new("l", lists.data_type().clone(), true);
    let (stored, shown) = there_and_back(&field, Arc::new(lists)).unwrap();
    assert_eq!(stored.column(0).as_list::<i32>().values().len(), 3);
    assert_eq!(shown.column(0).as_list::<i32>().value(1).as_string::<i32>().value(1), "{}");
}

#[test]
fn errors_name_column_and_row() {
    let schema = Arc::new(Schema::new(vec![json_field("doc")]));
    let batch = |texts: Vec<&str>| {
        Ok(RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(StringArray::from(texts))]).unwrap())
    };
    let batches = [batch(vec!["1", "2"]), batch(vec!["3", "{"])];
    let mut reader = stored(Box::new(RecordBatchIterator::new(batches, Arc::clone(&schema))));
    assert!(reader.next().unwrap().is_ok());
    let error = reader.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("column `doc`, row 3: invalid JSON"), "{error}");

    let lists: ArrayRef = Arc::new(StringArray::from(vec!["1", "2", "{"]));
    let item = Arc::new(json_field("item"));
    let lists = ListArray::new(item, OffsetBuffer::from_lengths([1, 0, 2]), lists, None);
    let field = Field::new("l", lists.data_type().clone(), true);
    let error = there_and_back(&field, Arc::new(lists)).unwrap_err().to_string();
    assert!(error.contains("column `l`, row 2"), "{error}");

    let stored = stored_schema(&schema);
    let damaged = LargeBinaryArray::from_vec(vec![&[0x20, 0, 0, 0, 0, 0, 0, 0], b"xx"]);
    let batch = RecordBatch::try_new(stored, vec![Arc::new(damaged)]).unwrap();
    let error = stored_batch(&batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = shown_batch(batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("column `doc`, row 1: damaged JSON"), "{error}");
}

/// Any JSON.
fn documents() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// What is written is what another library reads.
    #[test]
    fn documents_go_there_and_back(document in documents()) {
        let stored = parsed(&document.to_string());
        prop_assert!(text::check(&stored).is_ok());
        prop_assert_eq!(&parsed(&text_of(&stored).unwrap()), &stored);
        let back: serde_json::Value = serde_json::from_str(&text_of(&stored).unwrap()).unwrap();
        prop_assert_eq!(back, document);
    }

    /// Damage is an error or another document, never a panic; what was checked can be given to the library.
    #[test]
    fn no_bytes_crash(
        document in documents(),
        damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
        cut in any::<u16>(),
    ) {
        let mut stored = parsed(&document.to_string());
        for (at, byte) in damage {
            let length = stored.len();
            stored[usize::from(at) % length] = byte;
        }
        stored.truncate(usize::from(cut) % (stored.len() * 2) + 1);
        let shown = text_of(&stored);
        match (&shown, text::check(&stored)) {
            (Err(_), checked) => prop_assert!(checked.is_err()),
            // What is refused although it can be shown is never what is written.
            (Ok(shown), Err(_)) => prop_assert_ne!(&parsed(shown), &stored),
            (Ok(_), Ok(_)) => {}
        }
        let filters = ["$ ? (@.a == 1)", "$[*] ? (exists(@.*))", "$.* + 1", "$ ? (@ starts with \"a\")"];
        for path in ["$.*", "$.**.a", "$[0 to 1]"].into_iter().chain(filters) {
            drop(select(&stored, path));
        }
        if let Ok(shown) = shown {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&shown).is_ok());
        }
    }

    #[test]
    fn no_noise_crashes(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        text in any::<String>(),
        path in "[$@.*a0-9\\[\\]()?&|=<>!+\\-/% \"a-c]{0,24}",
    ) {
        drop(text_of(&bytes));
        drop(select(&bytes, &path));
        drop(text::parse(&text, &mut Vec::new()));
        drop(select(&parsed(r#"{"a":[1,{"b":"c"}],"b":2.5}"#), &path));
    }
}
