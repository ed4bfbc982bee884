//! Refused words: the vocabulary that plain technical English does not need.
//!
//! A text is split at everything that is not a letter, and at changes of case, so that identifiers, test names and
//! prose are read alike: `is_told_of` and `WhoIsTold` both contain `told`.

use super::Findings;
use crate::tree::{File, Tree};

const LIST: &str = include_str!("../../refused-words.txt");
const LIST_PATH: &str = "xtask/refused-words.txt";
/// Files that others wrote or that tools generate, and the list itself.
const SKIPPED: [&str; 4] = [LIST_PATH, "Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

struct Phrase {
    words: Vec<&'static str>,
}

fn phrases() -> Vec<Phrase> {
    let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| Phrase { words: line.split(' ').collect() }).collect()
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
    let phrases = phrases();
    for File { path, text } in tree.files(|path| !SKIPPED.iter().any(|skipped| path.ends_with(skipped)))? {
        for (number, line) in text.lines().enumerate() {
            for phrase in found(line, &phrases) {
                let place =
                    format!("{path}:{}: `{}`: {:.100}", number + 1, phrase.words.join(" "), line.trim());
                findings.add(format!("refused words: {}", area(&path)), place);
            }
        }
    }
    Ok(())
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
        let stem = format!("{}{}", "hee", "ds");
        assert_eq!(words(&stem), ["heed*".to_owned()]);
        assert!(words("wheedle").is_empty());
    }

    #[test]
    fn area_is_crate_or_folder() {
        let areas = ["crates/core/src/a.rs", "docs/guide/a.md", "README.md"].map(area);
        assert_eq!(areas, ["crates/core", "docs", "root"]);
    }
}
