//! Inherited directives: what a block sets, and what it inherits from the blocks around it.

use super::tree::Directive;

/// The active directives at a place, as far as the import uses them.
#[derive(Clone, Default)]
pub(super) struct InheritedDirectives<'d> {
    pub(super) limit_req: Vec<&'d Directive>,
    pub(super) limit_req_status: Option<&'d Directive>,
    pub(super) limit_req_dry_run: Option<&'d Directive>,
    pub(super) limit_req_log_level: Option<&'d Directive>,
    pub(super) max_body: Option<&'d Directive>,
    pub(super) connect_timeout: Option<&'d Directive>,
    pub(super) read_timeout: Option<&'d Directive>,
    pub(super) send_timeout: Option<&'d Directive>,
    pub(super) upstream_ca: Option<&'d Directive>,
    pub(super) verifies_upstream: Option<&'d Directive>,
    pub(super) set_header: Vec<&'d Directive>,
}

impl<'d> InheritedDirectives<'d> {
    /// The directives that are read here and need no note.
    pub(super) const DIRECTIVES: [&'static str; 11] = [
        "limit_req",
        "limit_req_status",
        "limit_req_dry_run",
        "limit_req_log_level",
        "client_max_body_size",
        "proxy_connect_timeout",
        "proxy_read_timeout",
        "proxy_send_timeout",
        "proxy_ssl_trusted_certificate",
        "proxy_ssl_verify",
        "proxy_set_header",
    ];

    /// The context within a block.
    pub(super) fn within(&self, block: &'d [Directive]) -> Self {
        let all = |name: &str| block.iter().filter(|of| of.name == name).collect::<Vec<_>>();
        // Lists are inherited completely or not at all.
        let list = |name: &str, below: &Vec<&'d Directive>| match all(name) {
            none if none.is_empty() => below.clone(),
            own => own,
        };
        let one = |name: &str, below: Option<&'d Directive>| all(name).last().copied().or(below);
        Self {
            limit_req: list("limit_req", &self.limit_req),
            limit_req_status: one("limit_req_status", self.limit_req_status),
            limit_req_dry_run: one("limit_req_dry_run", self.limit_req_dry_run),
            limit_req_log_level: one("limit_req_log_level", self.limit_req_log_level),
            max_body: one("client_max_body_size", self.max_body),
            connect_timeout: one("proxy_connect_timeout", self.connect_timeout),
            read_timeout: one("proxy_read_timeout", self.read_timeout),
            send_timeout: one("proxy_send_timeout", self.send_timeout),
            upstream_ca: one("proxy_ssl_trusted_certificate", self.upstream_ca),
            verifies_upstream: one("proxy_ssl_verify", self.verifies_upstream),
            set_header: list("proxy_set_header", &self.set_header),
        }
    }
}
