//! `location` blocks: their path, their upstream and their limit.

use super::context::InheritedDirectives;
use super::limit::{ImportedLimit, LimitImporter};
use super::others;
use super::real_ip::RealIp;
use super::report::ImportReport;
use super::tree::Directive;
use super::upstream::{self, ForwardingSettings};

/// A location with a `proxy_pass`.
pub(super) struct ProxiedLocation<'d> {
    pub(super) directive: &'d Directive,
    pub(super) path: String,
    pub(super) is_exact: bool,
    pub(super) manner: ForwardingSettings,
    pub(super) limit: Option<ImportedLimit>,
}

/// State that all locations share.
pub(super) struct Around<'a, 'd> {
    pub(super) upstreams: &'a [&'d Directive],
    pub(super) limits: &'a mut LimitImporter<'d>,
    pub(super) client_ip: &'a mut RealIp,
    pub(super) report: &'a mut ImportReport,
}

impl<'d> Around<'_, 'd> {
    /// All proxied locations in a block, including nested ones.
    pub(super) fn proxied(
        &mut self,
        block: &'d [Directive],
        context: &InheritedDirectives<'d>,
    ) -> Vec<ProxiedLocation<'d>> {
        let mut all = Vec::new();
        for location in block.iter().filter(|directive| directive.name == "location") {
            let inside = location.children();
            let context = context.within(inside);
            let read: [&[&str]; 3] =
                [&["location", "proxy_pass"], &InheritedDirectives::DIRECTIVES, &RealIp::DIRECTIVES];
            others::note_unread(inside, &read, self.report);
            self.client_ip.add(inside, Some("location"), self.report);
            all.extend(self.one(location, &context));
            all.extend(self.proxied(inside, &context));
        }
        all
    }

    fn one(
        &mut self,
        location: &'d Directive,
        context: &InheritedDirectives<'d>,
    ) -> Option<ProxiedLocation<'d>> {
        let inside = location.children();
        let Some(pass) = inside.iter().find(|directive| directive.name == "proxy_pass") else {
            let is_limited = inside.iter().any(|directive| directive.name == "limit_req");
            let has_inner = inside.iter().any(|directive| directive.name == "location");
            // Requests for it now go to the surrounding service.
            let refuses = inside.iter().any(|of| of.name == "return" && is_refusal(of.arg(0)));
            let text = "the location has no `proxy_pass`, and the gateway only proxies; it was omitted, and requests for it go to \
                         the service with the next shorter path prefix, if there is one";
            if refuses {
                self.report.lose(location, text);
            } else if is_limited || !has_inner {
                self.report.note(location, text);
            }
            return None;
        };
        let (path, is_exact) = self.path(location)?;
        let manner = upstream::manner(pass, &path, context, self.upstreams, self.report)?;
        let limit = self.limits.of(context, self.report);
        Some(ProxiedLocation { directive: location, path, is_exact, manner, limit })
    }

    fn path(&mut self, location: &Directive) -> Option<(String, bool)> {
        let written = location.args.concat();
        let (path, is_exact) = match written.as_str() {
            regex if regex.starts_with('~') => {
                let text = "the gateway routes by path prefix and has no regular expressions; list the paths as `endpoints`";
                self.report.note(location, text);
                return None;
            }
            named if named.starts_with('@') => {
                self.report.note(
                    location,
                    "named locations are only used by other nginx directives; it was omitted",
                );
                return None;
            }
            path if path.starts_with("^~") => (path.trim_start_matches("^~"), false),
            path if path.starts_with('=') => (path.trim_start_matches('='), true),
            path => (path, false),
        };
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"{}?#\\\"<>".contains(&byte);
        let is_sound = path.starts_with('/') && path.bytes().all(is_plain) && !path.contains("//");
        if !is_sound {
            self.report.note(
                location,
                "the gateway supports only ASCII paths that start with `/`; the location was omitted",
            );
            return None;
        }
        if !is_exact && !path.ends_with('/') {
            let text = format!(
                "in nginx it also matches `{path}x`; in the gateway it matches `{path}` and paths below it"
            );
            self.report.note(location, text);
        }
        Some((path.to_owned(), is_exact))
    }
}

/// Whether `return` with this code is a refusal.
fn is_refusal(code: &str) -> bool {
    code.len() == 3 && code.starts_with('4')
}
