use super::{Events, Live, MOST_MISSED, MOST_ROUNDS, Stays, SubscribeError};
use axum::body::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{advance, timeout};

struct Running {
    live: Arc<Live>,
    made: Arc<AtomicU64>,
    active: Arc<AtomicU64>,
    close: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    fn start() -> Self {
        let (close, closed) = watch::channel(false);
        let (live, made, active) = (Arc::<Live>::default(), Arc::default(), Arc::<AtomicU64>::default());
        let (of_task, counted, keys) = (Arc::clone(&live), Arc::clone(&made), Arc::clone(&active));
        let task = tokio::spawn(async move {
            let rounds = |round: u64| {
                AtomicU64::fetch_add(&counted, 1, Ordering::Relaxed);
                let keys = keys.load(Ordering::Relaxed);
                async move { (Bytes::from(round.to_string()), [keys, 0]) }
            };
            of_task.run(rounds, closed).await;
        });
        Self { live, made, active, close, task }
    }

    fn listen(&self, stays: &Stays) -> Result<Events, SubscribeError> {
        Ok(self.live.listen([0, 0], stays)?.into_events(Bytes::from_static(b"first")))
    }

    async fn pass(&self, seconds: u32) {
        for _ in 0..seconds {
            tokio::task::yield_now().await;
            advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
    }
}

async fn next(events: &mut Events) -> Option<String> {
    let next = timeout(Duration::from_secs(5), events.0.recv()).await.expect("it sends an event or ends");
    next.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

// Fails when rounds are created after the last subscriber left.
#[tokio::test(start_paused = true)]
async fn rounds_stop_without_subscribers() {
    let running = Running::start();
    running.pass(5).await;
    assert_eq!(running.made.load(Ordering::Relaxed), 0);
    let stays = Stays::default();
    let mut events = running.listen(&stays).unwrap();
    assert!(!stays.are_none());
    assert_eq!(next(&mut events).await.as_deref(), Some("first"));
    assert_eq!(next(&mut events).await.as_deref(), Some("0"));
    assert_eq!(next(&mut events).await.as_deref(), Some("1"));
    drop(events);
    running.pass(2).await;
    assert!(stays.are_none());
    let made = running.made.load(Ordering::Relaxed);
    running.pass(5).await;
    assert_eq!(running.made.load(Ordering::Relaxed), made);
    // And they start again.
    let mut events = running.listen(&stays).unwrap();
    assert_eq!(next(&mut events).await.as_deref(), Some("first"));
    assert!(next(&mut events).await.is_some());
}

// Fails when the queue is unbounded, or when a silent subscriber stays.
#[tokio::test(start_paused = true)]
async fn slow_subscriber_misses_rounds_and_silent_one_is_dropped() {
    let running = Running::start();
    let (slow, quick) = (Stays::default(), Stays::default());
    let mut silent = running.listen(&slow).unwrap();
    let mut reader = running.listen(&quick).unwrap();
    for round in 0..MOST_MISSED + 10 {
        running.pass(1).await;
        while let Ok(event) = reader.0.try_recv() {
            assert!(event == "first" || event == round.to_string(), "{event:?} in round {round}");
        }
    }
    assert!(slow.are_none() && !quick.are_none());
    let mut kept = 0;
    while let Some(_round) = next(&mut silent).await {
        kept += 1;
    }
    assert_eq!(kept, MOST_ROUNDS);
}

// Fails without a limit on subscribers, or when a place is not released.
#[tokio::test(start_paused = true)]
async fn event_subscribers_have_a_maximum() {
    let running = Running::start();
    let stays = Stays::default();
    let mut all: Vec<Events> = (0..Live::MOST).map(|_| running.listen(&stays).unwrap()).collect();
    assert_eq!(running.listen(&stays).unwrap_err(), SubscribeError::Full);
    drop(all.pop());
    assert!(running.listen(&stays).is_ok());
}

// Fails when withdrawn keys receive one more round.
#[tokio::test(start_paused = true)]
async fn stream_ends_with_its_keys_and_with_the_service() {
    let mut running = Running::start();
    let stays = Stays::default();
    let mut events = running.listen(&stays).unwrap();
    running.active.store(1, Ordering::Relaxed);
    assert_eq!(next(&mut events).await.as_deref(), Some("first"));
    assert_eq!(next(&mut events).await, None, "it receives nothing more");
    let mut events = running.live.listen([1, 0], &stays).unwrap().into_events(Bytes::from_static(b"first"));
    assert!(next(&mut events).await.is_some() && next(&mut events).await.is_some());
    running.close.send(true).unwrap();
    while next(&mut events).await.is_some() {}
    (&mut running.task).await.unwrap();
    assert_eq!(running.listen(&stays).unwrap_err(), SubscribeError::Over);
}

// Fails when a subscriber receives rounds before its snapshot.
#[tokio::test(start_paused = true)]
async fn subscriber_receives_its_snapshot_first() {
    let running = Running::start();
    let stays = Stays::default();
    let place = running.live.listen([0, 0], &stays).unwrap();
    running.pass(2).await;
    let mut events = place.into_events(Bytes::from_static(b"first"));
    assert_eq!(next(&mut events).await.as_deref(), Some("first"));
    assert_ne!(next(&mut events).await.as_deref(), Some("0"), "that round was before");
    drop(running.live.listen([0, 0], &stays).unwrap());
    drop(events);
    running.pass(2).await;
    assert!(stays.are_none(), "a subscriber that left before its snapshot is gone too");
}

// Fails when subscribers stay, or are accepted, after publishing has ended.
#[tokio::test(start_paused = true)]
async fn panicking_round_ends_all_subscriptions() {
    let live = Arc::<Live>::default();
    let (_close, closed) = watch::channel(false);
    let stays = Stays::default();
    let (of_task, round) = (Arc::clone(&live), |_| async { panic!("no bodies") });
    let task = tokio::spawn(async move { of_task.run(round, closed).await });
    let mut events = live.listen([0, 0], &stays).unwrap().into_events(Bytes::from_static(b"first"));
    assert_eq!(next(&mut events).await.as_deref(), Some("first"));
    assert_eq!(next(&mut events).await, None);
    assert!(task.await.is_err() && stays.are_none());
    assert_eq!(live.listen([0, 0], &stays).unwrap_err(), SubscribeError::Over);
}

// Fails when a hanging round is awaited forever, or so long that the page treats the link as dead.
#[tokio::test(start_paused = true)]
async fn hanging_round_is_skipped() {
    let live = Arc::<Live>::default();
    let (_close, closed) = watch::channel(false);
    let stays = Stays::default();
    let of_task = Arc::clone(&live);
    let round = |round: u64| async move {
        if round == 0 {
            std::future::pending::<()>().await;
        }
        (Bytes::from(round.to_string()), [0, 0])
    };
    let task = tokio::spawn(async move { of_task.run(round, closed).await });
    let mut events = live.listen([0, 0], &stays).unwrap().into_events(Bytes::from_static(b"first"));
    assert_eq!(next(&mut events).await.as_deref(), Some("first"));
    // One second less than the page waits: `SILENCE_MS` of `live.js`.
    let event = timeout(Duration::from_secs(5), events.0.recv()).await.unwrap();
    assert_eq!(event.as_deref(), Some(&b"1"[..]));
    task.abort();
}
