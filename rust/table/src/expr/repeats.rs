//! How often the parser may look at a text.
//!
//! It tries what follows a dot, `CAST(`, `FLOOR(`, `ARRAY[` and their like as one thing and, where that fails, as another:
//! within twenty of them that is a million times.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use pennon_core::{Error, Result};

/// Looks at tokens beyond the first of each: about a second.
const MOST: u64 = 1 << 18;

/// Between two brackets.
#[derive(Default)]
struct Level {
    /// How many times two it was opened with.
    opened: u32,
    /// Dots of the name that is being read.
    dots: u32,
}

/// Errors: `InvalidInput` for a text that the parser could look at too often.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut levels = vec![Level::default()];
    let mut repeats = 0_u64;
    let mut tokens = tokens.iter().map(|token| &token.token).filter(|token| !is_space(token)).peekable();
    let mut before: Option<&Token> = None;
    while let Some(token) = tokens.next() {
        let innermost = levels.last_mut();
        match (token, innermost) {
            (Token::Period, Some(level)) => level.dots += 1,
            (Token::Word(word), Some(level)) => {
                if before != Some(&Token::Period) {
                    level.dots = 0;
                }
                let is_text = matches!(tokens.peek(), Some(Token::SingleQuotedString(_) | Token::Number(..)));
                if word.keyword == Keyword::INTERVAL && !is_text {
                    level.opened += 1;
                }
            }
            (Token::LParen | Token::LBracket | Token::LBrace, _) => {
                levels.push(Level { opened: tries(before), dots: 0 });
            }
            (Token::RParen | Token::RBracket | Token::RBrace, _) => {
                if levels.len() > 1 {
                    levels.pop();
                }
            }
            (_, Some(level)) => level.dots = 0,
            (_, None) => {}
        }
        let doublings: u32 = levels.iter().map(|level| level.opened + level.dots).sum();
        repeats = repeats.saturating_add(1_u64.checked_shl(doublings).unwrap_or(u64::MAX) - 1);
        if doublings > 63 || repeats > MOST {
            return Err(Error::invalid_input(
                "the expression is nested too deeply: too many functions and names with dots are within each other",
            ));
        }
        before = Some(token);
    }
    Ok(())
}

fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

/// By how many times two a bracket after this token multiplies what is in it.
fn tries(before: Option<&Token>) -> u32 {
    match before {
        Some(Token::Word(word)) if word.keyword == Keyword::POSITION => 2,
        Some(Token::Word(word)) if word.keyword != Keyword::NoKeyword => 1,
        _ => 0,
    }
}
