//! The response on one stream.

use crate::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use crate::statuses;
use prost::Message;

pub(super) type Pairs = Vec<(String, String)>;

/// A response, complete or not.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Each block of headers: the head, and the trailers if there was a body.
    pub blocks: Vec<Pairs>,
    pub body: Vec<u8>,
    /// Whether the last frame has arrived.
    pub ended: bool,
    /// The reason of a `RST_STREAM`.
    pub reset: Option<u32>,
}

impl Answer {
    /// A header or trailer.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut pairs = self.blocks.iter().flatten();
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn grpc_status(&self) -> Option<u32> {
        self.value("grpc-status").map(|code| code.parse().unwrap())
    }

    /// The response message in the short form, or the reason for its absence.
    pub fn summary(&self) -> String {
        if let Some(reason) = self.reset {
            return format!("reset {reason}");
        }
        match (self.value(":status"), self.grpc_status()) {
            (Some("200"), Some(0)) => statuses(&self.message()),
            (Some("200"), Some(code)) => format!("status {code}"),
            (status, _) => format!("http {}", status.unwrap_or("?")),
        }
    }

    /// The body's only message.
    pub fn message(&self) -> RateLimitResponse {
        RateLimitResponse::decode(self.payload()).unwrap()
    }

    /// The bytes of the body's only message.
    pub fn payload(&self) -> &[u8] {
        let (prefix, message) = self.body.split_at(5);
        let length = u32::from_be_bytes(prefix[1..].try_into().unwrap());
        assert_eq!((prefix[0], length as usize), (0, message.len()), "one message, not compressed");
        message
    }
}
