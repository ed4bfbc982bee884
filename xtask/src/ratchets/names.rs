//! Names: of types, functions and tests.

use super::Findings;
use super::rust::{Source, for_each_run, ident, is_punct};
use proc_macro2::{Delimiter, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

const REFUSED: &str = include_str!("../../refused-identifiers.txt");
const LONGEST_TEST_NAME: usize = 60;
/// Participles without the usual ending.
const IRREGULAR: &str = include_str!("../../participles.txt");
/// Nouns that end like a participle.
const NOUNS: [&str; 4] = ["Feed", "Need", "Seed", "Speed"];

/// The refused words of identifiers.
pub(super) fn metaphors() -> impl Iterator<Item = &'static str> {
    REFUSED.lines().filter_map(|line| line.split(' ').next()).filter(|it| !["#", "except"].contains(it))
}

/// Whether another crate defines this name, which the file has to use.
pub(super) fn is_foreign(path: &str, name: &str) -> bool {
    let exceptions = REFUSED.lines().filter_map(|line| line.strip_prefix("except ")?.split_once(' '));
    exceptions.into_iter().any(|(file, it)| file == path && it.eq_ignore_ascii_case(name))
}

pub(super) fn check(sources: &[Source], findings: &mut Findings) {
    let refused: BTreeSet<_> = metaphors().collect();
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        let krate = source.crate_name();
        for (line, name) in test_names(&source.text).filter(|(_, name)| name.len() > LONGEST_TEST_NAME) {
            findings.add(format!("test names over 60: {krate}"), format!("{}:{line}: {name}", source.path));
        }
        for (line, name) in identifiers(source, &refused) {
            findings.add(format!("refused identifiers: {krate}"), format!("{}:{line}: {name}", source.path));
        }
        if !source.is_production {
            continue;
        }
        for_each_run(&source.tokens, &mut |run| {
            for at in 0..run.len() {
                if let Some((line, name)) = mutating_predicate(run, at) {
                    findings.add(
                        format!("predicates that mutate: {krate}"),
                        format!("{}:{line}: {name}", source.path),
                    );
                }
                if let Some((line, name)) = type_name(run, at) {
                    if is_participle(&name) {
                        findings.add(
                            format!("participle types: {krate}"),
                            format!("{}:{line}: {name}", source.path),
                        );
                    }
                    types.entry(name).or_default().push(format!("{}:{line}", source.path));
                }
            }
        });
    }
    for (name, places) in types.iter().filter(|(_, places)| places.len() > 1) {
        for place in places.iter().skip(1) {
            findings.add(
                "types of one name",
                format!("{place}: {name}, also {}", places.first().map_or("", String::as_str)),
            );
        }
    }
}

/// A function `is_..`, `has_..`, `was_..` or `are_..` that returns nothing or borrows its receiver mutably.
fn mutating_predicate(run: &[TokenTree], at: usize) -> Option<(usize, String)> {
    if ident(run.get(at))? != "fn" {
        return None;
    }
    let name = ident(run.get(at + 1))?;
    let is_predicate = ["is_", "has_", "was_", "are_"].iter().any(|prefix| name.starts_with(prefix));
    let rest = run.get(at + 2..)?;
    let parameters = rest.iter().position(
        |it| matches!(it, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis),
    )?;
    let TokenTree::Group(list) = rest.get(parameters)? else { return None };
    let mutates = list.stream().to_string().replace(' ', "").starts_with("&mutself");
    let returns = is_punct(rest.get(parameters + 1), '-');
    (is_predicate && (mutates || !returns)).then(|| (line(run.get(at)), name))
}

/// The name that `struct`, `enum` or `trait` defines.
fn type_name(run: &[TokenTree], at: usize) -> Option<(usize, String)> {
    let keyword = ident(run.get(at))?;
    let name = ident(run.get(at + 1))?;
    let defines = matches!(keyword.as_str(), "struct" | "enum" | "trait" | "union");
    (defines && name.starts_with(char::is_uppercase)).then(|| (line(run.get(at)), name))
}

fn is_participle(name: &str) -> bool {
    let is_one_word = name.chars().skip(1).all(char::is_lowercase);
    is_one_word && !NOUNS.contains(&name) && (name.ends_with("ed") || IRREGULAR.lines().any(|it| it == name))
}

fn line(token: Option<&TokenTree>) -> usize {
    token.map_or(0, |token| token.span().start().line)
}

/// The distinct identifiers of a file that contain a refused word.
fn identifiers(source: &Source, refused: &BTreeSet<&str>) -> Vec<(usize, String)> {
    let mut found = BTreeMap::new();
    for_each_run(&source.tokens, &mut |run| {
        for token in run {
            let TokenTree::Ident(name) = token else { continue };
            let name = name.to_string();
            if is_foreign(&source.path, &name) {
                continue;
            }
            if segments(&name).iter().any(|segment| refused.contains(segment.as_str())) {
                found.entry(name).or_insert_with(|| line(Some(token)));
            }
        }
    });
    found.into_iter().map(|(name, line)| (line, name)).collect()
}

