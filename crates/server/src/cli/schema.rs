//! `hivemind schema`: JSON Schema of our files, for editors.

use crate::settings::configuration_schema;
use clap::{Args, ValueEnum};
use hivemind_engine::rule_files::schema as rules_schema;
use std::io::Write;
use std::process::ExitCode;

/// Print the JSON Schema of a configuration or of rules, for editors
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind schema config > hivemind.schema.json
  hivemind schema rules > rules.schema.json

An editor with a YAML language server completes and checks a file that begins with
  # yaml-language-server: $schema=hivemind.schema.json")]
pub(super) struct Schema {
    /// The kind of file
    of: Of,
}

#[derive(Clone, Copy, ValueEnum)]
enum Of {
    /// The configuration that `serve --config` reads
    Config,
    /// The rules that `serve --rules` reads
    Rules,
}

impl Schema {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let schema = match self.of {
            Of::Config => configuration_schema(),
            Of::Rules => rules_schema(),
        };
        writeln!(std::io::stdout().lock(), "{schema:#}")?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::configuration_schema;
    use hivemind_engine::rule_files::schema as rules_schema;
    use serde_json::Value;
    use std::path::Path;

    const REMEDY: &str = "regenerate it: HIVEMIND_WRITE_PAGES=1 cargo nextest run -E 'test(cli::schema)'";

    // Fails when a title differs between the file and the code.
    #[test]
    fn documented_schemas_match_the_code() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schema");
        for (name, schema) in [("hivemind", configuration_schema()), ("rules", rules_schema())] {
            let path = folder.join(format!("{name}.schema.json"));
            if std::env::var_os("HIVEMIND_WRITE_PAGES").is_some() {
                std::fs::write(&path, format!("{schema:#}\n")).unwrap();
            }
            let written: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            assert!(written == schema, "{}: {REMEDY}", path.display());
        }
    }

    /// Collects every schema of a key, with its path.
    fn keys(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
        let Some(fields) = schema.as_object() else { return };
        for (name, key) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            found.push((format!("{path}.{name}"), key.clone()));
            keys(&format!("{path}.{name}"), key, found);
        }
        let nested = ["items", "anyOf", "definitions"].iter().filter_map(|name| fields.get(*name));
        for below in nested {
            let all = below.as_array().map(|list| list.iter().collect::<Vec<_>>());
            let all = all.or_else(|| Some(below.as_object()?.values().collect()));
            keys(path, below, found);
            all.into_iter().flatten().for_each(|schema| keys(path, schema, found));
        }
    }

    // Fails when a row of the reference page lacks a cell, so that its key has no meaning.
    #[test]
    fn schema_keys_have_a_type_and_a_description() {
        for (schema, least) in [(configuration_schema(), 200), (rules_schema(), 30)] {
            let mut found = Vec::new();
            keys("", &schema, &mut found);
            assert!(found.len() >= least, "{} keys were found", found.len());
            for (path, key) in found {
                let key = key.as_object().unwrap();
                let takes =
                    ["type", "enum", "anyOf", "allOf", "const"].iter().any(|word| key.contains_key(*word));
                assert!(takes, "{path} has no type");
                let is_section =
                    key.contains_key("properties") || key.contains_key("items") || key.contains_key("anyOf");
                assert!(key.contains_key("description") || is_section, "{path} has no description");
            }
        }
    }
}
