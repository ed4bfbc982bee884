//! When a certificate is renewed, and how a misbehaving CA is handled: silence, endless responses, huge
//! delays.

mod ca;

use super::cache::Cache;
use super::http::{ANSWERED_WITHIN, Https, LARGEST, LONGEST_WAIT};
use super::order::{AcmeError, Orders};
use super::renewed_from;
use crate::{CertificateFiles, ServerCertificates, ValidityPeriod};
use ca::{Ca, Manner};
use hivemind_core::Timestamp;
use hyper::Request;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(60);
const YEAR: u64 = 365 * 86_400;

#[test]
fn certificate_is_renewed_with_a_third_of_its_lifetime_left() {
    let day = |day: u64| Timestamp::from_millis(day * 86_400_000);
    for (from, until, renewed) in [(0, 90, 60), (10, 100, 70), (0, 6, 4)] {
        let validity = ValidityPeriod { not_before: day(from), not_after: day(until) };
        assert_eq!(renewed_from(validity), day(renewed));
    }
}

/// The result of a request for the CA's directory.
fn ask(ca: &Ca) -> impl Future<Output = Result<BytesResponse, Error>> + Send + use<> {
    let https = Https::new(Some(&ca.file())).unwrap();
    https.request(Request::get(ca.directory()).body(BodyWrapper::default()).unwrap())
}

/// The error of an order without a challenge: the CA already knows the domain.
async fn order(ca: &Ca) -> Result<String, AcmeError> {
    let acme = ca.settings();
    let [cert, key] = ["there.is.none", "nor.a.key"].map(|name| acme.cache.join(name));
    let files = CertificateFiles { cert, key };
    let certificates = ServerCertificates::load_awaiting(Vec::new(), files, Timestamp::from_millis(0));
    let cache = Cache::of(&acme);
    cache.open().unwrap();
    Orders::new(&acme, Arc::new(certificates)).unwrap().order(&cache).await
}

// Fails when any of the three requests has no timeout.
#[tokio::test]
async fn silent_ca_times_out_after_thirty_seconds() {
    for manner in [Manner::NoHandshake, Manner::NoAnswer, Manner::HalfAnAnswer] {
        let mut ca = Ca::start(manner.clone()).await;
        let asking = tokio::spawn(ask(&ca));
        timeout(DEADLINE, ca.falls_silent()).await.unwrap();
        // From here, only time passes.
        tokio::time::pause();
        let asked = timeout(ANSWERED_WITHIN * 2, asking).await;
        tokio::time::resume();
        let asked = asked.unwrap_or_else(|_| panic!("{manner:?}: the request never ends"));
        let error = asked.unwrap().err().unwrap();
        assert!(error.to_string().contains("no response within 30s"), "{manner:?}: {error}");
    }
}

// Fails when the body is collected without a bound.
#[tokio::test]
async fn ca_response_over_one_mebibyte_is_rejected() {
    for (bytes, is_chunked) in
        [(LARGEST, false), (LARGEST, true), (LARGEST + 1, false), (LARGEST + 1, true), (8 * LARGEST, true)]
    {
        let ca = Ca::start(Manner::Answers { bytes, is_chunked }).await;
        let answer = timeout(DEADLINE, ask(&ca)).await.unwrap();
        match answer {
            Ok(mut answer) => {
                let got = answer.body.into_bytes().await.unwrap().len();
                assert_eq!((got, bytes), (LARGEST, LARGEST), "chunked: {is_chunked}");
            }
            Err(error) => {
                assert!(bytes > LARGEST, "{bytes} bytes are rejected: {error}");
                assert!(error.to_string().contains("length limit exceeded"), "{error}");
            }
        }
    }
}

// Fails when the header is passed on unchanged.
#[tokio::test]
async fn retry_after_of_ca_is_capped_at_one_day() {
    for (said, heard) in
        [(7, 7), (LONGEST_WAIT, LONGEST_WAIT), (YEAR, LONGEST_WAIT), (u64::MAX, LONGEST_WAIT)]
    {
        let ca = Ca::start(Manner::Waits(said.to_string())).await;
        let answer = timeout(DEADLINE, ask(&ca)).await.unwrap().unwrap();
        assert_eq!(answer.parts.headers["retry-after"], heard.to_string());
    }
}

// Fails when the header is passed on unchanged (a panic in the addition of `u64::MAX`), and when orders count
// as not created, after which the CA is asked again in a second.
#[tokio::test]
async fn order_delayed_for_a_year_ends_and_counts_as_created() {
    for wait in [YEAR.to_string(), u64::MAX.to_string(), "Fri, 31 Dec 9999 23:59:59 GMT".to_owned()] {
        let ca = Ca::start(Manner::Waits(wait.clone())).await;
        let error = timeout(DEADLINE, order(&ca)).await.expect("the order waits").unwrap_err();
        assert!(matches!(error, AcmeError::Unfinished(Error::Timeout(_))), "{wait}: {error}");
        assert!(error.is_refusal(), "another order follows soon");
    }
}
