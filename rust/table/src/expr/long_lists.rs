//! Long lists of values: `key IN (1, 2, ...)` of thousands of keys is planned with eight of them.
//!
//! Tokens, the syntax tree and every step of planning cost a microsecond for each value. A list of whole numbers, or of
//! texts, is cut out of the text; the least and the greatest of its values stay, so that types are chosen and casts
//! moved as with all of them. The others come back before the expression is bound, as values of the type that these
//! have got. Whatever is unclear is planned as it is, and so is what fails without the values.

use std::fmt::Write;

use arrow_schema::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DataFusionError, ScalarValue};
use datafusion_expr::Expr;
use datafusion_expr::expr::InList;

/// Shorter lists are planned as they are.
const MIN_LEN: usize = 64;
/// So many of the least and of the greatest values stay.
const KEPT_AT_EACH_END: usize = 4;
/// All that stay.
const KEPT: usize = 2 * KEPT_AT_EACH_END;

/// A list that was cut out of a text.
pub(super) struct LongList {
    /// The text without most of the list.
    pub(super) short: String,
    values: ListValues,
}

/// In ascending order, each once.
enum ListValues {
    Integers(Vec<i64>),
    Texts(Vec<String>),
}

impl LongList {
    /// The first list of a text that is long.
    pub(super) fn find(sql: &str) -> Option<Self> {
        let mut rest = sql;
        while let Some(first) = rest.chars().next() {
            if matches!(first, '\'' | '"' | '`') {
                rest = quoted(rest, first)?.1;
            } else if first == '$' || rest.starts_with("--") || rest.starts_with("/*") {
                // Texts in other quotes, and comments.
                return None;
            } else if is_word(first) {
                let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
                rest = after;
                if word.eq_ignore_ascii_case("in")
                    && let Some(inside) = after.trim_start().strip_prefix('(')
                {
                    let list = ListValues::read(inside).filter(|(values, _)| values.len() >= MIN_LEN);
                    if let Some((values, after)) = list {
                        let start = sql.get(..sql.len() - inside.len())?;
                        return Some(Self { short: format!("{start}{}){after}", values.ends()), values });
                    }
                }
            } else {
                rest = rest.strip_prefix(first)?;
            }
        }
        None
    }

