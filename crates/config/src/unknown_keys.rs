//! Unknown keys: misspelled, in the wrong section, or of another file.

use super::document::{SpannedValue, Value};
use super::problem::TextSpan;
use super::reader::{ConfigReader, KeyRole};
use super::source_map::variable_name;
use super::spelling::remedy_for_unknown;

impl ConfigReader<'_> {
    /// Reports every unknown key below `node`. Called after all keys were read.
    pub fn report_unknown(&mut self, node: &SpannedValue, path: &str) {
        match &node.value {
            Value::List(items) if self.has_below(&format!("{path}[]")) => {
                for item in items {
                    self.report_unknown(item, &format!("{path}[]"));
                }
            }
            Value::Map(pairs) if path.is_empty() || self.has_below(path) => {
                for (key, value) in pairs {
                    self.report_key(key, value, path);
                }
            }
            // It has no keys, or the wrong type, which was reported when it was read.
            Value::Null | Value::Scalar { .. } | Value::List(_) | Value::Map(_) => {}
        }
    }

    /// Warns about ignored variables such as `HIVEMIND_SERVER_HOST`, which has one `_` instead of two.
    pub fn warn_of_lookalikes(&mut self, ignored: &[String]) {
        let names: Vec<String> = self.current().map(variable_name).collect();
        for name in ignored {
            let Some(meant) = names.iter().find(|meant| meant.replace("__", "_") == *name) else { continue };
            self.warn_of_variable(name, "is not read", format!("did you mean `{meant}`?"));
        }
    }

    fn has_below(&self, section: &str) -> bool {
        let prefix = format!("{section}.");
        self.roles.keys().any(|path| path.starts_with(&prefix))
    }

    fn report_key(&mut self, key: &SpannedValue, value: &SpannedValue, section: &str) {
        let Value::Scalar { text, .. } = &key.value else {
            let cause = format!("a key is a word, and this is {}", key.value.kind());
            self.error(key.span, cause, "write `key: value`".into());
            return;
        };
        let path = if section.is_empty() { text.to_string() } else { format!("{section}.{text}") };
        match self.roles.get(&path) {
            Some(KeyRole::Section) => self.report_unknown(value, &path),
            Some(KeyRole::Value | KeyRole::Superseded) => {}
            None => {
                let cause = match section {
                    "" => format!("unknown section `{text}`"),
                    section => format!("unknown key `{text}` in `{section}`"),
                };
                let remedy = self.remedy(text, section, key.span);
                self.error(key.span, cause, remedy);
            }
        }
    }

    fn remedy(&self, key: &str, section: &str, span: TextSpan) -> String {
        if section.is_empty() && ["domain", "descriptors"].contains(&key) {
            return "this is a file of rules: name it with `--rules`, or in `rate_limiting.config_path`"
                .into();
        }
        let homes = self.homes(key, span);
        if !homes.is_empty() {
            return format!("this key belongs elsewhere: {}", homes.join(" or "));
        }
        let prefix = if section.is_empty() { String::new() } else { format!("{section}.") };
        let siblings: Vec<String> = self
            .current()
            .filter_map(|path| path.strip_prefix(&prefix).filter(|key| !key.contains('.')))
            .map(|key| self.places.name(span, &format!("{prefix}{key}")))
            .map(|path| path.rsplit('.').next().unwrap_or_default().to_owned())
            .collect();
        let siblings: Vec<&str> = siblings.iter().map(String::as_str).collect();
        let written = self.places.name(span, &format!("{prefix}{key}"));
        remedy_for_unknown(written.rsplit('.').next().unwrap_or(key), &siblings)
    }

    /// Sections in which a key of this name is valid.
    fn homes(&self, key: &str, span: TextSpan) -> Vec<String> {
        let homes = self.current().filter(|path| path.rsplit('.').next() == Some(key));
        homes.take(3).map(|path| format!("`{}`", self.places.name(span, path))).collect()
    }

    fn current(&self) -> impl Iterator<Item = &str> {
        let current = self.roles.iter().filter(|(_, known)| **known != KeyRole::Superseded);
        current.map(|(path, _)| path.as_str())
    }
}
