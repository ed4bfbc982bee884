//! A key as the command line has it. A value that opens something need not stand there: arguments are in the shell's history,
//! and everybody on the machine can list them. It is read from a file, or from standard input, and the entries keep their order.

use crate::cli::entries::{NotUnderstood, entries};
use anyhow::{Context, ensure};
use clap::Args;
use hivemind_config::bounded_file::read_bounded;
use serde_json::{Map, Value, json};
use std::io::Read;
use std::path::Path;

/// The longest value that the service takes, and the end of its line.
const LARGEST_FILE: u64 = (256 << 10) + 2;

#[derive(Args)]
pub(super) struct Who {
    /// The domain
    #[arg(value_name = "DOMAIN")]
    domain: String,

    /// The entries, in order; KEY alone where --value-file has its value
    #[arg(required = true, value_name = "KEY=VALUE")]
    entries: Vec<String>,

    /// The value of an entry that is given as KEY alone is the first line of this file, `-` for standard input: so a
    /// credential is in no argument and no history. Several times for several entries
    #[arg(long, value_name = "KEY=FILE")]
    value_file: Vec<String>,
}

impl Who {
    /// Its entries, with the values that files have.
    pub(super) fn entries(&self) -> anyhow::Result<Vec<(String, String)>> {
        self.entries_from(&mut std::io::stdin())
    }

    fn entries_from(&self, input: &mut dyn Read) -> anyhow::Result<Vec<(String, String)>> {
        let no_file = |file: &String| NotUnderstood(format!("`--value-file {file}`: write KEY=FILE"));
        let files = self.value_file.iter().map(|file| file.split_once('=').ok_or_else(|| no_file(file)));
        let files = files.collect::<Result<Vec<(&str, &str)>, _>>()?;
        let mut written = self.entries.clone();
        for (number, (key, file)) in files.iter().enumerate() {
            // Of two files one would be passed over, and of two places one would be a guess.
            ensure!(
                files.iter().skip(number + 1).all(|(other, _)| other != key),
                NotUnderstood(format!("--value-file: `{key}` is there twice"))
            );
            let mut places = written.iter_mut().filter(|entry| entry == key);
            let (Some(place), None) = (places.next(), places.next()) else {
                let what = "once among the entries, without `=`, so that its place is known";
                return Err(NotUnderstood(format!("--value-file: write `{key}` {what}")).into());
            };
            let value = first_line(file, input)?;
            *place = format!("{key}={value}");
        }
        let parts = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Ok(entries(&written)?.into_iter().map(parts).collect())
    }

    /// What it is in a body, with these entries.
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
    // Nothing but the end of the line is left out: a space may be a part of it.
    let line = text.lines().next().unwrap_or_default();
    ensure!(!line.is_empty(), "--value-file {file} has no value in it; write it on the first line");
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{NotUnderstood, Who};

    fn who(entries: &[&str], files: &[&str]) -> Who {
        let [entries, value_file] =
            [entries, files].map(|texts| texts.iter().map(|text| (*text).to_owned()).collect());
        Who { domain: "shop".to_owned(), entries, value_file }
    }

    // Seen failing on: `-` taken for a file; what is no entry taken for a refusal.
    #[test]
    fn a_value_from_a_file_is_its_first_line_and_stands_where_its_key_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("value");
        std::fs::write(&file, "Bearer a=b \r\nsecond\n").unwrap();
        let from = format!("authorization={}", file.display());
        let read = |who: &Who| who.entries_from(&mut &b"of stdin\n"[..]);
        let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let both = who(&["plan=gold", "authorization", "sid", "user=@x"], &["sid=-", &from]);
        let expected =
            [("plan", "gold"), ("authorization", "Bearer a=b "), ("sid", "of stdin"), ("user", "@x")];
        assert_eq!(read(&both).unwrap(), expected.map(pair));
        std::fs::write(folder.path().join("empty"), "\nlate\n").unwrap();
        let empty = format!("authorization={}", folder.path().join("empty").display());
        for (entries, files, told, is_not_understood) in [
            (&["user=a", "authorization"][..], &[][..], "write key=value", true),
            (&["user=a"], &[from.as_str()], "once among the entries", true),
            (&["authorization", "authorization"], &[&from], "once among the entries", true),
            (&["authorization"], &[&from, &from], "there twice", true),
            (&["authorization"], &["authorization"], "write KEY=FILE", true),
            (&["authorization"], &["authorization=/nowhere"], "cannot be read", false),
            (&["authorization"], &[&empty], "on the first line", false),
        ] {
            let error = read(&who(entries, files)).unwrap_err();
            // By this, the exit status is 2.
            assert_eq!(error.is::<NotUnderstood>(), is_not_understood, "{error:#}");
            let error = format!("{error:#}");
            assert!(error.contains(told) && !error.contains("Bearer"), "{error}");
        }
    }
}
