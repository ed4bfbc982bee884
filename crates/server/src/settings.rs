//! Settings of the server: defaults, overridden by a configuration file, overridden by the environment.
//!
//! YAML and TOML are parsed into one tree, environment variables override its values, and one reader
//! converts it into [`Settings`]. A file with any mistake is rejected as a whole.

mod server;
#[cfg(test)]
mod tests;

use hivemind_config::bounded_file::read_bounded;
use hivemind_config::document;
use hivemind_config::document::{SpannedValue, Value};
use hivemind_config::problem::{Problem, Problems, SourceText, TextSpan};
use hivemind_config::reader::ConfigReader;
use hivemind_config::source_map::{SourceMap, Syntax};
use hivemind_config::toml_document;
use hivemind_config::value_hashes::ValueHashes;
use hivemind_engine::mesh::{self, MeshSection};
use hivemind_engine::rate_limiting::{self, RateLimiting};
use hivemind_engine::storage::settings::{self as storage, StorageSection};
use hivemind_gateway::settings::{self as gateway, GatewaySettings};
use hivemind_telemetry::settings::observability::{self, Observability};
use hivemind_tls::security::{self, Security};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

pub(crate) use server::ServerSection;

/// Maximum size of a configuration file.
pub(crate) const LARGEST_CONFIGURATION: u64 = 4 << 20;

/// The sections of a configuration.
pub(crate) const SECTIONS: [&str; 7] =
    ["server", "rate_limiting", "storage", "mesh", "gateway", "security", "observability"];

/// All settings that have an effect in this version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) server: ServerSection,
    pub(crate) rate_limiting: RateLimiting,
    pub(crate) storage: StorageSection,
    /// None if limits are not shared by a mesh.
    pub(crate) mesh: Option<MeshSection>,
    pub(crate) security: Security,
    pub(crate) observability: Observability,
    /// None if no gateway runs.
    pub(crate) gateway: Option<GatewaySettings>,
}

/// Settings, with the warnings about their source.
#[derive(Debug)]
pub(crate) struct LoadedSettings {
    pub(crate) settings: Settings,
    pub(crate) warnings: Vec<Problem>,
    /// The configured values, to detect changes on reload.
    pub(crate) value_hashes: ValueHashes,
    /// Fingerprint of the file's text.
    pub(crate) fingerprint: u64,
}

/// The variables of this process. Unlike [`std::env::vars`], it does not panic on invalid UTF-8.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (text(name), text(value)))
}

/// Loads the file (TOML by its extension, YAML otherwise), overridden by `env`, or returns all problems.
/// Without a file, values that `env` does not set have their defaults.
pub(crate) fn load_settings(
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
) -> Result<LoadedSettings, Problems> {
    path.map_or_else(|| Ok(SettingsText::none()), SettingsText::read)?.load(env)
}

/// The text of a configuration file, read once, so that the compared and the parsed text are the same.
pub(crate) struct SettingsText {
    source: Arc<SourceText>,
    syntax: Syntax,
}

