//! API key check of calls. A proxy sends one key with all calls of a connection: the first call looks it up, later
//! calls are compared with it, without allocation or hashing.

use hivemind_tls::access::{AccessGrant, ApiKeys, KEY_HEADER};
use http::HeaderMap;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Health checks need no key, because probes have none.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// A verified key.
pub(super) struct VerifiedKey {
    /// A copy, because a slice would keep the whole read buffer in memory.
    sent: Box<[u8]>,
    /// The generation of the key set that contained it.
    generation: u64,
    pub(super) grant: Arc<AccessGrant>,
}

/// The verified key of one connection.
#[derive(Default)]
pub(super) struct ApiKeyCheck(RefCell<Option<Rc<VerifiedKey>>>);

impl ApiKeyCheck {
    /// Admits a call with the permissions of its key, or returns the reason for rejection.
    pub(super) fn admit(
        &self,
        keys: &ApiKeys,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Option<Rc<VerifiedKey>>, &'static str> {
        if path.starts_with(HEALTH) {
            return Ok(None);
        }
        let sent = headers.get(KEY_HEADER).ok_or("an API key is needed; send it as x-api-key")?.as_bytes();
        // Read before the lookup: keys that become active meanwhile are checked with the next call.
        let generation = keys.generation();
        let mut cached = self.0.borrow_mut();
        if let Some(cached) = &*cached
            && cached.generation == generation
            && is_same(&cached.sent, sent)
        {
            return Ok(Some(Rc::clone(cached)));
        }
        let grant = keys.active().grant(sent).ok_or("unknown API key")?;
        let found = Rc::new(VerifiedKey { sent: sent.into(), generation, grant });
        *cached = Some(Rc::clone(&found));
        Ok(Some(found))
    }
}

/// Compares in time that depends only on the lengths. By words, because every call pays for this: bytewise it would
/// cost as much as the rest of the check.
fn is_same(cached: &[u8], sent: &[u8]) -> bool {
    let ((known_words, known_rest), (words, rest)) = (cached.as_chunks::<8>(), sent.as_chunks::<8>());
    let of_words =
        known_words.iter().zip(words).map(|(a, b)| u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b));
    let of_rest = known_rest.iter().zip(rest).map(|(a, b)| u64::from(a ^ b));
    let differs = of_words.chain(of_rest).fold(0, |differs, bits| differs | bits);
    cached.len() == sent.len() && bool::from(differs.ct_eq(&0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_tls::access::{SecretDigest, format_key_line};
    use http::HeaderValue;

    fn keys(folder: &std::path::Path, of: &[(&str, &str)]) -> std::path::PathBuf {
        let line = |(name, key): &(&str, &str)| {
            format_key_line(name, SecretDigest::of(key.as_bytes()).unwrap(), &[])
        };
        let path = folder.join("keys");
        std::fs::write(&path, of.iter().map(line).collect::<Vec<_>>().join("\n")).unwrap();
        path
    }

    fn with(key: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(KEY_HEADER, HeaderValue::from_static(key))])
    }

    // Fails when a key is cached without its generation, or compared by its length.
    #[test]
    fn connection_caches_its_key_and_accepts_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = ApiKeys::open(&keys(folder.path(), &[("a", "key-a"), ("b", "key-b")])).unwrap();
        let check = ApiKeyCheck::default();
        let name = |key| check.admit(&file, "/x", &with(key)).map(|found| found.unwrap().grant.name.clone());
        for (key, expected) in [
            ("key-a", Some("a")),
            ("key-a", Some("a")),
            ("key-b", Some("b")),
            ("key-c", None),
            ("key-", None),
        ] {
            assert_eq!(name(key).ok().as_deref(), expected, "{key}");
        }
        keys(folder.path(), &[("c", "key-c"), ("a", "key-a")]);
        assert_eq!(name("key-b").ok().as_deref(), Some("b"), "the file on disk is not active yet");
        file.reload().unwrap();
        for (key, expected) in [("key-b", None), ("key-a", Some("a")), ("key-c", Some("c"))] {
            assert_eq!(name(key).ok().as_deref(), expected, "{key}");
        }
        assert!(check.admit(&file, "/grpc.health.v1.Health/Check", &HeaderMap::new()).is_ok());
        assert!(check.admit(&file, "/grpc.health.v1.Healthy/Check", &HeaderMap::new()).is_err());
    }

    // Fails when the rest after the last whole word is not compared.
    #[test]
    fn keys_are_equal_only_in_all_bytes() {
        let key = b"hm_0123456789abcdef";
        assert!(is_same(key, key) && is_same(b"", b""));
        for at in 0..key.len() {
            let mut other = *key;
            other[at] ^= 1;
            assert!(!is_same(key, &other) && !is_same(key, &key[..at]), "{at}");
        }
    }

    // Fails when the key is copied for each call.
    #[test]
    fn key_check_does_not_allocate() {
        let folder = tempfile::tempdir().unwrap();
        let file = ApiKeys::open(&keys(folder.path(), &[("a", "key-a")])).unwrap();
        let (check, known, wrong) = (ApiKeyCheck::default(), with("key-a"), with("key-w"));
        check.admit(&file, "/x", &known).unwrap();
        let allocated = allocation_counter::measure(|| {
            for _ in 0..100 {
                assert!(check.admit(&file, "/x", &known).is_ok());
                assert!(check.admit(&file, "/x", &wrong).is_err());
            }
        });
        assert_eq!(allocated.count_total, 0);
    }
}
