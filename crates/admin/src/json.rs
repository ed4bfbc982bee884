//! The rate limit messages in proto3 JSON: both spellings of field names are accepted, and unset fields are omitted
//! from responses.

use super::unique_names::{as_in_messages, reject_duplicate_names};
use super::value_count::few_values;
use hivemind_envoy::proto::DESCRIPTORS;
use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, Value};
use std::sync::LazyLock;

static POOL: LazyLock<Option<DescriptorPool>> = LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).ok());

/// `OVER_LIMIT`.
const OVER_LIMIT: i32 = 2;

fn message(name: &str) -> Result<MessageDescriptor, String> {
    let name = format!("envoy.service.ratelimit.v3.{name}");
    let pool = POOL.as_ref().and_then(|pool| pool.get_message_by_name(&name));
    pool.ok_or_else(|| format!("{name} is not described"))
}

/// Converts a JSON request to the protobuf form of a call.
pub fn request(body: &[u8]) -> Result<Vec<u8>, String> {
    few_values(body).map_err(|error| error.to_string())?;
    let mut json = serde_json::Deserializer::from_slice(body);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let read = DynamicMessage::deserialize_with_options(message("RateLimitRequest")?, &mut json, &options);
    let read = read.map_err(|error| error.to_string())?;
    json.end().map_err(|error| error.to_string())?;
    // Duplicate names: here the last one would count, and the reference rejects them.
    reject_duplicate_names(body, as_in_messages).map_err(|error| error.to_string())?;
    Ok(read.encode_to_vec())
}

/// Whether a response is over limit, and its JSON form.
pub(super) fn response(bytes: &[u8]) -> Result<(bool, String), String> {
    let answer = DynamicMessage::decode(message("RateLimitResponse")?, bytes);
    let answer = answer.map_err(|error| error.to_string())?;
    let code = answer.get_field_by_name("overall_code");
    let over = code.is_some_and(|code| *code == Value::EnumNumber(OVER_LIMIT));
    serde_json::to_string(&answer).map(|text| (over, text)).map_err(|error| error.to_string())
}
