use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, IntervalUnit, Schema as ArrowSchema};
use proptest::prelude::*;

use super::*;
use crate::ErrorKind;

fn list(item: ArrowField) -> DataType {
    DataType::List(Arc::new(item))
}

fn structure(fields: Vec<ArrowField>) -> DataType {
    DataType::Struct(fields.into())
}

fn field(name: &str, data_type: DataType) -> ArrowField {
    ArrowField::new(name, data_type, true)
}

fn schema(fields: Vec<ArrowField>) -> Schema {
    Schema::from_arrow(&ArrowSchema::new(fields)).unwrap()
}

fn map(key: ArrowField, entries_nullable: bool, sorted: bool) -> DataType {
    let entries = structure(vec![key, field("value", DataType::Int32)]);
    DataType::Map(Arc::new(ArrowField::new("entries", entries, entries_nullable)), sorted)
}

fn table() -> Schema {
    let point = || structure(vec![field("x", DataType::Int32), field("y", DataType::Int32)]);
    schema(vec![
        ArrowField::new("a", DataType::Int64, false),
        field("b", DataType::Utf8),
        field("s", point()),
        field("l", list(field("item", point()))),
        field("Caps", DataType::Int32),
        field("m", map(ArrowField::new("key", DataType::Utf8, false), false, false)),
    ])
}

/// Wire text and Arrow type as table format 3.3 pairs them.
fn pairs() -> Vec<(&'static str, DataType)> {
    use TimeUnit::*;
    let fixed = |item: DataType, n: i32| DataType::new_fixed_size_list(item, n, true);
    let dictionary =
        |index: DataType, value: DataType| DataType::Dictionary(Box::new(index), Box::new(value));
    vec![
        ("null", DataType::Null),
        ("bool", DataType::Boolean),
        ("int8", DataType::Int8),
        ("uint64", DataType::UInt64),
        ("halffloat", DataType::Float16),
        ("float", DataType::Float32),
        ("double", DataType::Float64),
        ("string", DataType::Utf8),
        ("large_string", DataType::LargeUtf8),
        ("binary", DataType::Binary),
        ("large_binary", DataType::LargeBinary),
        ("fixed_size_binary:16", DataType::FixedSizeBinary(16)),
        ("fixed_size_binary:0", DataType::FixedSizeBinary(0)),
        ("date32:day", DataType::Date32),
        ("date64:ms", DataType::Date64),
        ("time32:s", DataType::Time32(Second)),
        ("time64:ns", DataType::Time64(Nanosecond)),
        ("timestamp:us:-", DataType::Timestamp(Microsecond, None)),
        ("timestamp:us:America/New_York", DataType::Timestamp(Microsecond, Some("America/New_York".into()))),
        ("timestamp:ms:+01:00", DataType::Timestamp(Millisecond, Some("+01:00".into()))),
        ("duration:ms", DataType::Duration(Millisecond)),
        ("decimal:128:10:2", DataType::Decimal128(10, 2)),
        ("decimal:128:10:-2", DataType::Decimal128(10, -2)),
        ("decimal:256:76:76", DataType::Decimal256(76, 76)),
        ("fixed_size_list:float:4", fixed(DataType::Float32, 4)),
        ("fixed_size_list:fixed_size_list:int8:2:3", fixed(fixed(DataType::Int8, 2), 3)),
        (
            "fixed_size_list:timestamp:ms:+01:00:4",
            fixed(DataType::Timestamp(Millisecond, Some("+01:00".into())), 4),
        ),
        ("dict:string:int32:false", dictionary(DataType::Int32, DataType::Utf8)),
        ("dict:double:uint8:false", dictionary(DataType::UInt8, DataType::Float64)),
        ("list", list(field("item", DataType::Int8))),
        ("list.struct", list(field("element", structure(vec![field("x", DataType::Int8)])))),
        ("large_list", DataType::LargeList(Arc::new(field("item", list(field("item", DataType::Utf8)))))),
        ("fixed_size_list:struct:2", fixed(structure(vec![field("x", DataType::Int8)]), 2)),
        ("struct", structure(vec![])),
        ("map", map(ArrowField::new("key", DataType::Utf8, false), false, false)),
    ]
}

