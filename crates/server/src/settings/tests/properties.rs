//! Property tests: no input panics.

use super::{IN_WORDS, SEED, Syntax, load_settings, parse_settings};
use proptest::collection::vec;
use proptest::prelude::*;

fn load(text: &str, variables: &[(String, String)]) {
    for syntax in [Syntax::Yaml, Syntax::Toml] {
        match parse_settings("any", text, syntax, variables.iter().cloned()) {
            Ok(loaded) => loaded.warnings.iter().for_each(|warning| drop(warning.to_string())),
            Err(problems) => assert!(!problems.0.is_empty() && !problems.to_string().is_empty()),
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_loaded_or_rejected(text in "\\PC*|[\\s\\S]{0,60}", value in "\\PC*") {
        load(&text, &[("HIVEMIND_SERVER__HOST".into(), value)]);
    }

    #[test]
    fn any_bytes_are_loaded_or_rejected(bytes in vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.yaml", "a.toml"] {
            let path = folder.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            if let Err(problems) = load_settings(Some(&path), std::iter::empty()) {
                prop_assert!(!problems.to_string().is_empty());
            }
        }
    }

    #[test]
    fn mutated_file_is_loaded_or_rejected(
        changes in vec((any::<prop::sample::Index>(), 0..3_usize, "[:{}\\[\\]\"'\n #&*!|>a0é\u{feff}=.-]{0,4}"), 1..6)
    ) {
        let mut text: Vec<char> = SEED.chars().collect();
        for (at, removed, put) in changes {
            let at = at.index(text.len());
            let end = (at + removed).min(text.len());
            text.splice(at..end, put.chars());
        }
        load(&text.into_iter().collect::<String>(), &[]);
    }

    #[test]
    fn shuffled_known_words_are_loaded_or_rejected(
        words in vec(prop::sample::select(IN_WORDS), 0..40),
        variables in vec(("HIVEMIND_(SERVER|MESH|STORAGE|GATEWAY|OBSERVABILITY)(__[A-Z_]{0,9}){0,3}", "\\PC{0,9}"), 0..5)
    ) {
        load(&words.concat(), &variables);
    }
}

// Seen failing on: variables of unlimited depth.
#[test]
fn deeply_nested_file_is_rejected_without_panic() {
    let deep = 20_000;
    let stairs = |depth: usize| format!("{}a:\n", " ".repeat(depth));
    for text in [
        "[".repeat(deep),
        "{a: ".repeat(deep),
        "- ".repeat(deep),
        format!("x = {}", "[".repeat(deep)),
        format!("{}b = 1", "a.".repeat(deep)),
        (0..2_000).map(stairs).collect(),
    ] {
        load(&text, &[]);
    }
    load("", &[(format!("HIVEMIND_SERVER{}", "__A".repeat(deep)), "1".into())]);
    load("", &[("HIVEMIND_SERVER__A".into(), format!("{}{}", "[".repeat(deep), "]".repeat(deep)))]);
}
