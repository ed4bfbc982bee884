//! What a key opens.

/// In the list of a key's domains: the admin port.
pub const ADMIN: &str = "@admin";
/// There, or with no list at all: every domain.
const EVERY: &str = "*";

/// What a key opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whose it is; told in logs.
    pub name: Box<str>,
    /// In order; none: all of them.
    domains: Option<Box<[Box<str>]>>,
    pub is_admin: bool,
}

impl Grant {
    /// What the fourth part of a line says; there is none: every domain.
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

    /// Whether it opens this domain.
    pub fn admits(&self, domain: &str) -> bool {
        let has = |domains: &[Box<str>]| domains.binary_search_by(|known| (**known).cmp(domain)).is_ok();
        self.domains.as_deref().is_none_or(has)
    }
}

/// Whether this can be the name of a key.
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}
