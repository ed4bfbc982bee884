//! Quick sanity checks; the real suites are beside this.
use hivemind_core::*;
#[test]
fn hot_key() {
    let limit = Limit::token_bucket(Rate::per_second(10).unwrap(), 21).unwrap();
    let store = MemoryStore::new(StoreOptions::default());
    let seed = KeySeed::from_cluster_id("x");
    let entries = [("a", "b")];
    let parts = Parts { domain: "d", entries: &entries };
    let key = Key::new(&seed, parts, &limit, 0);
    let charge = Charge { key, parts, limit: &limit, cost: Cost::ONE, op: Op::Spend, mode: Mode::Enforce };
    let at = |ms| Context::at(Timestamp::from_millis(ms));
    for i in 0..21 {
        let v = store.decide_now(&[charge], at(0));
        assert!(v.committed);
        assert_eq!(v.each()[0].remaining, 20 - i);
    }
    assert!(!store.decide_now(&[charge], at(99)).committed);
    assert!(store.decide_now(&[charge], at(100)).committed);
    assert!(!store.decide_now(&[charge, charge], at(200)).committed);
    assert!(store.decide_now(&[charge, charge], at(300)).committed);
}
