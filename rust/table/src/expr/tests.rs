use std::sync::Arc;

use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{
    BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array,
    LargeStringArray, ListArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
    UInt8Array, UInt64Array, cast::AsArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{Field, Fields, TimeUnit};
use pennon_core::ErrorKind;

use super::*;

const ROWS: i32 = 10;

/// Ten rows: `id` 0..10, `s` "Name<i>" but null at 3, `b` even, `st.a`, `st.B.c`, dates from 2021-01-01.
fn batch() -> RecordBatch {
    let ints = || 0..ROWS;
    let names = StringArray::from_iter(ints().map(|i| (i != 3).then(|| format!("Name{i}"))));
    let inner = StructArray::from(vec![(
        Arc::new(Field::new("c", DataType::Utf8, true)),
        Arc::new(StringArray::from_iter_values(ints().map(|i| i.to_string()))) as ArrayRef,
    )]);
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("B", inner.data_type().clone(), true),
    ]);
    let a = Arc::new(Int64Array::from_iter_values(ints().map(i64::from))) as ArrayRef;
    let st = StructArray::new(fields, vec![a, Arc::new(inner)], None::<NullBuffer>);
    let days = Date32Array::from_iter_values(ints().map(|i| 18628 + i));
    let stamps =
        TimestampMicrosecondArray::from_iter_values(ints().map(|i| (18628 + i64::from(i)) * 86_400_000_000));
    let list =
        ListArray::from_iter_primitive::<Int32Type, _, _>(ints().map(|i| Some([Some(i), Some(i + 1)])));
    let dictionary: DictionaryArray<Int32Type> =
        ints().map(|i| ["k0", "k1", "k2"][usize::try_from(i).unwrap() % 3]).collect();
    let decimals = Decimal128Array::from_iter_values(ints().map(|i| i128::from(i) * 100))
        .with_precision_and_scale(10, 2);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int32Array::from_iter_values(ints()))),
        ("Big", Arc::new(Int64Array::from_iter_values(ints().map(i64::from)))),
        ("x y", Arc::new(Int64Array::from_iter_values(ints().map(i64::from)))),
        ("f", Arc::new(Float64Array::from_iter_values(ints().map(f64::from)))),
        ("s", Arc::new(names)),
        ("b", Arc::new(BooleanArray::from_iter(ints().map(|i| Some(i % 2 == 0))))),
        ("st", Arc::new(st)),
        ("d", Arc::new(days)),
        ("ts", Arc::new(stamps.clone())),
        ("tz", Arc::new(stamps.with_timezone("UTC"))),
        ("dec", Arc::new(decimals.unwrap())),
        ("l", Arc::new(list)),
        ("u8", Arc::new(UInt8Array::from_iter_values(0..10))),
        ("select", Arc::new(Int64Array::from_iter_values(ints().map(i64::from)))),
        ("dic", Arc::new(dictionary)),
        ("ls", Arc::new(LargeStringArray::from_iter_values(ints().map(|i| format!("n{i}"))))),
        ("_rowid", Arc::new(UInt64Array::from_iter_values(0..10))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn matches(sql: &str) -> usize {
    let batch = batch();
    let filter = Expression::predicate(sql, batch.schema_ref()).unwrap_or_else(|e| panic!("{sql}: {e}"));
    filter.evaluate_mask(&batch).unwrap_or_else(|e| panic!("{sql}: {e}")).true_count()
}

fn error(sql: &str) -> String {
    let batch = batch();
    let result = Expression::predicate(sql, batch.schema_ref()).and_then(|f| f.evaluate_mask(&batch));
    let error = result.map(|m| m.true_count()).expect_err(sql);
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{sql}: {error}");
    error.to_string()
}

/// Numbers of rows as the reference release counts them.
#[test]
fn filters_match_what_the_reference_matches() {
    for (sql, rows) in [
        ("id > 3", 6),
        ("ID > 3", 6),
        ("big > 3", 6),
        ("`Big` > 3", 6),
        ("`x y` = 3", 1),
        ("'x y' = '3'", 0),
        ("st.a = 3", 1),
        ("st.B.c = '3'", 1),
        ("`st`.`a` = 3", 1),
        ("st['a'] = 3", 1),
        ("s like 'Name%'", 9),
        ("s ilike 'name%'", 9),
        ("s not like 'Name1'", 8),
        ("s like 'Name_'", 9),
        ("id in (1,2,3)", 3),
        ("id in (1, null)", 1),
        ("id not in (1,2)", 8),
        ("id between 2 and 4", 3),
        ("s is null", 1),
        ("s is not null", 9),
        ("cast(id as string) = '3'", 1),
        ("cast(id as bigint)=3", 1),
        ("d > date '2021-01-03'", 7),
        ("ts > timestamp '2021-01-03 00:00:00'", 7),
        ("tz > timestamp '2021-01-03T00:00:00Z'", 7),
        ("ts > date '2021-01-03'", 7),
        ("regexp_match(s, 'Name[12]')", 2),
        ("regexp_match(s, 'Name[12]') and id > 1", 1),
        ("regexp_like(s, 'Name[12]')", 2),
        ("upper(s)='NAME1'", 1),
        ("length(s) > 3", 9),
        ("id + 1 = 3", 1),
        ("id % 2 = 0", 5),
        ("id / 2 = 1", 2),
        ("true", 10),
        ("false", 0),
        ("b", 5),
        ("not b", 5),
        ("b = true", 5),
        ("b is not true", 5),
        ("f > 3", 6),
        ("dec > 3", 6),
        ("dec = cast(3 as decimal(10,2))", 1),
        ("array_has(l, 3)", 2),
        ("array_has_any(l, [1,2])", 3),
        ("l[1]=3", 1),
        ("array_length(l)=2", 10),
        ("`select` = 3", 1),
        ("dic = 'k1'", 3),
        ("dic in ('k1')", 3),
        ("s = \"Name1\"", 1),
        ("s in ('Name1', \"Name2\")", 2),
        ("_rowid > 3", 6),
        ("id = 1 or id = 2 and b", 2),
        ("id <> 3", 9),
        ("id == 3", 1),
        ("coalesce(s, 'x') = 'x'", 1),
        ("id = null", 0),
        ("id is distinct from 3", 9),
        ("s || 'a' = 'Name1a'", 1),
        ("abs(id) = 3", 1),
        ("now() > ts", 10),
        ("date_trunc('month', ts) = timestamp '2021-01-01'", 10),
        ("starts_with(s, 'Name1')", 1),
        ("contains(s,'e1')", 1),
        ("ls = 'n1'", 1),
        ("ls like 'n%'", 10),
        ("ls in ('n1','n2')", 2),
        ("id >= 2 and id < 5", 3),
        ("-id < -3", 6),
        ("round(f) = 3", 1),
        ("try_cast(s as int) is null", 10),
        ("st is not null", 10),
        ("isnan(f)", 0),
        ("cast(ts as date) = date '2021-01-01'", 1),
        ("current_date > d", 10),
        ("timestamp '2021-01-03' < ts", 7),
    ] {
        assert_eq!(matches(sql), rows, "{sql}");
    }
}

/// What the reference refuses and SQL has a plain answer for.
#[test]
fn filters_beyond_the_reference() {
    for (sql, rows) in [
        ("d > '2021-01-03'", 7),
        ("ts between '2021-01-02' and '2021-01-04'", 3),
        ("id > 3.5", 6),
        ("id = 3.0", 1),
        ("id < 3000000000", 10),
        ("u8 < 256", 10),
        ("u8 = -1", 0),
        ("dec > 3.5", 6),
        ("case when id > 3 then true else false end", 6),
        ("substr(s, 1, 2) = 'Na'", 9),
        ("extract(day from ts) = 3", 1),
        ("ts + interval '1 day' > timestamp '2021-01-05'", 6),
        ("id > '9'", 0),
        ("b is unknown", 0),
    ] {
        assert_eq!(matches(sql), rows, "{sql}");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    for (sql, text) in [
        ("nope > 3", "No field named nope"),
        ("id2 > 3", "Did you mean id?"),
        ("a.b = 3", "No field named a"),
        ("st.nope = 3", "nope"),
        ("id >", "Error parsing statement"),
        ("", "Error parsing statement"),
        ("id > 3; drop", "Error parsing statement"),
        ("id > 3 id", "Error parsing statement"),
        ("id in ()", "Error parsing statement"),
        ("id", "The filter id does not return a boolean"),
        ("s", "The filter s does not return a boolean"),
        ("null", "The filter null does not return a boolean"),
        ("nofunc(id)", "nofunc"),
        ("sum(id) > 3", "sum"),
        ("id = $1", "$1"),
        ("exists (select 1)", ""),
        ("id in (select 1)", ""),
        ("b and 1", ""),
        ("st = 3", ""),
        ("id = 'abc'", "abc"),
        ("id/0 = 1", "ivide by zero"),
        ("cast(s as int) = 1", "Name0"),
    ] {
        let found = error(sql);
        assert!(found.contains(text), "{sql}: {found}");
    }
}

#[test]
fn nested_text_is_refused_not_a_crash() {
    let deep = format!("{}id > 1{}", "(".repeat(5000), ")".repeat(5000));
    assert!(error(&deep).contains("Error parsing statement"));
    let nots = format!("{} b", "not ".repeat(5000));
    assert!(error(&nots).contains("Error parsing statement"));
    let many = vec!["id = 1"; 300].join(" or ");
    assert_eq!(matches(&many), 1);
    let more: Vec<String> = (0..3000).map(|i| format!("id = {i} and f + 1 > {i}")).collect();
    assert_eq!(matches(&more.join(" or ")), 10);
    let sum = vec!["id"; 5000].join(" + ");
    assert!(error(&format!("{sum} = 1")).contains("nested too deeply"));
    let nested = |start: &str, levels: usize, level: &dyn Fn(String) -> String| {
        (0..levels).fold(start.to_owned(), |inner, _| level(inner))
    };
    let between = |inner| format!("({inner}) between false and true");
    assert_eq!(matches(&nested("id = 1", 10, &between)), 10);
    assert!(error(&nested("id = 1", 60, &between)).contains("nested too deeply"));
    let case = |inner| format!("case when {inner} = 1.5 then 1 else id end");
    assert_eq!(matches(&(nested("id", 10, &case) + " = 1")), 1);
    assert!(error(&(nested("id", 60, &case) + " = 1")).contains("nested too deeply"));
    let endless = vec!["id + 1 = 2"; 20_000].join(" or ");
    assert!(error(&endless).contains("too many operators"));
}

/// A function of the library panics for a length that no memory has.
#[test]
fn a_panic_of_a_function_is_an_error() {
    let columns: [(&str, ArrayRef); 2] = [
        ("s", Arc::new(StringArray::from(vec!["x"; 9]))),
        ("n", Arc::new(Int64Array::from(vec![i64::MAX; 9]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let found = Expression::parse("lpad(s, n)", &batch.schema()).unwrap().evaluate(&batch).unwrap_err();
    assert_eq!(found.kind(), ErrorKind::Unsupported, "{found}");
    assert!(found.to_string().contains("lpad(s, n): capacity overflow"), "{found}");
}

#[test]
fn numbers_are_cast_to_microseconds() {
    let batch = batch();
    for (sql, unit, first) in [
        ("cast(Big as timestamp)", TimeUnit::Microsecond, 1_i64),
        ("cast(id as timestamp)", TimeUnit::Microsecond, 1),
        ("try_cast(Big as timestamp(3))", TimeUnit::Millisecond, 1),
        ("cast(d as timestamp)", TimeUnit::Microsecond, 18629 * 86_400_000_000),
        ("cast(d as datetime)", TimeUnit::Microsecond, 18629 * 86_400_000_000),
        ("Big::datetime(3)", TimeUnit::Millisecond, 1),
        ("timestamp '1970-01-01 00:00:00.000000001'", TimeUnit::Nanosecond, 1),
    ] {
        let found = Expression::parse(sql, &batch.schema()).unwrap().evaluate(&batch).unwrap();
        assert_eq!(found.data_type(), &DataType::Timestamp(unit, None), "{sql}");
        let counted = arrow_cast::cast(&found, &DataType::Int64).unwrap();
        assert_eq!(counted.as_primitive::<Int64Type>().value(1), first, "{sql}");
    }
}

#[test]
fn columns_constants_and_types() {
    let schema = batch().schema();
    let filter = Expression::predicate("st.a > 1 and upper(s) = 'X' or _rowid = 3", &schema).unwrap();
    assert_eq!(filter.columns(), ["s", "st", "_rowid"]);
    assert_eq!(filter.constant(), None);
    for (sql, value) in [
        ("true", true),
        ("1 = 1", true),
        ("false", false),
        ("1 > 2", false),
        ("cast(null as boolean)", false),
    ] {
        let filter = Expression::predicate(sql, &schema).unwrap();
        assert_eq!((filter.constant(), filter.columns().len()), (Some(value), 0), "{sql}");
    }
    let batch = batch();
    let sum = Expression::parse("id + 1", &schema).unwrap();
    assert!(sum.evaluate(&batch).unwrap().len() == 10);
    let text = Expression::parse("'x'", &schema).unwrap();
    assert_eq!(text.evaluate(&batch).unwrap().as_string::<i32>().value(9), "x");
    let ratio = Expression::parse("cast(id as double) / 2", &schema).unwrap();
    assert_eq!(ratio.data_type(), &DataType::Float64);
    assert_eq!(ratio.evaluate(&batch).unwrap().as_primitive::<Float64Type>().value(3), 1.5);
    let id = Expression::parse("_rowid", &schema).unwrap();
    assert_eq!(id.evaluate(&batch).unwrap().as_primitive::<UInt64Type>().value(3), 3);
}

/// The literal is cast, not the column: a filter on a million rows must not convert them all.
#[test]
fn literals_take_the_type_of_the_column() {
    let schema = batch().schema();
    for sql in
        ["id > 3", "u8 = 7", "ts > timestamp '2021-01-03'", "dec > 3", "id in (1, 2, 3, 4, 5)", "ls = 'n1'"]
    {
        let filter = Expression::predicate(sql, &schema).unwrap();
        let text = format!("{}", filter.inner.physical.get(&filter.inner.input).unwrap());
        assert!(!text.contains("CAST"), "{sql}: {text}");
    }
}

#[test]
fn lists_without_a_common_value_keep_nulls() {
    let null_at_3 = [
        "s in ('Name1') and s not in ('Name1')",
        "s in ('Name1', 'Name2') and s in ('Name4', 'Name5')",
        "not (s not in ('Name1', 'Name2') or s not in ('Name4', 'Name5'))",
        "(s = 'Name1' or s = 'Name2') and (s = 'Name4' or s = 'Name5')",
        "not ((s != 'Name1' and s != 'Name2') or (s != 'Name4' and s != 'Name5'))",
        "id > 100 and b or s in ('Name4') and s in ('Name1')",
    ];
    for text in null_at_3 {
        assert_eq!(matches(&format!("({text}) is null")), 1, "{text}");
        assert_eq!(matches(text), 0, "{text}");
    }
}

#[test]
fn members_of_null_structs_are_null() {
    let a = Arc::new(Int64Array::from(vec![1, 77, 3])) as ArrayRef;
    let fields = Fields::from(vec![Field::new("a", DataType::Int64, false)]);
    let st = StructArray::new(fields, vec![a], Some(NullBuffer::from(vec![true, false, true])));
    let batch = RecordBatch::try_from_iter_with_nullable([("st", Arc::new(st) as ArrayRef, true)]).unwrap();
    for (sql, rows) in [("st.a > 1", 1), ("st.a is null", 1), ("st is null", 1), ("st.a = 77", 0)] {
        let mask = Expression::predicate(sql, batch.schema_ref()).unwrap().evaluate_mask(&batch).unwrap();
        assert_eq!(mask.true_count(), rows, "{sql}");
    }
}

#[test]
fn members_of_structs_that_an_expression_makes_null_are_null() {
    for (sql, rows) in [
        ("(CASE WHEN id > 2 THEN st END).a = 1", 0),
        ("(CASE WHEN id > 2 THEN st END).a = 5", 1),
        ("(CASE WHEN id > 2 THEN st END).a IS NULL", 3),
        ("(CASE WHEN id > 2 THEN st END)['a'] IS NULL", 3),
        ("(CASE WHEN id > 2 THEN st END)['B'].c IS NULL", 3),
        ("(CASE WHEN id > 2 THEN st.`B` END).c IS NULL", 3),
        ("get_field(CASE WHEN id > 2 THEN st END, 'a') IS NULL", 3),
        ("nullif(named_struct('a', id), named_struct('a', 4)).a IS NULL", 1),
        ("named_struct('p', CASE WHEN id > 2 THEN st END).p.a IS NULL", 3),
        ("coalesce(CASE WHEN id > 2 THEN st END, CASE WHEN id > 1 THEN st END).a IS NULL", 2),
        ("coalesce((CASE WHEN id > 2 THEN st END).a, -1) = -1", 3),
        ("named_struct('p', st).p.a = 4", 1),
        ("[CASE WHEN id > 2 THEN st END][1].a IS NULL", 3),
    ] {
        assert_eq!(matches(sql), rows, "{sql}");
    }
}

#[test]
fn between_is_what_the_text_says() {
    let batch = batch();
    let types =
        [("id", i128::from(i32::MIN), i128::from(i32::MAX)), ("x y", i64::MIN.into(), i64::MAX.into())];
    for (name, least, most) in types.into_iter().chain([("u8", 0, 255), ("_rowid", 0, u64::MAX.into())]) {
        let field = batch.schema_ref().field_with_name(name).unwrap();
        for (low, high) in
            [(2, 5), (5, 2), (-7, 3), (4, 256), (300, 400), (i128::MIN, i128::MAX), (9, 1 << 64)]
        {
            let filter = Expression::between(field, low, high).unwrap();
            let above = |v: i128| !(least..=most).contains(&low) || v >= low;
            let below = |v: i128| !(least..=most).contains(&high) || v <= high;
            let expected: Vec<bool> = (0..i128::from(ROWS)).map(|v| above(v) && below(v)).collect();
            let found: Vec<bool> = filter.evaluate_mask(&batch).unwrap().values().iter().collect();
            assert_eq!(found, expected, "{name} between {low} and {high}");
        }
        let text =
            Expression::predicate(&format!("`{name}` >= 2 AND `{name}` <= 5"), batch.schema_ref()).unwrap();
        assert_eq!(Expression::between(field, 2, 5).unwrap().condition(), text.condition());
    }
}

/// Within these the parser tries everything at least two times.
#[test]
fn texts_that_parsers_look_at_again_and_again_are_refused() {
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
    for open in [
        "substr(a, ",
        "cast(",
        "floor(",
        "array[",
        "interval ",
        "a.s[",
        "position(",
        "overlay(",
        "convert(",
        "a.",
        "a.@",
        "a.-",
    ] {
        for nested in [5, 12, 30, 90, 5000] {
            let started = crate::runtime::Stopwatch::start();
            let error = Expression::parse(&format!("{}* *", open.repeat(nested)), &schema).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(started.elapsed().as_secs() < 20, "{nested} times {open} took {:?}", started.elapsed());
        }
    }
    let intervals = vec!["now() - interval '1 day' < now()"; 60].join(" AND ");
    let floors = format!("{}a{}", "floor(".repeat(10), ")".repeat(10));
    let names = vec!["a.b.c = 1"; 500].join(" OR ");
    let values = (0..150_000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let lists = format!("NOT (floor(a) IN ({values}))");
    for text in [intervals, floors, lists] {
        Expression::parse(&text, &schema).unwrap();
    }
    let error = Expression::parse(&names, &schema).unwrap_err();
    assert!(!error.to_string().contains("too deeply"), "{error}");
}

/// A list of whole numbers, or of texts, from `start` in steps of three.
fn values(start: i64, quoted: bool) -> String {
    let value = |at: i64| if quoted { format!("'Name{at}'") } else { at.to_string() };
    (0..90).map(|at| value(start + 3 * at)).collect::<Vec<_>>().join(", ")
}

#[test]
fn long_lists_mean_what_short_ones_do() {
    let batch = batch();
    let planned_at_once = |sql: &str| {
        let text = parse::Text::new(sql)?;
        let built = Expression::with_list(sql, text, &batch.schema(), Wanted::Predicate, None);
        built.map(Option::unwrap)
    };
    let (integers, texts) = (values(1, false), values(1, true));
    // What simplification makes a list of the values that stay.
    let ends = [1, 4, 7, 10, 259, 262, 265, 268].map(|value| format!("Big = {value}")).join(" OR ");
    // A filter, and whether its list is cut out.
    let cases = [
        (format!("id IN ({integers})"), true),
        (format!("id not in({integers} )"), true),
        (format!("Big IN ({integers}) AND f > 3"), true),
        (format!("f > 3 OR NOT (big in ( {integers}))"), true),
        (format!("u8 IN ({})", values(-5, false)), true),
        (format!("u8 + 0 IN ({})", values(-5, false)), true),
        (format!("id IN ({})", values(i64::from(i32::MAX) - 30, false)), true),
        (format!("Big IN ({}, {})", i64::MIN, integers), true),
        (format!("Big IN ({}, {})", u64::MAX, integers), false),
        (format!("f IN ({integers})"), false),
        (format!("dec IN ({integers})"), false),
        (format!("_rowid IN ({integers})"), true),
        (format!("s IN ({texts}, 'it''s', 'ü')"), true),
        (format!("ls IN ('n7', {texts})"), true),
        (format!("dic IN ('k1', {texts}) AND id < 5"), false),
        (format!("s NOT IN ({texts})"), true),
        (format!("st.a IN ({integers})"), true),
        (format!("`x y` IN ({integers}) AND `x y` <> 7"), false),
        (format!("id IN ({integers}) AND id NOT IN (100)"), false),
        (format!("id IN ({integers}) AND id IN (1, 2, 3, 4, 5)"), false),
        (format!("id IN ({integers}) OR id = 2"), false),
        (format!("id IN ({integers}) AND Big IN (1, 2, 4, 7, 8)"), true),
        (format!("id IN ({integers}) AND Big IN (1, 2, 4, 7, 8, 10, 11, 12)"), false),
        (format!("id IN ({integers}) AND Big IN ({integers})"), true),
        (format!("id IN ({integers}, NULL)"), false),
        (format!("id IN ({integers}, 1.0)"), false),
        (format!("id IN ({integers}, 2 + 2)"), false),
        (format!("s = 'id IN ({integers})'"), false),
        (format!("s = \"id IN ({integers})\" OR id IN (1)"), false),
        (format!("id IN ({integers}) -- all"), true),
        (format!("CASE WHEN false THEN id IN ({integers}) ELSE {ends} END"), false),
        (
            format!(
                "coalesce(true, id IN ({integers})) AND CASE WHEN s IS NULL THEN false ELSE ({ends}) END"
            ),
            false,
        ),
        (format!("s <> $$x IN ({integers})$$ AND id IN (1, 4, 7, 10, 259, 262, 265, 268)"), false),
        (format!("s <> $q$x IN ({integers})$q$ AND id IN (1, 4, 7, 10, 259, 262, 265, 268)"), false),
        (format!("/* all */ id IN ({integers})"), false),
        (format!("5 IN ({integers})"), false),
        // Simplification writes the list two times here, and once below.
        (format!("CASE WHEN id IN ({integers}) THEN b ELSE NOT b END"), false),
        (format!("CASE WHEN id IN ({integers}) THEN f ELSE -f END > 3"), true),
        (format!("id IN ({})", "7, ".repeat(90) + "7"), false),
    ];
    for (sql, is_cut) in cases {
        let cut = LongList::find(&sql).and_then(|list| {
            let text = parse::Text::new(&list.short).unwrap();
            let built =
                Expression::with_list(&sql, text, &batch.schema(), Wanted::Predicate, Some(&list)).ok()?;
            built.map(|built| (list, built))
        });
        assert_eq!(cut.is_some(), is_cut, "{sql}");
        let (found, expected) = (Expression::predicate(&sql, &batch.schema()), planned_at_once(&sql));
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(found.sql(), sql);
                assert_eq!(
                    found.evaluate_mask(&batch).unwrap(),
                    expected.evaluate_mask(&batch).unwrap(),
                    "{sql}"
                );
                assert_eq!(found.condition(), expected.condition(), "{sql}");
                assert_eq!(found.columns(), expected.columns(), "{sql}");
            }
            (Err(found), Err(expected)) => assert_eq!(found.to_string(), expected.to_string()),
            (found, expected) => panic!("{sql}: {found:?}, {expected:?}"),
        }
    }
}

#[test]
fn values_of_a_column_are_one_test() {
    let batch = batch();
    let int = |value: i128| pennon_datafile::statistics::Bound::Int(value);
    let none_of = |values: &[i128]| ValueTest::NoneOf(values.iter().copied().map(int).collect());
    let one_of = |values: &[i128]| ValueTest::OneOf(values.iter().copied().map(int).collect());
    let cases = [
        ("id NOT IN (9, 5, 5, 1)", none_of(&[1, 5, 9])),
        ("id <> 5 AND id <> 1 AND id <> 5 AND id NOT IN (7, 8, 1, 9)", none_of(&[1, 5, 7, 8, 9])),
        ("NOT (id IN (1, 2, 3, 4) OR id IN (4, 5, 6, 7))", none_of(&[1, 2, 3, 4, 5, 6, 7])),
        ("id NOT IN (1, 2, 3, 4) OR id NOT IN (7, 4, 5, 6, 3)", none_of(&[3, 4])),
        ("id <> 5 OR id NOT IN (4, 5, 6, 7)", ValueTest::NotEq(int(5))),
        ("id NOT IN (1, 2, 3, 4) OR id NOT IN (7, 8, 5, 6)", ValueTest::NotNull),
        ("id = 7 OR id IN (8, 2, 4, 5, 6) OR (id = 1 OR id = 7)", one_of(&[1, 2, 4, 5, 6, 7, 8])),
    ];
    for (sql, test) in cases {
        let filter = Expression::predicate(sql, batch.schema_ref()).unwrap();
        assert_eq!(*filter.condition(), Condition::Test(vec!["id".to_owned()], test), "{sql}");
        assert!(filter.condition_is_exact(), "{sql}");
    }
    // Nothing is said together of two columns, and a null in a list makes no row pass.
    for (sql, parts, is_exact) in [
        ("id NOT IN (1, 2, 3, 4) AND Big <> 1 AND id <> 9", 2, true),
        ("id <> 1 AND (Big <> 1 OR id <> 9) AND id <> 2", 2, true),
        ("id NOT IN (1, 2, 3, NULL) AND Big < 7 AND Big > 2", 2, false),
    ] {
        let filter = Expression::predicate(sql, batch.schema_ref()).unwrap();
        let Condition::All(all) = filter.condition() else { panic!("{sql}: {:?}", filter.condition()) };
        assert_eq!((all.len(), filter.condition_is_exact()), (parts, is_exact), "{sql}: {all:?}");
    }
}
