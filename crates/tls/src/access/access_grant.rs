//! Grants: the domains that an API key may use, and whether it opens the admin port.

/// Item in a key's domain list that opens the admin port.
pub const ADMIN: &str = "@admin";
/// Item that opens every domain; a missing list does the same.
const EVERY: &str = "*";

/// What an API key may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessGrant {
    /// Name of the key's owner, for logs.
    pub name: Box<str>,
    /// Sorted; `None`: every domain.
    domains: Option<Box<[Box<str>]>>,
    pub is_admin: bool,
}

impl AccessGrant {
    /// Parses the fourth field of a key's line; without it the key opens every domain.
    pub fn new(name: &str, list: Option<&str>) -> Self {
        let (mut domains, mut is_admin, mut has_every) = (Vec::new(), false, list.is_none());
        for item in list.into_iter().flat_map(|list| list.split(',')) {
            match item.trim() {
                ADMIN => is_admin = true,
                EVERY => has_every = true,
                domain => domains.push(Box::from(domain)),
            }
        }
        domains.sort_unstable();
        Self { name: name.into(), domains: (!has_every).then_some(domains.into()), is_admin }
    }

    /// Whether the key opens `domain`.
    pub fn admits(&self, domain: &str) -> bool {
        let has = |domains: &[Box<str>]| domains.binary_search_by(|known| (**known).cmp(domain)).is_ok();
        self.domains.as_deref().is_none_or(has)
    }
}

/// Whether `text` is a valid key name.
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}
