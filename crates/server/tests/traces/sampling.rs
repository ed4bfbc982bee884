//! Which checks are followed.

use crate::asking::{SAMPLED, SPAN, TRACE, UNSAMPLED, ask, end, sending_to};
use crate::receiver::Receiver;

/// Asks with these `traceparent` headers (none where it is empty); the checks that came of it, as their traces and parents.
async fn followed(rate: &str, parents: &[&str]) -> Vec<(String, String)> {
    let receiver = Receiver::start().await;
    let server = sending_to(&receiver).with("observability.otel.tracing.sample_rate", rate).start().await;
    for parent in parents {
        let headers: &[_] = if parent.is_empty() { &[] } else { &[("traceparent", *parent)] };
        assert_eq!(ask(&server, ("d", "k=1"), headers).await.unwrap(), "OK");
    }
    end(server).await;
    receiver.named("ratelimit.check").iter().map(|of| (of.trace(), of.parent())).collect()
}

// Seen failing on: the rate alone, whatever the parent says.
#[tokio::test]
async fn a_sampled_parent_is_followed_at_any_rate_and_an_unsampled_one_at_none() {
    let of_parent = [(TRACE.to_owned(), SPAN.to_owned())];
    assert_eq!(followed("0", &["", UNSAMPLED, SAMPLED, ""]).await, of_parent);
    let followed = followed("1", &[UNSAMPLED, SAMPLED, UNSAMPLED]).await;
    assert_eq!(followed, of_parent);
}

// Seen failing on: another half of the names; and on a rate that is not heeded.
#[tokio::test]
async fn of_traces_that_begin_here_those_are_followed_whose_names_are_below_the_rate() {
    let followed = followed("0.5", &[""; 200]).await;
    assert!((50..150).contains(&followed.len()), "{} of 200", followed.len());
    for (trace, parent) in &followed {
        let low = u64::from_str_radix(&trace[16..], 16).unwrap();
        assert!(low >> 1 < 1 << 62, "{trace} is not in the lower half");
        assert_eq!(parent, "");
    }
    let mut names: Vec<_> = followed.iter().map(|(trace, _)| trace).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), followed.len(), "a name was given twice");
}

// Seen failing on: an upper-case parent that is taken.
#[tokio::test]
async fn what_is_no_context_begins_a_new_trace_and_is_never_an_error() {
    let wrong = [
        "hello",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
    ];
    let followed = followed("1", &wrong).await;
    assert_eq!(followed.len(), wrong.len());
    for (trace, parent) in followed {
        assert_ne!(trace, TRACE);
        assert_eq!(parent, "");
    }
}

// Seen failing on: the first of two that is taken.
#[tokio::test]
async fn of_two_parents_none_is_believed_and_a_state_without_a_parent_is_nobodys() {
    let receiver = Receiver::start().await;
    let server = sending_to(&receiver).start().await;
    let two = [("traceparent", SAMPLED), ("traceparent", UNSAMPLED), ("tracestate", "a=1")];
    assert_eq!(ask(&server, ("d", "k=1"), &two).await.unwrap(), "OK");
    end(server).await;
    let checks = receiver.named("ratelimit.check");
    assert_eq!(checks.len(), 1);
    assert_ne!(checks[0].trace(), TRACE);
    assert_eq!((checks[0].parent().as_str(), checks[0].span.trace_state.as_str()), ("", ""));
}

// Seen failing on: an exporter that is started without an endpoint.
#[tokio::test]
async fn without_an_endpoint_or_where_it_is_off_nothing_is_sent() {
    let receiver = Receiver::start().await;
    let off = sending_to(&receiver).with("observability.otel.tracing.enabled", "false").start().await;
    assert_eq!(ask(&off, ("d", "k=1"), &[("traceparent", SAMPLED)]).await.unwrap(), "OK");
    end(off).await;
    assert_eq!(receiver.messages(), 0);
}