/// `LeaseTable` and `lease_table` as `lease`, `table`.
fn segments(name: &str) -> Vec<String> {
    let mut segments = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && was_lower) {
            segments.push(String::new());
        }
        was_lower = letter.is_lowercase();
        if let Some(last) = segments.last_mut().filter(|_| letter != '_') {
            last.extend(letter.to_lowercase());
        }
    }
    segments
}

/// The functions below an attribute that ends in `test]`, by text, so that tests in macros count too.
fn test_names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_test = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let line = line.trim_start();
        is_test |= line.starts_with("#[test]") || (line.starts_with("#[") && line.contains("::test"));
        let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        let name = name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
        std::mem::take(&mut is_test).then_some((number, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(code: &str) -> Vec<TokenTree> {
        code.parse::<proc_macro2::TokenStream>().unwrap().into_iter().collect()
    }

    #[test]
    fn predicate_that_mutates_is_found() {
        for code in ["fn is_ready(&self) {}", "fn has_no<T>(&mut self) -> bool { true }"] {
            assert!(mutating_predicate(&run(code), 0).is_some(), "{code}");
        }
        for code in ["fn is_ready(&self) -> bool { true }", "fn mark_ready(&mut self) {}"] {
            assert!(mutating_predicate(&run(code), 0).is_none(), "{code}");
        }
    }

    #[test]
    fn participle_is_one_word_that_is_not_a_noun() {
        assert!(is_participle("Asked") && is_participle("Taken"));
        assert!(!is_participle("Seed") && !is_participle("BlockedKey") && !is_participle("Lease"));
    }

    #[test]
    fn identifier_is_split_by_case_and_underscore() {
        assert_eq!(segments("KeyTable_of"), ["key", "table", "of"]);
    }

    #[test]
    fn type_definition_is_found_and_use_is_not() {
        assert_eq!(type_name(&run("struct Lease;"), 0), Some((1, "Lease".to_owned())));
        assert_eq!(type_name(&run("use crate::Lease;"), 0), None);
    }

    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, code): &(&str, &str)| Source {
            path: format!("crates/{path}"),
            text: (*code).to_owned(),
            is_production: path.contains("/src/"),
            tokens: run(code),
        };
        let mut findings = Findings::default();
        check(&sources.iter().map(source).collect::<Vec<_>>(), &mut findings);
        findings.keys().map(|key| format!("{key} = {}", findings.count(key))).collect()
    }

    #[test]
    fn each_breach_counts_for_its_crate() {
        let metaphor = metaphors().next().unwrap();
        for (path, code, key) in [
            ("a/src/b.rs", "struct Asked;", "participle types: a = 1"),
            ("a/src/b.rs", "fn is_set(&mut self) -> bool { true }", "predicates that mutate: a = 1"),
            ("a/tests/b.rs", &format!("fn f({metaphor}_size: u64) {{}}"), "refused identifiers: a = 1"),
            ("a/src/b.rs", &format!("#[test]\nfn {}() {{}}", "n".repeat(61)), "test names over 60: a = 1"),
        ] {
            assert_eq!(found(&[(path, code)]), [key], "{code}");
        }
    }

    #[test]
    fn second_type_of_a_name_counts_once_across_crates() {
        let (one, two) = (("a/src/b.rs", "struct Lease;"), ("b/src/c.rs", "enum Lease {}"));
        assert_eq!(found(&[one, two]), ["types of one name = 1"]);
        assert_eq!(found(&[one, ("b/tests/c.rs", "enum Lease {}")]), [""; 0], "tests define their own");
    }

    #[test]
    fn name_of_another_crate_is_exempt_in_its_file_only() {
        let exceptions = REFUSED.lines().filter_map(|line| line.strip_prefix("except ")?.split_once(' '));
        for (file, name) in exceptions {
            let (path, code) = (file.strip_prefix("crates/").unwrap(), format!("impl {name} for A {{}}"));
            assert_eq!(found(&[(path, &code)]), [""; 0], "{file}");
            assert_eq!(found(&[("a/src/b.rs", &code)]), ["refused identifiers: a = 1"]);
        }
    }

    #[test]
    fn test_names_come_with_their_lines() {
        let text = "#[test]\nfn a() {}\nfn b() {}\n#[tokio::test]\nasync fn c() {}\n";
        assert_eq!(test_names(text).collect::<Vec<_>>(), [(2, "a"), (5, "c")]);
    }
}