    /// The column that the list of a coerced expression is about, if nothing else in it is: then simplification does not
    /// join the list with another one.
    pub(super) fn column(&self, expr: &Expr) -> Result<Option<Column>, DataFusionError> {
        let (mut columns, mut operands) = (Vec::new(), Vec::new());
        expr.apply(|node| {
            match node {
                Expr::Column(column) => columns.push(column.clone()),
                Expr::InList(list) if list.list.len() == KEPT => {
                    operands.push(only_column(&list.expr));
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let [Some(operand)] = operands.as_slice() else { return Ok(None) };
        let is_alone = columns.iter().filter(|column| *column == operand).count() == 1;
        Ok(is_alone.then(|| operand.clone()))
    }

    /// The simplified expression with all values in the list about a column; none where that is not what it was.
    pub(super) fn put_back(&self, expr: Expr, column: &Column) -> Result<Option<Expr>, DataFusionError> {
        let mut found = 0;
        let expr = expr.transform(|node| {
            let Expr::InList(list) = node else { return Ok(Transformed::no(node)) };
            let is_it = list.list.len() == KEPT && only_column(&list.expr).as_ref() == Some(column);
            let all = if is_it { self.all(&list) } else { None };
            Ok(match all {
                Some(all) => {
                    found += 1;
                    Transformed::yes(Expr::InList(InList { list: all, ..list }))
                }
                None => Transformed::no(Expr::InList(list)),
            })
        })?;
        Ok((found == 1).then_some(expr.data))
    }

    /// All values in the type of those that stayed, if these are the list.
    fn all(&self, list: &InList) -> Option<Vec<Expr>> {
        let literal =
            |expr: &Expr| if let Expr::Literal(value, _) = expr { Some(value.clone()) } else { None };
        let shown = list.list.iter().map(literal).collect::<Option<Vec<_>>>()?;
        let data_type = shown.first()?.data_type();
        let all = self.values.scalars(&data_type)?;
        let ends = all.iter().take(KEPT_AT_EACH_END).chain(all.iter().skip(all.len() - KEPT_AT_EACH_END));
        (ends.eq(&shown)).then(|| all.into_iter().map(|value| Expr::Literal(value, None)).collect())
    }
}

impl ListValues {
    /// Values up to the closing bracket, and the text after it.
    fn read(inside: &str) -> Option<(Self, &str)> {
        let is_text = inside.trim_start().starts_with('\'');
        let mut values = if is_text { Self::Texts(Vec::new()) } else { Self::Integers(Vec::new()) };
        let mut rest = inside;
        loop {
            rest = rest.trim_start();
            match &mut values {
                Self::Texts(texts) => {
                    let (text, after) = quoted(rest, '\'')?;
                    texts.push(text);
                    rest = after;
                }
                Self::Integers(integers) => {
                    let digits = rest.strip_prefix('-').unwrap_or(rest);
                    let after = digits.trim_start_matches(|c: char| c.is_ascii_digit());
                    integers.push(rest.get(..rest.len() - after.len())?.parse().ok()?);
                    rest = after;
                }
            }
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix(')') {
                values.sort();
                return Some((values, after));
            }
            rest = rest.strip_prefix(',')?;
        }
    }

    fn sort(&mut self) {
        match self {
            Self::Integers(integers) => {
                integers.sort_unstable();
                integers.dedup();
            }
            Self::Texts(texts) => {
                texts.sort_unstable();
                texts.dedup();
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Integers(integers) => integers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    /// The values that stay, as SQL.
    fn ends(&self) -> String {
        let mut shown = String::new();
        let at_ends = |at: &usize| *at < KEPT_AT_EACH_END || *at >= self.len() - KEPT_AT_EACH_END;
        for at in (0..self.len()).filter(at_ends) {
            let comma = if at == 0 { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = match self {
                Self::Integers(integers) => integers.get(at).map(|value| write!(shown, "{comma}{value}")),
                Self::Texts(texts) => {
                    texts.get(at).map(|text| write!(shown, "{comma}'{}'", text.replace('\'', "''")))
                }
            };
        }
        shown
    }

    /// The values in a type that has all of them as they are.
    fn scalars(&self, data_type: &DataType) -> Option<Vec<ScalarValue>> {
        match (self, data_type) {
            (Self::Integers(integers), _) => {
                integers.iter().map(|value| integer(*value, data_type)).collect()
            }
            (Self::Texts(texts), DataType::Utf8) => {
                Some(texts.iter().map(|text| ScalarValue::Utf8(Some(text.clone()))).collect())
            }
            (Self::Texts(texts), DataType::LargeUtf8) => {
                Some(texts.iter().map(|text| ScalarValue::LargeUtf8(Some(text.clone()))).collect())
            }
            _ => None,
        }
    }
}

/// The only column of an expression.
fn only_column(expr: &Expr) -> Option<Column> {
    let mut columns = expr.column_refs().into_iter();
    columns.next().filter(|_| columns.next().is_none()).cloned()
}

/// A whole number in a type that has it.
fn integer(value: i64, data_type: &DataType) -> Option<ScalarValue> {
    Some(match data_type {
        DataType::Int8 => ScalarValue::Int8(Some(value.try_into().ok()?)),
        DataType::Int16 => ScalarValue::Int16(Some(value.try_into().ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(value.try_into().ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(value)),
        DataType::UInt8 => ScalarValue::UInt8(Some(value.try_into().ok()?)),
        DataType::UInt16 => ScalarValue::UInt16(Some(value.try_into().ok()?)),
        DataType::UInt32 => ScalarValue::UInt32(Some(value.try_into().ok()?)),
        DataType::UInt64 => ScalarValue::UInt64(Some(value.try_into().ok()?)),
        _ => return None,
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What is between two quotes, of which two in it are one, and the text after them.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix(quote)?;
    let mut found = String::new();
    loop {
        let (part, after) = rest.split_once(quote)?;
        found.push_str(part);
        match after.strip_prefix(quote) {
            Some(more) => {
                found.push(quote);
                rest = more;
            }
            None => return Some((found, after)),
        }
    }
}
