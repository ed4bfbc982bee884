//! Whose calls are answered, where keys are asked for. Proxies send one key with all calls of a connection: it is
//! looked up with the first of them, and those after it are compared with that, at no allocation and no hash.

use crate::access::{ApiKeys, Grant, KEY_HEADER};
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
            && bool::from(known.sent.ct_eq(sent))
        {
            return Ok(Some(Rc::clone(known)));
        }
        let grant = keys.in_force().grant(sent).ok_or("this API key is not known here")?;
        let found = Rc::new(Known { sent: sent.into(), generation, grant });
        *known = Some(Rc::clone(&found));
        Ok(Some(found))
    }
}
