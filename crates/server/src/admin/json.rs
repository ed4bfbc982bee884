//! The messages in proto3's JSON form: either spelling of a name is read, and what
//! is not set is left out of what is written.

use crate::proto::DESCRIPTORS;
use crate::proto::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse, rate_limit_response::Code,
};
use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use std::sync::LazyLock;

static POOL: LazyLock<Option<DescriptorPool>> = LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).ok());

fn message(name: &str) -> Result<MessageDescriptor, String> {
    let name = format!("envoy.service.ratelimit.v3.{name}");
    let pool = POOL.as_ref().and_then(|pool| pool.get_message_by_name(&name));
    pool.ok_or_else(|| format!("{name} is not described"))
}

/// Reads a request.
pub(crate) fn request(body: &[u8]) -> Result<RateLimitRequest, String> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let read = DynamicMessage::deserialize_with_options(message("RateLimitRequest")?, &mut json, &options);
    let read = read.map_err(|error| error.to_string())?;
    json.end().map_err(|error| error.to_string())?;
    read.transcode_to().map_err(|error| error.to_string())
}

/// Writes an answer.
pub(super) fn response(answer: &RateLimitResponse) -> Result<String, String> {
    let bytes = answer.encode_to_vec();
    let dynamic = DynamicMessage::decode(message("RateLimitResponse")?, bytes.as_slice());
    let dynamic = dynamic.map_err(|error| error.to_string())?;
    serde_json::to_string(&dynamic).map_err(|error| error.to_string())
}

pub(super) fn is_over_limit(answer: &RateLimitResponse) -> bool {
    answer.overall_code() == Code::OverLimit
}
