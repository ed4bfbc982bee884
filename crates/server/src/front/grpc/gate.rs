//! Whose calls are answered, where keys are asked for. Proxies send one key with all calls of a connection: it is
//! looked up with the first of them, and those after it are compared with that, at no allocation and no hash.

use hivemind_tls::access::{ApiKeys, Grant, KEY_HEADER};
use http::HeaderMap;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Whoever asks for health needs no key: probes have none.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// A key that was found to be good.
pub(super) struct Known {
    /// A copy: what was read is kept in memory as long as a part of it is.
    sent: Box<[u8]>,
    /// Of the keys it was found in.
    generation: u64,
    pub(super) grant: Arc<Grant>,
}

/// What one connection knows of its caller.
#[derive(Default)]
pub(super) struct Gate(RefCell<Option<Rc<Known>>>);

impl Gate {
    /// Lets a call in, with what its key opens; or says why not.
    pub(super) fn admit(
        &self,
        keys: &ApiKeys,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Option<Rc<Known>>, &'static str> {
        if path.starts_with(HEALTH) {
            return Ok(None);
        }
        let sent = headers.get(KEY_HEADER).ok_or("an API key is needed; send it as x-api-key")?.as_bytes();
        // Before the look-up: keys that come into force meanwhile are looked at with the next call.
        let generation = keys.generation();
        let mut known = self.0.borrow_mut();
        if let Some(known) = &*known
            && known.generation == generation
            && is_same(&known.sent, sent)
        {
            return Ok(Some(Rc::clone(known)));
        }
        let grant = keys.in_force().grant(sent).ok_or("this API key is not known here")?;
        let found = Rc::new(Known { sent: sent.into(), generation, grant });
        *known = Some(Rc::clone(&found));
        Ok(Some(found))
    }
}

/// Compares in a time that depends on the lengths alone. By words, since this is what every call pays: byte by byte it
/// would be as much as all else here.
fn is_same(known: &[u8], sent: &[u8]) -> bool {
    let ((known_words, known_rest), (words, rest)) = (known.as_chunks::<8>(), sent.as_chunks::<8>());
    let of_words =
        known_words.iter().zip(words).map(|(a, b)| u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b));
    let of_rest = known_rest.iter().zip(rest).map(|(a, b)| u64::from(a ^ b));
    let differs = of_words.chain(of_rest).fold(0, |differs, bits| differs | bits);
    known.len() == sent.len() && bool::from(differs.ct_eq(&0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_tls::access::{Digest, line};
    use http::HeaderValue;

    fn keys(folder: &std::path::Path, of: &[(&str, &str)]) -> std::path::PathBuf {
        let line = |(name, key): &(&str, &str)| line(name, Digest::of(key.as_bytes()).unwrap(), &[]);
        let path = folder.join("keys");
        std::fs::write(&path, of.iter().map(line).collect::<Vec<_>>().join("\n")).unwrap();
        path
    }

    fn with(key: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(KEY_HEADER, HeaderValue::from_static(key))])
    }

    // Seen failing on: a key that is remembered without its generation; one compared by its length.
    #[test]
    fn a_connection_remembers_its_key_and_takes_no_other_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = ApiKeys::open(&keys(folder.path(), &[("a", "key-a"), ("b", "key-b")])).unwrap();
        let gate = Gate::default();
        let name = |key| gate.admit(&file, "/x", &with(key)).map(|known| known.unwrap().grant.name.clone());
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
        assert_eq!(name("key-b").ok().as_deref(), Some("b"), "what is on disk is not in force yet");
        file.reload().unwrap();
        for (key, expected) in [("key-b", None), ("key-a", Some("a")), ("key-c", Some("c"))] {
            assert_eq!(name(key).ok().as_deref(), expected, "{key}");
        }
        assert!(gate.admit(&file, "/grpc.health.v1.Health/Check", &HeaderMap::new()).is_ok());
        assert!(gate.admit(&file, "/grpc.health.v1.Healthy/Check", &HeaderMap::new()).is_err());
    }

    // Seen failing on: a rest that is not compared.
    #[test]
    fn two_keys_are_the_same_only_if_all_of_them_is() {
        let key = b"hm_0123456789abcdef";
        assert!(is_same(key, key) && is_same(b"", b""));
        for at in 0..key.len() {
            let mut other = *key;
            other[at] ^= 1;
            assert!(!is_same(key, &other) && !is_same(key, &key[..at]), "{at}");
        }
    }

    // Seen failing on: the key copied for each call.
    #[test]
    fn a_key_that_is_known_costs_no_allocation_and_a_wrong_one_neither() {
        let folder = tempfile::tempdir().unwrap();
        let file = ApiKeys::open(&keys(folder.path(), &[("a", "key-a")])).unwrap();
        let (gate, known, wrong) = (Gate::default(), with("key-a"), with("key-w"));
        gate.admit(&file, "/x", &known).unwrap();
        let allocated = allocation_counter::measure(|| {
            for _ in 0..100 {
                assert!(gate.admit(&file, "/x", &known).is_ok());
                assert!(gate.admit(&file, "/x", &wrong).is_err());
            }
        });
        assert_eq!(allocated.count_total, 0);
    }
}
