//! Tokenizer for nginx files: words with or without quotes, `;`, `{`, `}`, and comments.

/// A token, and the line where it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word(String),
    Open,
    Close,
    End,
}

/// A tokenizer error, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TokenError {
    pub(super) line: usize,
    pub(super) cause: &'static str,
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, TokenError> {
    let mut tokens = Vec::new();
    let (mut line, mut rest) = (1, text.chars().peekable());
    while let Some(letter) = rest.next() {
        let begun = line;
        let kind = match letter {
            '\n' => {
                line += 1;
                continue;
            }
            _ if letter.is_whitespace() => continue,
            '#' => {
                while rest.next_if(|letter| *letter != '\n').is_some() {}
                continue;
            }
            ';' => TokenKind::End,
            '{' => TokenKind::Open,
            '}' => TokenKind::Close,
            quote @ ('"' | '\'') => TokenKind::Word(
                quoted(&mut rest, quote, &mut line)
                    .ok_or(TokenError { line: begun, cause: "unclosed quote" })?,
            ),
            letter => TokenKind::Word(plain(letter, &mut rest, &mut line)),
        };
        tokens.push(Token { kind, line: begun });
    }
    Ok(tokens)
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn quoted(rest: &mut Letters<'_>, quote: char, line: &mut usize) -> Option<String> {
    let mut word = String::new();
    loop {
        match rest.next()? {
            letter if letter == quote => return Some(word),
            '\\' => word.push_str(&escaped(rest.next()?)),
            letter => {
                *line += usize::from(letter == '\n');
                word.push(letter);
            }
        }
    }
}

/// A word ends at a space or punctuation; `${name}` is part of it.
fn plain(first: char, rest: &mut Letters<'_>, line: &mut usize) -> String {
    let mut word = String::new();
    let mut next = Some(first);
    while let Some(letter) = next {
        match letter {
            '\\' => {
                let after = rest.next().unwrap_or_default();
                *line += usize::from(after == '\n');
                word.push_str(&escaped(after));
            }
            '$' if rest.peek() == Some(&'{') => {
                word.push('$');
                while let Some(letter) = rest.next_if(|letter| !letter.is_whitespace()) {
                    if !"{}".contains(letter) {
                        word.push(letter);
                    }
                    if letter == '}' {
                        break;
                    }
                }
            }
            letter => word.push(letter),
        }
        next = rest.next_if(|letter| !letter.is_whitespace() && !";{}".contains(*letter));
    }
    word
}

/// nginx removes a backslash before quotes, spaces and backslashes, and keeps all others.
fn escaped(letter: char) -> String {
    match letter {
        '"' | '\'' | '\\' | ' ' => letter.to_string(),
        't' => "\t".to_owned(),
        'r' => "\r".to_owned(),
        'n' => "\n".to_owned(),
        other => format!("\\{other}"),
    }
}
