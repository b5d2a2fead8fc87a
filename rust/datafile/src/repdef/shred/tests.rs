use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_schema::{DataType, Field as ArrowField};
use proptest::prelude::*;
use std::sync::Arc;

use super::*;
use crate::writer::tests::{Random, leaf_paths};

/// Level of a position, and the value if it has a slot.
type Emitted = Vec<(u16, u16, Option<ArrayRef>)>;

/// The recursion of file format 4.1, value by value.
fn emit(steps: &[Step], array: &ArrayRef, row: usize, rep: u16, out: &mut Emitted) {
    let (step, rest) = steps.split_first().unwrap();
    let any_list = steps.iter().any(|s| s.kind == StepKind::List);
    if array.logical_nulls().is_some_and(|n| n.is_null(row)) {
        let slot = (!any_list).then(|| array.slice(row, 1));
        // Each struct of a null fixed-size list has its level.
        let dimension = |s: &Step| if let StepKind::FixedList(d) = s.kind { d } else { 1 };
        let times = steps.iter().map(dimension).product();
        return out.extend(std::iter::repeat_n((rep, step.null, slot), times));
    }
    match &step.kind {
        StepKind::Leaf => out.push((rep, 0, Some(array.slice(row, 1)))),
        StepKind::Struct(member) => {
            emit(rest, array.as_struct().column_by_name(member).unwrap(), row, rep, out)
        }
        StepKind::Entry(member) => emit(rest, array.as_struct().column(*member), row, rep, out),
        StepKind::FixedList(dimension) => {
            let items = array.as_fixed_size_list().value(row);
            (0..*dimension).for_each(|item| emit(rest, &items, item, rep, out));
        }
        StepKind::List => {
            let items = match array.data_type() {
                DataType::List(_) => array.as_list::<i32>().value(row),
                _ => array.as_list::<i64>().value(row),
            };
            if items.is_empty() {
                return out.push((rep, step.empty, None));
            }
            for item in 0..items.len() {
                emit(rest, &items, item, if item == 0 { rep } else { step.later }, out);
            }
        }
    }
}

fn check(field: &ArrowField, array: &ArrayRef) {
    for path in leaf_paths(field) {
        let mut expected = Vec::new();
        for row in 0..array.len() {
            emit(&path.steps, array, row, path.max_rep, &mut expected);
        }
        let found = shred(&path, array).unwrap();
        assert_eq!((found.rows, found.levels), (array.len() * path.repeated(), expected.len()));
        assert_eq!(found.rep.is_some(), path.max_rep > 0);
        let rep = found.rep.unwrap_or(vec![path.max_rep; found.levels]);
        assert_eq!(rep, expected.iter().map(|e| e.0).collect::<Vec<_>>());
        let def = found.def.unwrap_or(vec![0; found.levels]);
        assert_eq!(def, expected.iter().map(|e| e.1).collect::<Vec<_>>());
        let slots: Vec<ArrayRef> =
            found.values.iter().flat_map(|a| (0..a.len()).map(|i| a.slice(i, 1))).collect();
        let visible: Vec<u16> = def.iter().copied().filter(|&d| d <= path.visible()).collect();
        assert_eq!(slots.len(), visible.len());
        let valid = slots.into_iter().zip(visible).filter(|(_, d)| *d == 0).map(|(slot, _)| slot);
        let wanted = expected.iter().filter(|e| e.1 == 0).map(|e| e.2.clone().unwrap());
        assert!(valid.eq(wanted));
    }
}

/// The example of file format 4.1.
#[test]
fn list_with_nulls_and_an_empty_one() {
    let rows = vec![Some(vec![Some(1), Some(2)]), None, Some(vec![]), Some(vec![None])];
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
    let field = ArrowField::new("a", list.data_type().clone(), true);
    let path = leaf_paths(&field).remove(0);
    let found = shred(&path, &(Arc::new(list) as ArrayRef)).unwrap();
    assert_eq!(found.rep.unwrap(), [1, 0, 1, 1, 1]);
    assert_eq!(found.def.unwrap(), [0, 0, 2, 3, 1]);
    assert_eq!(found.values.iter().map(|v| v.len()).sum::<usize>(), 3);
}

#[test]
fn garbage_beneath_null_lists_is_skipped() {
    let values: ArrayRef = Arc::new(Int32Array::from(vec![9, 1, 8, 8, 2]));
    let item = Arc::new(ArrowField::new("item", DataType::Int32, false));
    let offsets = OffsetBuffer::new(vec![1, 2, 4, 5].into());
    let list: ArrayRef =
        Arc::new(ListArray::new(item, offsets, values, Some(vec![true, false, true].into())));
    let field = ArrowField::new("a", list.data_type().clone(), true);
    let found = shred(&leaf_paths(&field)[0], &list).unwrap();
    let slots: Vec<i32> =
        found.values.iter().flat_map(|v| v.as_primitive::<Int32Type>().values().to_vec()).collect();
    assert_eq!(slots, [1, 2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn as_the_recursion_of_the_specification(seed in any::<u64>(), len in 0usize..60) {
        let mut random = Random(seed);
        let mut data_type = random.data_type(3);
        if random.below(4) == 0 {
            let member = ArrowField::new("x", data_type, random.below(3) > 0);
            let item = ArrowField::new("item", DataType::Struct(vec![member].into()), random.below(3) > 0);
            data_type = DataType::FixedSizeList(item.into(), 3);
        }
        let field = ArrowField::new("a", data_type, random.below(3) > 0);
        let array = random.array(&field, len);
        check(&field, &array);
    }
}
