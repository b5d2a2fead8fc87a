//! The values of a document that a JSONPath selects.
//!
//! The library parses paths. Steps are walked here: it has no bounds for slices of short arrays (`[0 to 1]` of none).
//! Filters and arithmetic are left to it, on documents that were checked before, since it trusts what it reads. It panics
//! for some texts that are no path.

use jsonb::RawJsonb;
use jsonb::jsonpath::{ArrayIndex, Expr, Index, JsonPath, Path, parse_json_path};
use pennon_core::{Error, Result};

use super::binary::{Item, Value};
use super::text;
use crate::runtime::guarded;

/// Bytes of a path, at most.
const LONGEST: usize = 4096;
/// Parentheses of a path, at most: the library parses them by recursion.
const PARENTHESES: usize = 32;
/// Levels of a document that filters can be asked about: the library counts them in a byte.
const FILTERED_LEVELS: usize = 250;

/// A path.
pub(super) struct Selector<'a> {
    path: JsonPath<'a>,
    /// Whether it has filters or arithmetic.
    computes: bool,
}

impl<'a> Selector<'a> {
    /// Errors: `InvalidInput` for what is not a path, `Unsupported` for slices in filters and paths that are too long.
    pub(super) fn parse(text: &'a str) -> Result<Self> {
        if text.len() > LONGEST || text.bytes().filter(|byte| *byte == b'(').count() > PARENTHESES {
            return Err(Error::unsupported(format!(
                "a JSONPath of {} bytes; at most {LONGEST} with {PARENTHESES} parentheses are possible",
                text.len()
            )));
        }
        let invalid = |why: &dyn std::fmt::Display| {
            Error::invalid_input(format!("'{text}' is not a valid JSONPath: {why}"))
        };
        if !quotes_match(text) {
            return Err(invalid(&"a quote is not closed"));
        }
        let path = guarded(|| parse_json_path(text.as_bytes()))
            .map_err(|_| invalid(&"it cannot be parsed"))?
            .map_err(|e| invalid(&e))?;
        let computes = path.paths.iter().any(|step| matches!(step, Path::FilterExpr(_) | Path::Expr(_)));
        if computes && has_slice(&path.paths) {
            return Err(Error::unsupported(format!(
                "'{text}': a slice of an array together with an expression"
            )));
        }
        Ok(Self { path, computes })
    }

    /// What `read` makes of the values that are selected. Errors: `Corrupt`; `InvalidInput` for arithmetic on what is
    /// no number; those of `read`.
    pub(super) fn select<T>(
        &self,
        document: &[u8],
        read: impl FnOnce(&[Item<'_>]) -> Result<T>,
    ) -> Result<T> {
        if !self.computes {
            let mut items = vec![Item::of(document)?];
            for step in &self.path.paths {
                let mut next = Vec::new();
                for item in items {
                    walk(item, step, &mut next)?;
                }
                items = next;
            }
            return read(&items);
        }
        let levels = text::check(document)?;
        if levels > FILTERED_LEVELS {
            return Err(Error::unsupported(format!(
                "JSON of {levels} levels; expressions of paths see at most {FILTERED_LEVELS}"
            )));
        }
        let null = [0x20, 0, 0, 0, 0, 0, 0, 0];
        let raw = RawJsonb::new(if document.is_empty() { &null } else { document });
        let failed =
            |e| Error::invalid_input(format!("the JSONPath '{}' cannot be computed: {e}", self.path));
        let found = guarded(|| raw.select_by_path(&self.path))
            .unwrap_or(Err(jsonb::Error::InvalidJsonPath))
            .map_err(failed)?;
        let items = found.iter().map(|found| Item::of(found.as_ref())).collect::<Result<Vec<_>>>()?;
        read(&items)
    }
}

/// Whether each double quote has a second one: the library looks for it beyond the end.
fn quotes_match(text: &str) -> bool {
    let (mut is_open, mut bytes) = (false, text.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => is_open = !is_open,
            _ => {}
        }
    }
    !is_open
}

fn has_slice(steps: &[Path<'_>]) -> bool {
    fn expression(expr: &Expr<'_>) -> bool {
        match expr {
            Expr::Paths(steps) | Expr::ExistsFunc(steps) => has_slice(steps),
            Expr::Value(_) => false,
            Expr::BinaryOp { left, right, .. } => expression(left) || expression(right),
            Expr::UnaryOp { operand, .. } => expression(operand),
        }
    }
    steps.iter().any(|step| match step {
        Path::ArrayIndices(indices) => indices.iter().any(|index| matches!(index, ArrayIndex::Slice(_))),
        Path::FilterExpr(expr) | Path::Expr(expr) => expression(expr),
        _ => false,
    })
}

/// Appends what one step leads to.
fn walk<'a>(item: Item<'a>, step: &Path<'_>, found: &mut Vec<Item<'a>>) -> Result<()> {
    match (step, item.value()?) {
        (Path::Root | Path::Current, _) => found.push(item),
        (Path::DotWildcard, Value::Object(members)) => {
            for member in members {
                found.push(member?.1);
            }
        }
        (Path::BracketWildcard, Value::Array(items)) => {
            for item in items {
                found.push(item?);
            }
        }
        // A value is an array of one.
        (Path::BracketWildcard, _) => found.push(item),
        (Path::DotField(name) | Path::ColonField(name) | Path::ObjectField(name), Value::Object(members)) => {
            found.extend(members.find(name)?);
        }
        (Path::ArrayIndices(indices), Value::Array(items)) => {
            let items = items.collect::<Result<Vec<_>>>()?;
            for index in indices {
                let (first, last) = ends(index, items.len());
                found.extend(items.iter().take(last).skip(first));
            }
        }
        (Path::RecursiveDotWildcard(levels), _) => {
            let mut open = vec![(item, 0_u8)];
            while let Some((item, level)) = open.pop() {
                let (matches, should_continue) = match levels {
                    Some(levels) => levels.check_recursive_level(level),
                    None => (true, true),
                };
                if matches {
                    found.push(item);
                }
                if should_continue {
                    let start = open.len();
                    let level = level.saturating_add(1);
                    match item.value()? {
                        Value::Array(items) => {
                            items.map(|item| Ok((item?, level))).try_for_each(push(&mut open))?
                        }
                        Value::Object(members) => {
                            members.map(|member| Ok((member?.1, level))).try_for_each(push(&mut open))?;
                        }
                        _ => {}
                    }
                    open.get_mut(start..).unwrap_or_default().reverse();
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn push<T>(list: &mut Vec<T>) -> impl FnMut(Result<T>) -> Result<()> + '_ {
    |item| {
        list.push(item?);
        Ok(())
    }
}

/// The first item of an index or slice, and the one behind its last.
fn ends(index: &ArrayIndex, length: usize) -> (usize, usize) {
    let signed = i64::try_from(length).unwrap_or(i64::MAX);
    let position = |index: &Index| match index {
        Index::Index(at) => i64::from(*at),
        Index::LastIndex(at) => signed.saturating_sub(1).saturating_add(i64::from(*at)),
    };
    let (first, last) = match index {
        ArrayIndex::Index(at) => (position(at), position(at)),
        ArrayIndex::Slice((first, last)) => (position(first).max(0), position(last)),
    };
    // Nothing if it is before the first item.
    match usize::try_from(first) {
        Ok(first) => (first, usize::try_from(last.saturating_add(1)).unwrap_or(0)),
        Err(_) => (0, 0),
    }
}
