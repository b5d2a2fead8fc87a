//! The examples of file format 4.1, and levels that contradict themselves.

use super::*;

type Finished = Vec<(Option<Vec<bool>>, Option<Vec<i64>>)>;

fn assemble(layers: &[Layer], rep: &[u16], def: &[u16], len: usize) -> Result<Finished> {
    let layer = |l: &Layer| if l.is_list() { PathLayer::List } else { PathLayer::Item };
    let path: Vec<PathLayer> = layers.iter().map(layer).collect();
    assemble_path(&path, layers, rep, def, len)
}

fn assemble_path(
    path: &[PathLayer],
    layers: &[Layer],
    rep: &[u16],
    def: &[u16],
    len: usize,
) -> Result<Finished> {
    let mut assembler = Assembler::new(path);
    assembler.append(layers, &mut Levels { rep: rep.into(), def: def.into(), len })?;
    Ok(assembler
        .finish()
        .into_iter()
        .map(LayerOutput::finish)
        .map(|(nulls, offsets)| (nulls.map(|n| n.iter().collect()), offsets))
        .collect())
}

#[test]
fn list_of_nullable_items() {
    // [[1, 2], null, [], [null]]
    let layers = [Layer::NullableItem, Layer::NullAndEmptyList];
    let got = assemble(&layers, &[1, 0, 1, 1, 1], &[0, 0, 2, 3, 1], 5).unwrap();
    assert_eq!(
        got,
        [
            (Some(vec![true, true, false]), None),
            (Some(vec![true, false, true, true]), Some(vec![0, 2, 2, 2, 3])),
        ]
    );
}

#[test]
fn structs_without_lists() {
    // {a: 1}, {a: null}, null
    let layers = [Layer::NullableItem, Layer::NullableItem];
    let got = assemble(&layers, &[], &[0, 1, 2], 3).unwrap();
    assert_eq!(got, [(Some(vec![true, false, false]), None), (Some(vec![true, true, false]), None)]);
}

#[test]
fn null_struct_between_lists() {
    // list<struct<list<int>>>: [{[1, 2]}, null, {null}, {[]}], null, []
    let layers = [Layer::AllValidItem, Layer::NullAndEmptyList, Layer::NullableItem, Layer::NullAndEmptyList];
    // levels: inner null 1, inner empty 2, struct null 3, outer null 4, outer empty 5
    let got = assemble(&layers, &[2, 0, 1, 1, 1, 2, 2], &[0, 0, 3, 1, 2, 4, 5], 7).unwrap();
    assert_eq!(got[0], (None, None));
    assert_eq!(got[1], (Some(vec![true, false, false, true]), Some(vec![0, 2, 2, 2, 2])));
    assert_eq!(got[2], (Some(vec![true, false, true, true]), None));
    assert_eq!(got[3], (Some(vec![true, false, true]), Some(vec![0, 4, 4, 4])));
}

/// The writer gives such a list a level for nulls, though only the struct around it is null.
#[test]
fn required_lists_in_null_structs_are_empty() {
    // struct<list<int>>: {[1]}, null, {null}
    let layers = [Layer::AllValidItem, Layer::NullableList, Layer::NullableItem];
    let (rep, def) = ([1, 1, 1], [0, 2, 1]);
    let of = |list| assemble_path(&[PathLayer::Item, list, PathLayer::Item], &layers, &rep, &def, 3).unwrap();
    assert_eq!(of(PathLayer::List)[1].0, Some(vec![true, false, false]));
    let required = of(PathLayer::RequiredList);
    assert_eq!(required[1], (Some(vec![true, true, false]), Some(vec![0, 1, 1, 1])));
    assert_eq!(required[2].0, Some(vec![true, false, true]));
}

#[test]
fn pages_with_different_layers_add_up() {
    let mut assembler = Assembler::new(&[PathLayer::Item, PathLayer::List]);
    let mut first = Levels { rep: vec![1, 0], def: vec![], len: 2 };
    assembler.append(&[Layer::AllValidItem, Layer::AllValidList], &mut first).unwrap();
    let mut second = Levels { rep: vec![1, 1], def: vec![1, 0], len: 2 };
    assembler.append(&[Layer::AllValidItem, Layer::EmptyableList], &mut second).unwrap();
    let list = assembler.finish().pop().unwrap().finish();
    assert_eq!(list, (None, Some(vec![0, 2, 2, 3])));
}

#[test]
fn contradictions_are_errors() {
    let layers = [Layer::NullableItem, Layer::NullAndEmptyList];
    for (rep, def) in [
        (&[0u16, 1][..], &[0u16, 0][..]), // starts inside a row
        (&[1, 0], &[2, 0]),               // continues a null list
        (&[1, 0], &[0, 3]),               // an empty list that continues
        (&[1, 2], &[0, 0]),               // repetition too high
        (&[1, 1], &[0, 4]),               // definition too high
        (&[1], &[0, 0]),
        (&[1, 1], &[0]),
    ] {
        assert!(assemble(&layers, rep, def, 2).is_err(), "{rep:?} {def:?}");
    }
    assert!(Assembler::new(&[PathLayer::Item]).append(&layers, &mut Levels::default()).is_err());
}
