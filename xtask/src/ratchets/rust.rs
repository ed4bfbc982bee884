//! Rust sources as tokens: enough to find names and paths, also inside of macros.

use crate::lines::{crate_of, has_extension, is_production};
use crate::tree::Tree;
use anyhow::Context;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A Rust file, and what it consists of without items that only tests compile.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) is_production: bool,
    pub(super) tokens: Vec<TokenTree>,
}

impl Source {
    pub(super) fn crate_name(&self) -> &str {
        crate_of(&self.path)
    }

    /// Where the module lies in its crate: `["front", "rls"]` for `src/front/rls.rs`, nothing for the root.
    pub(super) fn module(&self) -> Vec<&str> {
        let within = self.path.split_once("/src/").map_or("", |(_, within)| within);
        let mut module: Vec<_> = within.trim_end_matches(".rs").split('/').collect();
        if matches!(module.last(), Some(&("lib" | "main" | "mod"))) {
            module.pop();
        }
        module
    }
}

pub(super) fn sources(tree: &Tree) -> anyhow::Result<Vec<Source>> {
    let files = tree.files(|path| has_extension(path, "rs") && path.starts_with("crates/"))?;
    let source = |file: crate::tree::File| {
        let tokens = file.text.parse::<TokenStream>().map_err(|error| anyhow::anyhow!("{error}"));
        let tokens = tokens.with_context(|| format!("{} does not parse", file.path))?;
        let is_production = is_production(&file.path);
        Ok(Source { tokens: without_tests(tokens), is_production, path: file.path, text: file.text })
    };
    files.into_iter().map(source).collect()
}

/// Drops each item after `#[cfg(test)]`, up to its `;` or its braces.
pub(super) fn without_tests(tokens: TokenStream) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_attribute = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
        match tokens.peek() {
            Some(TokenTree::Group(group)) if is_attribute && is_test_only(&group.stream()) => {
                tokens.find(|token| match token {
                    TokenTree::Punct(punct) => punct.as_char() == ';',
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    _ => false,
                });
            }
            _ => kept.push(token),
        }
    }
    kept
}

fn is_test_only(attribute: &TokenStream) -> bool {
    let text = attribute.to_string();
    let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    text.starts_with("cfg(")
        && ["(test)", "(test,", ",test)", ",test,"].iter().any(|test| text.contains(test))
        && !text.contains("not(test)")
}

/// Calls `visit` with each run of tokens, that of the file first and then those inside of groups.
pub(super) fn for_each_run(tokens: &[TokenTree], visit: &mut impl FnMut(&[TokenTree])) {
    visit(tokens);
    for token in tokens {
        if let TokenTree::Group(group) = token {
            for_each_run(&group.stream().into_iter().collect::<Vec<_>>(), visit);
        }
    }
}

pub(super) fn ident(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

pub(super) fn is_punct(token: Option<&TokenTree>, letter: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == letter)
}
