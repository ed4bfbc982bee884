//! What Envoy may route by: the request as the service saw it, and what the rules
//! that let it pass say of it.

use super::Answer;
use hivemind_core::Descriptor;
use serde_json::{Map, Value, json};

pub(super) fn of(domain: &str, asked: &[Descriptor<'_>], answer: &Answer) -> Value {
    let descriptors = asked.iter().zip(&answer.statuses).map(|(descriptor, status)| {
        let entries: Vec<String> =
            descriptor.entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut shown = Map::new();
        shown.insert("entries".into(), entries.into());
        if let Some(current) = &status.limit {
            shown.insert("limit".into(), current.limit.to_string().into());
        }
        shown.insert("hitsAddend".into(), descriptor.cost.get().into());
        Value::Object(shown)
    });
    let mut metadata = json!({"domain": domain, "descriptors": descriptors.collect::<Vec<_>>()});
    if let (Some(merged), Value::Object(all)) = (&answer.metadata, &mut metadata) {
        all.insert("metadata".into(), merged.clone());
    }
    metadata
}