#[test]
fn every_type_has_its_text_and_comes_back() {
    for (text, data_type) in pairs() {
        let schema = schema(vec![field("a", data_type.clone())]);
        assert_eq!(schema.fields[0].logical_type.to_string(), text);
        assert_eq!(text.parse::<LogicalType>().unwrap(), schema.fields[0].logical_type);
        assert_eq!(schema.fields[0].data_type(), data_type);
        schema.validate().unwrap();
    }
}

/// Of tables that have them already; no new ones are made.
#[test]
fn types_that_are_read_only() {
    let decimals = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Decimal128(10, 2)));
    for (text, data_type, why) in [
        ("dict:decimal:128:10:2:uint8:false", decimals, "unreadable for other readers"),
        ("fixed_size_list:null:2", DataType::new_fixed_size_list(DataType::Null, 2, true), "items of a type"),
    ] {
        assert_eq!(text.parse::<LogicalType>().unwrap().to_string(), text);
        let error = Schema::from_arrow(&ArrowSchema::new(vec![field("a", data_type)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("field `a`") && error.to_string().contains(why), "{error}");
    }
}

#[test]
fn texts_that_name_no_type_are_refused() {
    for (text, kind) in [
        ("", ErrorKind::Unsupported),
        ("int128", ErrorKind::Unsupported),
        ("interval:ns", ErrorKind::Unsupported),
        ("decimal:64:10:2", ErrorKind::Unsupported),
        ("fixed_size_list:lance.bfloat16:2", ErrorKind::Unsupported),
        ("fixed_size_binary:", ErrorKind::Corrupt),
        ("fixed_size_binary:-1", ErrorKind::Corrupt),
        ("fixed_size_binary:+1", ErrorKind::Corrupt),
        ("fixed_size_binary:99999999999", ErrorKind::Corrupt),
        ("timestamp:h:-", ErrorKind::Corrupt),
        ("decimal:128:39:2", ErrorKind::Corrupt),
        ("decimal:128:0:0", ErrorKind::Corrupt),
        ("decimal:128:5:6", ErrorKind::Corrupt),
        ("decimal:128:5:6:7", ErrorKind::Corrupt),
        ("decimal:128", ErrorKind::Corrupt),
        ("fixed_size_list:int8:0", ErrorKind::Corrupt),
        ("fixed_size_list:int8", ErrorKind::Corrupt),
        ("fixed_size_list:list:2", ErrorKind::Corrupt),
        ("fixed_size_list:fixed_size_list:struct:2:3", ErrorKind::Corrupt),
        ("dict:string:int32", ErrorKind::Corrupt),
        ("dict:string:int32:no", ErrorKind::Corrupt),
        ("dict:string:float:false", ErrorKind::Corrupt),
        ("dict:struct:int8:false", ErrorKind::Corrupt),
    ] {
        let error = text.parse::<LogicalType>().unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
    }
    let deep = "fixed_size_list:".repeat(100_000) + "int8" + &":2".repeat(100_000);
    assert_eq!(deep.parse::<LogicalType>().unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn views_json_and_extensions_become_what_is_stored() {
    let extension = |name: &str, data_type: DataType| {
        field("e", data_type).with_metadata([("ARROW:extension:name".to_owned(), name.to_owned())].into())
    };
    assert_eq!(schema(vec![field("v", DataType::Utf8View)]).fields[0].data_type(), DataType::Utf8);
    assert_eq!(schema(vec![field("v", DataType::BinaryView)]).fields[0].data_type(), DataType::Binary);
    let json = &schema(vec![extension("arrow.json", DataType::Utf8)]).fields[0];
    assert_eq!((json.logical_type.clone(), json.data_type()), (LogicalType::Json, DataType::LargeBinary));
    assert_eq!(json.metadata["ARROW:extension:name"], "lance.json");
    assert_eq!(schema(vec![json.to_arrow()]).fields[0], *json);
    let uuid = extension("arrow.uuid", DataType::FixedSizeBinary(16));
    assert_eq!(schema(vec![uuid.clone()]).fields[0].to_arrow(), uuid);
}

#[test]
fn unsupported_types_are_refused_by_path() {
    let refused = |data_type: DataType| {
        let nested = structure(vec![field("ok", DataType::Int8), field("q", data_type)]);
        let error = Schema::from_arrow(&ArrowSchema::new(vec![field("s", nested)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("`s.q`"), "{error}");
    };
    let key = || ArrowField::new("key", DataType::Utf8, false);
    refused(DataType::Interval(IntervalUnit::DayTime));
    refused(DataType::Decimal32(5, 2));
    refused(DataType::Decimal64(5, 2));
    refused(DataType::ListView(Arc::new(field("item", DataType::Int8))));
    refused(DataType::RunEndEncoded(Arc::new(key()), Arc::new(key())));
    refused(DataType::new_fixed_size_list(list(field("item", DataType::Int8)), 2, true));
    refused(DataType::new_fixed_size_list(DataType::Int8, 0, true));
    refused(map(key(), false, true));
    refused(map(key(), true, false));
    refused(map(field("key", DataType::Utf8), false, false));
    refused(DataType::Decimal128(39, 0));
}

#[test]
fn names_are_checked() {
    let message = |fields: Vec<ArrowField>| {
        let error = Schema::from_arrow(&ArrowSchema::new(fields)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(message(vec![field("a.b", DataType::Int8)]).contains("cannot contain `.`"));
    let duplicates = || vec![field("x", DataType::Int8), field("x", DataType::Int8)];
    assert_eq!(message(duplicates()), "Duplicate field name \"x\" in schema");
    assert_eq!(message(vec![field("s", structure(duplicates()))]), "Duplicate field name \"s.x\" in schema");
}

#[test]
fn primary_keys_come_from_metadata_and_cannot_be_null() {
    let key = |nullable: bool| {
        ArrowField::new("k", DataType::Int64, nullable)
            .with_metadata([("lance-schema:unenforced-primary-key".to_owned(), "true".to_owned())].into())
    };
    let found = &schema(vec![key(false)]).fields[0];
    assert!(found.unenforced_primary_key);
    assert_eq!(found.to_arrow(), key(false));
    assert!(Schema::from_arrow(&ArrowSchema::new(vec![key(true)])).is_err());
    let in_nullable = field("s", structure(vec![key(false)]));
    assert!(Schema::from_arrow(&ArrowSchema::new(vec![in_nullable])).is_err());
}

#[test]
fn ids_are_handed_out_depth_first() {
    let point = structure(vec![field("p", DataType::Int64)]);
    let schema = schema(vec![
        field("a", DataType::Int64),
        field(
            "b",
            structure(vec![field("x", DataType::Int32), field("y", list(field("item", DataType::Int64)))]),
        ),
        field("l", list(field("item", point))),
    ]);
    let ids: Vec<i32> = schema.depth_first().map(|f| f.id.0).collect();
    assert_eq!(ids, (0..8).collect::<Vec<_>>());
    let leaves: Vec<i32> = schema.leaves().map(|f| f.id.0).collect();
    assert_eq!(leaves, [0, 2, 4, 7]);
    assert_eq!(schema.path_of(FieldId(7)).unwrap(), "l.item.p");
    assert_eq!(schema.field_by_id(FieldId(4)).unwrap().name, "item");
}

#[test]
fn stored_schemas_are_checked() {
    let broken = |change: &dyn Fn(&mut Schema)| {
        let mut schema = table();
        change(&mut schema);
        let error = schema.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        error.to_string()
    };
    table().validate().unwrap();
    assert_eq!(broken(&|s| s.fields[1].id = FieldId(0)), "field `b`: id 0 is taken by another field");
    assert_eq!(broken(&|s| s.fields[2].children[0].id = FieldId(-1)), "field `s.x`: id -1 is negative");
    assert!(broken(&|s| s.fields[1].name = "a".into()).contains("same name"));
    assert!(broken(&|s| s.fields[3].children.clear()).contains("`l`: 0 child fields"));
    assert!(broken(&|s| s.fields[3].children[0].logical_type = LogicalType::Int8).contains("not structs"));
    assert!(broken(&|s| s.fields[0].children = vec![s.fields[1].clone()]).contains("`a`: 1 child fields"));
    assert!(broken(&|s| s.fields[5].children[0].children.truncate(1)).contains("map entries"));
    let deep = |s: &mut Schema| {
        for id in 100..201 {
            let inner = s.fields.pop().unwrap();
            let mut outer = s.fields[0].clone();
            (outer.id, outer.logical_type, outer.children) = (FieldId(id), LogicalType::Struct, vec![inner]);
            outer.name = "deep".into();
            s.fields.push(outer);
        }
    };
    assert!(broken(&deep).contains("nested deeper than 100"));
}

#[test]
fn projection_keeps_the_order_asked_for_and_merges_parts() {
    let table = table();
    let names = |columns: &[&str]| -> Vec<String> {
        let columns: Vec<String> = columns.iter().map(|c| (*c).to_owned()).collect();
        let part = table.project(&columns).unwrap();
        part.depth_first().map(|f| part.path_of(f.id).unwrap()).collect()
    };
    assert_eq!(names(&["b", "a"]), ["b", "a"]);
    assert_eq!(names(&["s.y", "a", "s.x"]), ["s", "s.y", "s.x", "a"]);
    assert_eq!(names(&["s.y", "s"]), ["s", "s.x", "s.y"]);
    assert_eq!(names(&["s", "s.y"]), ["s", "s.x", "s.y"]);
    assert_eq!(names(&["l.item.y"]), ["l", "l.item", "l.item.y"]);
    assert_eq!(names(&["`s`.`x`", "Caps"]), ["s", "s.x", "Caps"]);
    assert_eq!(names(&["a", "a"]), ["a"]);
    assert_eq!(names(&[]), Vec::<String>::new());
}

#[test]
fn a_wrong_name_gets_the_valid_ones() {
    let table = table();
    let message = |column: &str| table.project(&[column.to_owned()]).unwrap_err().to_string();
    assert_eq!(message("nope"), "No field named nope. Valid fields are a, b, s, l, Caps, m.");
    assert_eq!(
        message("caps"),
        "No field named caps. Did you mean Caps? Valid fields are a, b, s, l, Caps, m."
    );
    assert_eq!(message("s.nope"), "No field named s.nope. Valid fields are s.x, s.y.");
    assert_eq!(message("a.b"), "No field named a.b.");
    assert!(message("`a").contains("not a column name"));
    assert!(message("`a`b").contains("not a column name"));
    let many: Vec<String> = (0..30).map(|i| format!("column_{i}")).collect();
    let error = unknown_field("column_3x", many.iter().map(String::as_str)).to_string();
    assert!(error.contains("Did you mean column_3?") && error.ends_with("column_19 and 10 more."), "{error}");
}

#[test]
fn names_with_dots_and_backticks_are_quoted() {
    let schema =
        schema(vec![field("s", structure(vec![field("x.y", DataType::Int8), field("`", DataType::Int8)]))]);
    for (id, path) in [(1, "s.`x.y`"), (2, "s.````")] {
        assert_eq!(schema.path_of(FieldId(id)).unwrap(), path);
        assert_eq!(schema.field_by_path(path).unwrap().id, FieldId(id));
    }
    assert!(schema.field_by_path("s.x.y").is_none());
}

#[test]
fn appends_must_fit() {
    let table = table();
    let check = |change: &dyn Fn(&mut Vec<ArrowField>)| {
        let mut fields: Vec<ArrowField> =
            table.to_arrow().fields().iter().map(|f| f.as_ref().clone()).collect();
        change(&mut fields);
        match table.check_append(&schema(fields)) {
            Ok(()) => "ok".to_owned(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
                error.to_string().strip_prefix("Append with different schema: ").unwrap().to_owned()
            }
        }
    };
    assert_eq!(check(&|_| {}), "ok");
    assert_eq!(check(&|f| f.reverse()), "ok");
    assert_eq!(check(&|f| drop(f.remove(1))), "ok");
    assert_eq!(check(&|f| drop(f.remove(0))), "fields did not match, missing=[a], unexpected=[]");
    assert_eq!(
        check(&|f| f.push(field("zz", DataType::Int8))),
        "fields did not match, missing=[], unexpected=[zz]"
    );
    assert_eq!(
        check(&|f| f[0] = field("a", DataType::Int32)),
        "`a` should have type int64 but type was int32"
    );
    assert_eq!(check(&|f| f[0] = field("a", DataType::Int64)), "ok");
    assert_eq!(check(&|f| f[1] = field("b", DataType::Utf8View)), "ok");
    assert_eq!(
        check(&|f| f[1] = field("b", DataType::LargeUtf8)),
        "`b` should have type string but type was large_string"
    );
    let members = |names: [&str; 2]| structure(names.map(|n| field(n, DataType::Int32)).to_vec());
    assert_eq!(check(&|f| f[2] = field("s", members(["y", "x"]))), "ok");
    assert_eq!(
        check(&|f| f[2] = field("s", members(["y", "z"]))),
        "`s` had mismatched children: fields did not match, missing=[], unexpected=[s.z]"
    );
    assert_eq!(check(&|f| f[3] = field("l", list(field("element", members(["x", "y"]))))), "ok");
    assert_eq!(
        check(&|f| f[3] = field("l", list(field("item", DataType::Int8)))),
        "`l` should have type list.struct but type was list"
    );
    let renamed = || map(ArrowField::new("keys", DataType::Utf8, false), false, false);
    assert_eq!(check(&|f| f[5] = field("m", renamed())), "ok");
    let other_key = || map(ArrowField::new("key", DataType::Int8, false), false, false);
    assert_eq!(
        check(&|f| f[5] = field("m", other_key())),
        "`m` had mismatched children: `m.entries` had mismatched children: \
         `m.entries.key` should have type string but type was int8"
    );
}

fn any_type() -> impl Strategy<Value = DataType> {
    let leaves: Vec<DataType> = pairs()
        .into_iter()
        .map(|(_, t)| t)
        .filter(|t| !t.is_nested() || t.is_dictionary_key_type())
        .collect();
    proptest::sample::select(leaves).prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            (inner.clone(), any::<bool>()).prop_map(|(t, n)| list(ArrowField::new("item", t, n))),
            (inner.clone(), any::<bool>())
                .prop_map(|(t, n)| DataType::LargeList(Arc::new(ArrowField::new("element", t, n)))),
            proptest::collection::vec((inner, any::<bool>()), 0..4).prop_map(|members| {
                let fields = members.into_iter().enumerate();
                structure(fields.map(|(i, (t, n))| ArrowField::new(format!("f{i}"), t, n)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_comes_back(types in proptest::collection::vec((any_type(), any::<bool>()), 0..5)) {
        let fields: Vec<ArrowField> =
            types.into_iter().enumerate().map(|(i, (t, n))| ArrowField::new(format!("c{i}"), t, n)).collect();
        let arrow = ArrowSchema::new(fields);
        let schema = Schema::from_arrow(&arrow).unwrap();
        schema.validate().unwrap();
        prop_assert_eq!(schema.to_arrow(), arrow);
        prop_assert!(schema.check_append(&schema).is_ok());
        for field in schema.depth_first() {
            prop_assert_eq!(field.logical_type.to_string().parse::<LogicalType>().unwrap(), field.logical_type.clone());
            let path = schema.path_of(field.id).unwrap();
            prop_assert_eq!(schema.field_by_path(&path).unwrap().id, field.id);
            prop_assert!(schema.project(&[path]).unwrap().field_by_id(field.id) == Some(field));
        }
    }

    #[test]
    fn no_text_panics(text in "[a-z_:.0-9-]{0,40}") {
        if let Ok(parsed) = text.parse::<LogicalType>() {
            prop_assert_eq!(parsed.to_string().parse::<LogicalType>().unwrap(), parsed);
        }
    }
}
