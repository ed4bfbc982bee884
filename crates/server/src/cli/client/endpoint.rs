//! Admin endpoint of a service: a URL, or the path of a socket.

use anyhow::{Context, bail, ensure};
use http::Uri;
use std::net::IpAddr;
use std::path::PathBuf;

/// The admin endpoint of a service.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum AdminEndpoint {
    Tcp { host: String, port: u16, is_tls: bool },
    Socket(PathBuf),
}

const FORM: &str = "write it as http://HOST:PORT, https://HOST:PORT or unix:PATH";

impl AdminEndpoint {
    /// Whether traffic to it is private: TLS, loopback or a Unix socket.
    pub(in crate::cli) fn is_private(&self) -> bool {
        match self {
            Self::Socket(_) | Self::Tcp { is_tls: true, .. } => true,
            Self::Tcp { host, .. } => {
                let address = host.parse::<IpAddr>();
                host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
            }
        }
    }

    pub(in crate::cli) fn parse(url: &str) -> anyhow::Result<Self> {
        if let Some(path) = url.strip_prefix("unix:") {
            // Some tools write it as a URL.
            let path = path.strip_prefix("//").unwrap_or(path);
            ensure!(!path.is_empty(), "`{url}` has no socket path; {FORM}");
            return Ok(Self::Socket(PathBuf::from(path)));
        }
        // It may be a password, and the error text appears on a screen.
        ensure!(!url.contains('@'), "the URL must not contain a user name or password (`@`); {FORM}");
        let uri: Uri = url.parse().with_context(|| format!("`{url}` is not a URL; {FORM}"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => bail!("`{url}` is not an http or https URL; {FORM}"),
        };
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let authority = uri.authority().with_context(|| format!("`{url}` has no host; {FORM}"))?;
        ensure!(is_bare, "`{url}` must contain only a host and a port; {FORM}");
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self::Tcp { host, port, is_tls })
    }
}

#[cfg(test)]
mod tests {
    use super::AdminEndpoint;
    use std::path::PathBuf;

    #[test]
    fn admin_url_parses_as_host_and_port_or_socket() {
        let tcp = |host: &str, port, is_tls| AdminEndpoint::Tcp { host: host.to_owned(), port, is_tls };
        for (url, expected) in [
            ("http://192.0.2.1:8080", tcp("192.0.2.1", 8080, false)),
            ("http://[2001:db8::1]:9/", tcp("2001:db8::1", 9, false)),
            ("https://limits.example", tcp("limits.example", 443, true)),
            ("unix:/run/a.sock", AdminEndpoint::Socket(PathBuf::from("/run/a.sock"))),
            ("unix:///run/a.sock", AdminEndpoint::Socket(PathBuf::from("/run/a.sock"))),
            ("unix:a.sock", AdminEndpoint::Socket(PathBuf::from("a.sock"))),
        ] {
            assert_eq!(AdminEndpoint::parse(url).unwrap(), expected, "{url}");
        }
        // Fails when every name that begins with `localhost` counts as this machine.
        for (url, is_private) in [
            ("http://127.0.0.1", true),
            ("http://[::1]", true),
            ("http://localhost", true),
            ("http://localhost.example", false),
            ("http://192.0.2.1:8080", false),
            ("https://192.0.2.1:8080", true),
            ("unix:a.sock", true),
        ] {
            assert_eq!(AdminEndpoint::parse(url).unwrap().is_private(), is_private, "{url}");
        }
        for wrong in [
            "",
            "192.0.2.1:8080",
            "ftp://a",
            "http://",
            "unix:",
            "http://u:p@a",
            "http://a/api",
            "http://a?b",
        ] {
            let error = AdminEndpoint::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("unix:PATH"), "{wrong}: {error}");
            assert!(!error.contains("u:p"), "the error contains a password: {error}");
        }
    }
}
