//! How often the parser may look at a text.
//!
//! It tries what follows a dot, `CAST(`, `FLOOR(`, `ARRAY[` and their like as one thing and, where that fails, as another:
//! within twenty of them that is a million times.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use pennon_core::{Error, Result};

/// Looks at tokens beyond the first of each: about a second.
const MOST: u64 = 1 << 18;

/// What is between two brackets, apart from those in it.
#[derive(Default)]
struct Level {
    /// How many times two it was opened with.
    opened: u32,
    /// Dots of the name that is being read.
    dots: u32,
    /// Whether what follows the last of them is still to come: operators may stand before it.
    is_open: bool,
}

impl Level {
    /// A name or a value: what follows a dot, or the start of another name.
    fn operand(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            self.dots = 0;
        }
    }
}

/// Errors: `InvalidInput` for a text that the parser could look at too often.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    // Those around the innermost one, which is apart, and how many times two they are in all.
    let (mut around, mut level, mut doublings) = (Vec::new(), Level::default(), 0_u32);
    let mut repeats = 0_u64;
    let mut tokens = tokens.iter().map(|token| &token.token).filter(|token| !is_space(token)).peekable();
    let mut before: Option<&Token> = None;
    while let Some(token) = tokens.next() {
        match token {
            Token::Period => {
                level.dots += 1;
                level.is_open = true;
            }
            Token::Word(word) => {
                level.operand();
                let is_text = matches!(tokens.peek(), Some(Token::SingleQuotedString(_) | Token::Number(..)));
                if word.keyword == Keyword::INTERVAL && !is_text {
                    level.opened += 1;
                }
            }
            Token::LParen | Token::LBracket | Token::LBrace => {
                doublings = doublings.saturating_add(level.opened + level.dots);
                around
                    .push(std::mem::replace(&mut level, Level { opened: tries(before), ..Level::default() }));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                if let Some(outer) = around.pop() {
                    doublings = doublings.saturating_sub(outer.opened + outer.dots);
                    level = Level { is_open: false, ..outer };
                }
            }
            Token::Number(..) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => {
                level.operand()
            }
            _ if level.is_open => {}
            _ => level.dots = 0,
        }
        let times =
            1_u64.checked_shl(doublings.saturating_add(level.opened + level.dots)).unwrap_or(u64::MAX);
        // Two times are no matter.
        repeats = repeats.saturating_add(times.saturating_sub(2));
        if repeats > MOST {
            return Err(Error::invalid_input(
                "the expression is nested too deeply: functions such as CAST and names with dots are within each other, \
                 of which about 15 levels are possible",
            ));
        }
        before = Some(token);
    }
    Ok(())
}

fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

/// By how many times two a bracket after this token multiplies what is in it: none after an operator or a name.
fn tries(before: Option<&Token>) -> u32 {
    use Keyword::{ALL, AND, ANY, BETWEEN, ELSE, ILIKE, IN, IS, LIKE, NOT, NoKeyword, OR, SOME, THEN, WHEN};
    match before {
        Some(Token::Word(word)) => match word.keyword {
            NoKeyword | ALL | AND | ANY | BETWEEN | ELSE | ILIKE | IN | IS | LIKE | NOT | OR | SOME
            | THEN | WHEN => 0,
            Keyword::POSITION => 2,
            _ => 1,
        },
        _ => 0,
    }
}
