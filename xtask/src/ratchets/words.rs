//! Refused words: the vocabulary that plain technical English does not need, and the private metaphors of earlier code.
//!
//! A text is split at everything that is not a letter, and at changes of case, so comments, strings, Markdown, the
//! dashboard, identifiers and test names are read alike: `is_lease_of` and `WhoseLease` both contain `lease`.

use super::{Findings, names};
use crate::tree::{File, Tree};

const LIST: &str = include_str!("../../refused-words.txt");
/// Files that others wrote or that tools generate, by the end of their paths.
const WRITTEN_BY_OTHERS: [&str; 3] = ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];
/// Data: the lists of these checks, and inputs that a fuzzer starts from.
const DATA: [&str; 4] =
    ["xtask/refused-words.txt", "xtask/refused-identifiers.txt", "xtask/participles.txt", "fuzz/seeds/"];
/// It names the words of earlier code with those that replace them.
const GLOSSARY: &str = "docs/GLOSSARY.md";

/// Whether a file is prose or code of this project, and neither data nor a copy.
fn is_ours(path: &str) -> bool {
    !WRITTEN_BY_OTHERS.iter().any(|end| path.ends_with(end))
        && !DATA.iter().any(|data| path.starts_with(data))
}

struct Phrase {
    words: Vec<&'static str>,
}

fn phrases() -> Vec<Phrase> {
    let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| Phrase { words: line.split(' ').collect() }).collect()
}

fn metaphors() -> Vec<Phrase> {
    names::metaphors().map(|word| Phrase { words: vec![word] }).collect()
}

/// The area that a file counts for: a crate, or a folder of the root.
fn area(path: &str) -> String {
    let mut parts = path.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("crates"), Some(name), Some(_)) => format!("crates/{name}"),
        (Some(folder), Some(_), _) => folder.to_owned(),
        _ => "root".to_owned(),
    }
}

/// Lower-case words with the byte where each begins.
fn split(line: &str) -> Vec<(usize, String)> {
    let mut words: Vec<(usize, String)> = Vec::new();
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        if letter.is_alphabetic() {
            let begins = !before.is_alphabetic() || (before.is_lowercase() && letter.is_uppercase());
            match words.last_mut() {
                Some((_, word)) if !begins => word.extend(letter.to_lowercase()),
                _ => words.push((at, letter.to_lowercase().collect())),
            }
        }
        before = letter;
    }
    words
}

fn matches(pattern: &str, word: &str) -> bool {
    pattern.strip_suffix('*').map_or(word == pattern, |stem| word.starts_with(stem))
}

/// The phrases that a line contains.
fn found<'a>(line: &str, phrases: &'a [Phrase]) -> Vec<&'a Phrase> {
    let words = split(line);
    let at = |start: usize, phrase: &Phrase| {
        let mut rest = words.iter().skip(start);
        phrase.words.iter().all(|pattern| rest.next().is_some_and(|(_, word)| matches(pattern, word)))
            && !(phrase.words.last() == Some(&"no") && rest.next().is_some_and(|(_, word)| word == "longer"))
    };
    let starts = 0..words.len();
    starts.flat_map(|start| phrases.iter().filter(move |phrase| at(start, phrase))).collect()
}

pub(super) fn check(tree: &Tree, findings: &mut Findings) -> anyhow::Result<()> {
    check_files(&tree.files(is_ours)?, findings);
    Ok(())
}

fn check_files(files: &[File], findings: &mut Findings) {
    let lists = [("refused words", phrases()), ("private metaphors", metaphors())];
    for File { path, text } in files {
        for (number, line) in (1..).zip(text.lines()) {
            for (key, phrases) in &lists {
                if path == GLOSSARY && *key == "private metaphors" {
                    continue;
                }
                for phrase in found(line, phrases) {
                    let words = phrase.words.join(" ");
                    if names::is_foreign(path, &words) {
                        continue;
                    }
                    let place = format!("{path}:{number}: `{words}`: {:.100}", line.trim());
                    findings.add(format!("{key}: {}", area(path)), place);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        found(line, &phrases()).iter().map(|phrase| phrase.words.join(" ")).collect()
    }

    #[test]
    fn prose_and_identifiers_are_read_alike() {
        // The words are built from parts, so that this file does not count.
        for line in ["was {t}", "fn is_{t}_of()", "struct {T}Twice", "not{T}", "\"{t}\""] {
            let line = line
                .replace("{t}", &format!("{}{}", "to", "ld"))
                .replace("{T}", &format!("{}{}", "To", "ld"));
            assert_eq!(words(&line).len(), 1, "{line}");
        }
        assert!(words("toldest untold").is_empty());
    }

    #[test]
    fn phrase_needs_all_words_in_order() {
        let no = |verb: &str, after: &str| words(&format!("it {verb} {}{} {after}", "n", "o"));
        assert_eq!((no("is", "key").len(), no("are", "keys").len()), (1, 1));
        assert!(no("is", "longer open").is_empty());
        assert!(words("no is").is_empty());
    }

    #[test]
    fn stem_matches_every_ending() {
        let stem = format!("{}{}", "hee", "d");
        assert_eq!(words(&format!("{stem}s")), [format!("{stem}*")]);
        assert!(words("wheedle").is_empty());
    }

    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check_files(&[File { path: path.to_owned(), text: text.to_owned() }], &mut findings);
        findings.keys().map(|key| format!("{key} = {}", findings.count(key))).collect()
    }

    #[test]
    fn every_kind_of_file_is_read() {
        let word = format!("{}{}", "to", "ld");
        for (path, text) in [
            ("crates/core/src/a.rs", format!("// a client is {word}")),
            ("crates/core/src/a.rs", format!("error(\"{word}\")")),
            ("crates/core/tests/a.rs", format!("fn client_is_{word}() {{}}")),
            ("crates/core/src/page/index.html", format!("<p>{word}</p>")),
            ("crates/core/src/page/app.js", format!("show('{word}')")),
            ("crates/core/README.md", format!("It is {word}.")),
        ] {
            assert_eq!(findings(path, &text), ["refused words: crates/core = 1"], "{path}");
        }
    }

    #[test]
    fn private_metaphor_counts_except_in_the_glossary() {
        let text = format!("the {}{} of a node", "pur", "se");
        assert_eq!(findings("docs/a.md", &text), ["private metaphors: docs = 1"]);
        assert_eq!(findings(GLOSSARY, &text), [""; 0]);
    }

    #[test]
    fn data_and_files_of_others_are_not_read() {
        for path in DATA.into_iter().chain(WRITTEN_BY_OTHERS) {
            assert!(!is_ours(path), "{path}");
        }
        assert!(!is_ours("fuzz/seeds/rules/a.yaml") && !is_ours("crates/core/LICENSE-MIT"));
        assert!(is_ours("fuzz/README.md") && is_ours("xtask/src/main.rs"));
    }

    #[test]
    fn area_is_crate_or_folder() {
        let areas = ["crates/core/src/a.rs", "docs/guide/a.md", "README.md"].map(area);
        assert_eq!(areas, ["crates/core", "docs", "root"]);
    }
}
