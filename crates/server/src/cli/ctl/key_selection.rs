//! Key arguments. A credential should not be an argument: arguments are in the shell's history, and every user of the
//! machine can list them. So a value can be read from a file or standard input, and entries keep their order.

use crate::cli::entries::{NotUnderstood, entries};
use anyhow::{Context, ensure};
use clap::Args;
use hivemind_config::bounded_file::read_bounded;
use serde_json::{Map, Value, json};
use std::io::Read;
use std::path::Path;

/// The longest value that the service accepts, and the end of its line.
const LARGEST_FILE: u64 = (256 << 10) + 2;

#[derive(Args)]
pub(super) struct KeySelection {
    /// The domain
    #[arg(value_name = "DOMAIN")]
    domain: String,

    /// The entries, in order; only KEY if --value-file contains its value
    #[arg(required = true, value_name = "KEY=VALUE")]
    entries: Vec<String>,

    /// Read the value of an entry that is given as KEY from the first line of this file, `-` for standard input:
    /// keeps credentials out of arguments and history. Repeat it for several entries
    #[arg(long, value_name = "KEY=FILE")]
    value_file: Vec<String>,
}

impl KeySelection {
    /// The entries with the values from files.
    pub(super) fn entries(&self) -> anyhow::Result<Vec<(String, String)>> {
        self.entries_from(&mut std::io::stdin())
    }

    fn entries_from(&self, input: &mut dyn Read) -> anyhow::Result<Vec<(String, String)>> {
        let not_a_pair = |file: &String| NotUnderstood(format!("`--value-file {file}`: write KEY=FILE"));
        let files = self.value_file.iter().map(|file| file.split_once('=').ok_or_else(|| not_a_pair(file)));
        let files = files.collect::<Result<Vec<(&str, &str)>, _>>()?;
        let mut written = self.entries.clone();
        for (number, (key, file)) in files.iter().enumerate() {
            // A second file for one key would be ignored, and with two such keys the place would be a guess.
            ensure!(
                files.iter().skip(number + 1).all(|(other, _)| other != key),
                NotUnderstood(format!("--value-file: `{key}` is given twice"))
            );
            let mut places = written.iter_mut().filter(|entry| entry == key);
            let (Some(place), None) = (places.next(), places.next()) else {
                let what = "once among the entries, without `=`";
                return Err(NotUnderstood(format!("--value-file: write `{key}` {what}")).into());
            };
            let value = first_line(file, input)?;
            *place = format!("{key}={value}");
        }
        let parts = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Ok(entries(&written)?.into_iter().map(parts).collect())
    }

    /// The members of a request body, with these entries.
    pub(super) fn body(&self, entries: &[(String, String)]) -> Map<String, Value> {
        let entries: Vec<Value> =
            entries.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        let members = [("domain", json!(self.domain)), ("entries", json!(entries))];
        members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }
}

fn first_line(file: &str, input: &mut dyn Read) -> anyhow::Result<String> {
    let text = if file == "-" {
        let mut text = String::new();
        input.take(LARGEST_FILE + 1).read_to_string(&mut text).map(|_| text)
    } else {
        read_bounded(Path::new(file), LARGEST_FILE)
    };
    let text = text.with_context(|| format!("--value-file {file} cannot be read"))?;
    // Only the end of the line is removed: a space may be part of the value.
    let line = text.lines().next().unwrap_or_default();
    ensure!(!line.is_empty(), "--value-file {file} contains no value; write it on the first line");
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{KeySelection, NotUnderstood};

    fn who(entries: &[&str], files: &[&str]) -> KeySelection {
        let [entries, value_file] =
            [entries, files].map(|texts| texts.iter().map(|text| (*text).to_owned()).collect());
        KeySelection { domain: "shop".to_owned(), entries, value_file }
    }

    // Fails when `-` is taken for a file name, or when an invalid entry does not exit with 2.
    #[test]
    fn value_file_line_replaces_entry_of_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("value");
        std::fs::write(&file, "Bearer a=b \r\nsecond\n").unwrap();
        let from = format!("authorization={}", file.display());
        let read = |who: &KeySelection| who.entries_from(&mut &b"of stdin\n"[..]);
        let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let both = who(&["plan=gold", "authorization", "sid", "user=@x"], &["sid=-", &from]);
        let expected =
            [("plan", "gold"), ("authorization", "Bearer a=b "), ("sid", "of stdin"), ("user", "@x")];
        assert_eq!(read(&both).unwrap(), expected.map(pair));
        std::fs::write(folder.path().join("empty"), "\nlate\n").unwrap();
        let empty = format!("authorization={}", folder.path().join("empty").display());
        for (entries, files, message, is_not_understood) in [
            (&["user=a", "authorization"][..], &[][..], "write key=value", true),
            (&["user=a"], &[from.as_str()], "once among the entries", true),
            (&["authorization", "authorization"], &[&from], "once among the entries", true),
            (&["authorization"], &[&from, &from], "given twice", true),
            (&["authorization"], &["authorization"], "write KEY=FILE", true),
            (&["authorization"], &["authorization=/nowhere"], "cannot be read", false),
            (&["authorization"], &[&empty], "on the first line", false),
        ] {
            let error = read(&who(entries, files)).unwrap_err();
            // The exit status 2 depends on this.
            assert_eq!(error.is::<NotUnderstood>(), is_not_understood, "{error:#}");
            let error = format!("{error:#}");
            assert!(error.contains(message) && !error.contains("Bearer"), "{error}");
        }
    }
}
