//! SQL text -> syntax tree with the column names resolved.

use std::ops::ControlFlow;

use arrow_schema::Schema;
use datafusion_sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, Expr, Ident, TimezoneInfo, Value, Visit, Visitor,
    visit_expressions_mut,
};
use datafusion_sql::sqlparser::dialect::Dialect;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::Parser;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use pennon_core::{Error, Result};

use super::repeats;

/// Depth of nesting (parentheses, NOT, CASE ...) beyond which a text is refused.
const NESTING: usize = 100;

/// Digits of the fraction of a second in a timestamp that a value is cast to.
const MICROSECONDS: u64 = 6;

/// Back ticks quote names; both other quotes quote text, as the reference has it.
#[derive(Debug)]
struct PennonDialect;

impl Dialect for PennonDialect {
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        false
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }
}

/// Levels of a tree, chains of AND and OR apart, beyond which it is not planned: what is planned has fewer in the end,
/// and planners take quadratic time for chains of some operators.
const LEVELS: usize = 600;

/// Measures a tree and stops where it is too deep.
#[derive(Default)]
struct Depth(usize);

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 += usize::from(!is_chain(expr));
        if self.0 > LEVELS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 -= usize::from(!is_chain(expr));
        ControlFlow::Continue(())
    }
}

/// Whether it is an AND or OR, of which thousands may follow each other.
fn is_chain(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. })
}

/// A text cut into tokens.
pub(super) struct Text<'a> {
    pub(super) sql: &'a str,
    /// Tokens that can add a level to the tree: neither values nor commas.
    pub(super) operators: usize,
    tokens: Vec<TokenWithSpan>,
}

impl<'a> Text<'a> {
    /// Errors: `InvalidInput` for what is not a token.
    pub(super) fn new(sql: &'a str) -> Result<Self> {
        let sql = sql.trim_end().strip_suffix(';').unwrap_or(sql);
        let tokens = Tokenizer::new(&PennonDialect, sql)
            .tokenize_with_location()
            .map_err(|e| syntax_error(sql, &e))?;
        let flat = |token: &Token| match token {
            Token::Whitespace(_) | Token::Comma | Token::Number(..) => true,
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) | Token::HexStringLiteral(_) => true,
            Token::Word(word) => word.keyword == Keyword::NoKeyword,
            _ => false,
        };
        repeats::check(&tokens)?;
        let solid: Vec<&Token> =
            tokens.iter().map(|t| &t.token).filter(|t| !matches!(t, Token::Whitespace(_))).collect();
        let signs = solid.windows(3).filter(|three| is_signed_item(three)).count();
        let operators = tokens.iter().filter(|t| !flat(&t.token)).count() - signs;
        Ok(Self { sql, operators, tokens })
    }

    /// The syntax tree of one expression, nothing behind it.
    pub(super) fn parse(self, schema: &Schema) -> Result<Expr> {
        let sql = self.sql;
        let parser = Parser::new(&PennonDialect).with_recursion_limit(NESTING);
        let mut parser = parser.with_tokens_with_locations(self.tokens);
        let mut expr = parser.parse_expr().map_err(|e| syntax_error(sql, &e))?;
        let rest = parser.next_token();
        if rest.token != Token::EOF {
            return Err(syntax_error(sql, &format!("expected the end of the expression, found {rest}")));
        }
        if expr.visit(&mut Depth::default()).is_break() {
            return Err(Error::invalid_input(format!(
                "the expression is nested too deeply: at most {LEVELS} levels are possible"
            )));
        }
        let _ = visit_expressions_mut(&mut expr, |node| {
            match node {
                Expr::Identifier(name) => resolve_side(name, schema),
                Expr::Cast { data_type, .. } => rename_type(data_type),
                Expr::CompoundFieldAccess { root, access_chain } => quote_members(root, access_chain),
                Expr::CompoundIdentifier(path) => {
                    join_pair(path, schema);
                    if let Some(first) = path.first_mut() {
                        resolve_side(first, schema);
                    }
                    if path.len() == 1
                        && let Some(only) = path.pop()
                    {
                        *node = Expr::Identifier(only);
                    }
                }
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
        Ok(expr)
    }
}

/// Gives a type the name by which DataFusion knows what the reference means by it.
fn rename_type(data_type: &mut DataType) {
    match data_type {
        // The precision of the reference; without one, DataFusion takes numbers for seconds.
        DataType::Timestamp(precision @ None, _) => *precision = Some(MICROSECONDS),
        DataType::Datetime(precision) => {
            *data_type = DataType::Timestamp(precision.or(Some(MICROSECONDS)), TimezoneInfo::None);
        }
        DataType::Binary(_) => *data_type = DataType::Bytea,
        _ => {}
    }
}

/// Whether it is a number with a sign in a list.
fn is_signed_item(three: &[&Token]) -> bool {
    matches!(three, [Token::Comma | Token::LParen, Token::Minus, Token::Number(..)])
}

fn syntax_error(sql: &str, error: &dyn std::fmt::Display) -> Error {
    Error::invalid_input(format!("Error parsing statement {sql:?}: {error}"))
}

/// Members of what is not a column, `items[1].name`, as DataFusion takes them: by text.
fn quote_members(root: &Expr, access_chain: &mut [AccessExpr]) {
    let is_column = matches!(root, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let leading = access_chain.iter().take_while(|access| is_column && matches!(access, AccessExpr::Dot(_)));
    let leading = leading.count();
    for access in access_chain.iter_mut().skip(leading) {
        if let AccessExpr::Dot(name) = access
            && let Expr::Identifier(member) = name
        {
            *name = Expr::value(Value::SingleQuotedString(member.value.clone()));
        }
    }
}

/// Makes one name of the first two where that is a column: only pairs of rows have columns with a dot.
fn join_pair(path: &mut Vec<Ident>, schema: &Schema) {
    if let [first, second, ..] = path.as_mut_slice() {
        let mut joined = Ident::with_quote('`', format!("{}.{}", first.value, second.value));
        resolve(&mut joined, schema);
        if schema.column_with_name(&joined.value).is_some() {
            *first = joined;
            path.remove(1);
        }
    }
}

/// Resolves a name; in pairs of rows without that of a side, if only one has such a column.
fn resolve_side(name: &mut Ident, schema: &Schema) {
    resolve(name, schema);
    if schema.column_with_name(&name.value).is_some() {
        return;
    }
    let mut sides = ["source", "target"].into_iter().filter_map(|side| {
        let mut joined = Ident::with_quote('`', format!("{side}.{}", name.value));
        resolve(&mut joined, schema);
        schema.column_with_name(&joined.value).map(|_| joined)
    });
    if let (Some(only), None) = (sides.next(), sides.next()) {
        *name = only;
    }
}

/// Replaces a name that no column has by the only column name that differs from it in case.
fn resolve(name: &mut Ident, schema: &Schema) {
    if schema.column_with_name(&name.value).is_some() {
        return;
    }
    let mut same = schema.fields().iter().filter(|f| f.name().to_lowercase() == name.value.to_lowercase());
    if let (Some(found), None) = (same.next(), same.next()) {
        name.value.clone_from(found.name());
    }
}
