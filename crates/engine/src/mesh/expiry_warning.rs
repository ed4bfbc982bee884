//! Expiry warnings for this node's certificate and for its CA, whose renewal takes time.

use hivemind_core::Timestamp;
use hivemind_mesh_net::Certificates;
use std::time::Duration;

/// How long before its expiry a CA is reported: by then all nodes need certificates of a new CA.
const CA_BEFORE: Duration = Duration::from_secs(30 * 24 * 3_600);

/// An approaching expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpiryWarning {
    Certificate(Timestamp),
    Ca(Timestamp),
}

/// The expiry to report now. The CA comes first: its certificates end with it, and their renewal needs a new CA.
pub(super) fn due(certificates: &Certificates, now: Timestamp) -> Option<ExpiryWarning> {
    if certificates.ca_until <= now.saturating_add(CA_BEFORE) {
        return Some(ExpiryWarning::Ca(certificates.ca_until));
    }
    (certificates.renew_from <= now).then_some(ExpiryWarning::Certificate(certificates.own_until))
}

impl ExpiryWarning {
    pub(super) fn description(self) -> String {
        match self {
            Self::Certificate(end) => {
                let end = hivemind_tls::format_time(end);
                format!("the mesh certificate expires {end}; create a new one with `hivemind certs node`")
            }
            Self::Ca(end) => format!(
                "the mesh CA and all its certificates expire {}; create a new CA with `hivemind certs ca`, add its \
                 certificate to every `ca.crt`, then create new node certificates with `hivemind certs node`",
                hivemind_tls::format_time(end)
            ),
        }
    }
}

/// In Unix time.
pub(super) fn seconds(moment: Timestamp) -> u64 {
    moment.as_nanos() / 1_000_000_000
}