impl SettingsText {
    /// No file.
    pub(crate) fn none() -> Self {
        let source = SourceText { name: "defaults".to_owned(), text: String::new() };
        Self { source: Arc::new(source), syntax: Syntax::Yaml }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Problems> {
        let is_toml = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
        let syntax = if is_toml { Syntax::Toml } else { Syntax::Yaml };
        let name = path.display().to_string();
        match read_bounded(path, LARGEST_CONFIGURATION) {
            Ok(text) => Ok(Self { source: Arc::new(SourceText { name, text }), syntax }),
            Err(error) => {
                let source = Arc::new(SourceText { name, text: String::new() });
                let cause = format!("cannot be read: {error}");
                Err(Problems(vec![Problem::new(&source, None, cause, "check the path and its permissions")]))
            }
        }
    }

    /// A fingerprint that is equal for equal texts.
    pub(crate) fn fingerprint(&self) -> u64 {
        fingerprint(&self.source.text)
    }

    /// The settings of this text, overridden by `env`, or all problems.
    pub(crate) fn load(
        &self,
        env: impl Iterator<Item = (String, String)>,
    ) -> Result<LoadedSettings, Problems> {
        parse_settings(&self.source.name, &self.source.text, self.syntax, env)
    }

    /// The values set in this text and in `env`; empty if the text cannot be parsed.
    pub(crate) fn value_hashes(&self, env: impl Iterator<Item = (String, String)>) -> ValueHashes {
        let tree = tree(Arc::clone(&self.source), self.syntax, env);
        tree.map(|(root, ..)| ValueHashes::of(&root)).unwrap_or_default()
    }

    /// A problem with a setting's effect, found after the text was parsed.
    pub(crate) fn problem(&self, cause: &str) -> Problems {
        Problems(vec![Problem::new(
            &self.source,
            None,
            cause,
            "correct the files that it names, then reload",
        )])
    }
}

fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The tree of a file overridden by `env`, the places of its values, and the variables that were
/// ignored.
fn tree(
    file: Arc<SourceText>,
    syntax: Syntax,
    env: impl Iterator<Item = (String, String)>,
) -> Result<(SpannedValue, SourceMap, Vec<String>), Problems> {
    let mut root = match syntax {
        Syntax::Yaml if file.text.trim().is_empty() => {
            SpannedValue { value: Value::Null, span: TextSpan::default() }
        }
        Syntax::Yaml => document::parse(&file).map_err(|problem| Problems(vec![problem]))?,
        Syntax::Toml => toml_document::parse(&file).map_err(Problems)?,
    };
    let mut places = SourceMap::new(file, syntax);
    let ignored = hivemind_config::environment::overlay(&mut root, &mut places, env, &SECTIONS);
    Ok((root, places, ignored))
}

/// The JSON Schema of a whole file.
pub(crate) fn configuration_schema() -> serde_json::Value {
    hivemind_config::schema::configuration(|reading, node| {
        read(reading, node);
    })
}

fn parse_settings(
    name: &str,
    text: &str,
    syntax: Syntax,
    env: impl Iterator<Item = (String, String)>,
) -> Result<LoadedSettings, Problems> {
    let file = Arc::new(SourceText { name: name.to_owned(), text: text.to_owned() });
    let (root, places, ignored) = tree(file, syntax, env)?;
    let mut reading = ConfigReader::new(&places);
    let settings = read(&mut reading, &root);
    reading.warn_of_lookalikes(&ignored);
    let (errors, warnings) = reading.finish();
    let value_hashes = ValueHashes::of(&root);
    let fingerprint = fingerprint(text);
    if errors.is_empty() {
        Ok(LoadedSettings { settings, warnings, value_hashes, fingerprint })
    } else {
        Err(Problems(errors))
    }
}

/// Reads the settings of a tree. If `reading` has errors afterwards, the returned value must not be used.
fn read<'n>(reading: &mut ConfigReader<'n>, node: &'n SpannedValue) -> Settings {
    let mut root = reading.root(node);
    let (observability, older_metrics_port) = observability::read(root.section("observability"));
    let server = server::read(root.section("server"), older_metrics_port);
    if !server.has_calls() && !root.has("gateway") {
        let cause = "`server.grpc_port` is off and no `gateway` is configured, so there is nothing to run";
        root.section("server").refuse("grpc_port", cause.to_owned(), "leave it out, or add a `gateway`");
    }
    let listeners = server.listeners();
    let (storage, is_mesh) = storage::read(root.section("storage"));
    let settings = Settings {
        rate_limiting: rate_limiting::read(root.section("rate_limiting")),
        storage,
        mesh: mesh::read(&mut root, is_mesh, &listeners),
        security: security::read(root.section("security")),
        observability,
        gateway: gateway::read(&mut root, &listeners),
        server,
    };
    reading.report_unknown(node, "");
    settings
}
