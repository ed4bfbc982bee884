//! Zone keys, as far as the gateway can identify clients in the same way.

/// The client identity that corresponds to a zone key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ZoneIdentity {
    Address,
    Bearer,
    ApiKey,
    SessionHeader,
    SessionCookie(String),
}

impl ZoneIdentity {
    /// The steps of `gateway.identity`.
    pub(super) fn steps(&self) -> &'static str {
        match self {
            Self::Address => "[ip]",
            Self::Bearer => "[bearer, ip]",
            Self::ApiKey => "[api_key, ip]",
            Self::SessionHeader | Self::SessionCookie(_) => "[session, ip]",
        }
    }
}

/// The identity of a key, or the reason why there is none and what to do.
pub(super) fn identity(key: &str) -> Result<ZoneIdentity, String> {
    // A service belongs to one host, so clients of different hosts are separate anyway.
    let of_client = ["$server_name", "$host", "$http_host"].iter().fold(key.to_owned(), |key, host| {
        let rest = key.replace(host, "");
        if rest.contains('$') { rest } else { key }
    });
    match of_client.trim_matches([':', '-', '_', '|', ' ']) {
        "$binary_remote_addr" | "$remote_addr" => Ok(ZoneIdentity::Address),
        "$http_authorization" => Ok(ZoneIdentity::Bearer),
        "$http_x_api_key_id" => Ok(ZoneIdentity::ApiKey),
        "$http_x_session_id" => Ok(ZoneIdentity::SessionHeader),
        cookie if cookie.strip_prefix("$cookie_").is_some_and(is_name) => {
            Ok(ZoneIdentity::SessionCookie(cookie.trim_start_matches("$cookie_").to_owned()))
        }
        "$server_name" | "$host" | "$http_host" => Err(
            "the zone counts all clients of a host together, but the gateway counts each client; the limit was omitted"
                .to_owned(),
        ),
        header if header.strip_prefix("$http_").is_some_and(is_name) => Err(format!(
            "the gateway identifies clients by session, bearer token, X-API-Key-ID or address, but not by \
             `{header}`; let the client send X-API-Key-ID; the limit was omitted"
        )),
        other if !other.contains('$') => {
            Err("the zone counts all clients together, but the gateway counts each client; the limit was omitted".into())
        }
        other => Err(format!("the gateway cannot count by `{other}`; the limit was omitted")),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
