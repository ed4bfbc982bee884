//! When somebody has to see to certificates: this node's, or the CA that it is of, which nobody can renew in a hurry.

use hivemind_core::Timestamp;
use hivemind_mesh_net::Certificates;
use std::time::Duration;

/// How long before its end a CA is told of: all nodes need a certificate of another one by then.
const CA_BEFORE: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What ends, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Certificate(Timestamp),
    Ca(Timestamp),
}

/// What somebody should see to now. The CA goes first: a certificate ends with it, and cannot be renewed without another.
pub(super) fn due(certificates: &Certificates, now: Timestamp) -> Option<Due> {
    if certificates.ca_until <= now.saturating_add(CA_BEFORE) {
        return Some(Due::Ca(certificates.ca_until));
    }
    (certificates.renew_from <= now).then_some(Due::Certificate(certificates.own_until))
}

impl Due {
    pub(super) fn told(self) -> String {
        match self {
            Self::Certificate(end) => {
                let end = hivemind_tls::at(end);
                format!("the mesh's certificate ends {end}; make a new one by `hivemind certs node`")
            }
            Self::Ca(end) => format!(
                "the mesh's CA ends {}, and every certificate of it; make another by `hivemind certs ca`, put both \
                 certificates into every `ca.crt`, then give all nodes one of the new CA by `hivemind certs node`",
                hivemind_tls::at(end)
            ),
        }
    }
}

/// In Unix time.
pub(super) fn seconds(moment: Timestamp) -> u64 {
    moment.as_nanos() / 1_000_000_000
}
