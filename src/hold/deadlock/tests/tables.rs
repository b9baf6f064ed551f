//! Graphs for which the correct result of a walk is obvious.

use super::*;

/// Owners in a ring: each holds the key of its number, and waits for the next one.
fn ring(members: usize) -> Graph {
    let waits = (0..members).map(|at| {
        let next = (at + 1) % members;
        wait(hold(at, 2), next, &[(hold(at, 1), at)])
    });
    Graph {
        keys: (0..members).map(|at| vec![hold(at, 1)]).collect(),
        waits: waits.collect(),
    }
}

fn ids(cycle: &Cycle) -> Vec<HoldId> {
    cycle.waits().collect()
}

#[test]
fn every_wait_of_a_ring_finds_it_and_names_it_alike() {
    for members in 1..=DEEP {
        let graph = ring(members);
        for from in 0..members {
            let (cycle, looks) = graph.walk(from, Moment::first());
            let cycle = cycle.expect("a cycle");
            let expected: Vec<_> = (0..members)
                .map(|step| hold((from + step) % members, 2))
                .collect();
            assert_eq!(ids(&cycle), expected);
            assert_eq!(cycle.closes, hold(from, 1));
            assert_eq!(looks, 2 * members - 1);
            let blocked: Vec<_> = cycle
                .blocked()
                .map(|(wait, holds)| (wait.key.to_string(), holds.to_owned()))
                .collect();
            let keys = (0..members).map(|step| {
                let at = (from + step) % members;
                (((at + 1) % members).to_string(), at.to_string())
            });
            assert_eq!(blocked, keys.collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_ring_of_more_waits_is_not_looked_for() {
    assert_eq!(ring(DEEP + 1).walk(0, Moment::first()).0, None);
}

/// A wait for a lock with this number of readers, each of which waits for a key of its own.
fn behind_readers(readers: usize) -> Graph {
    let holds: Vec<_> = (1..=readers).map(|owner| hold(owner, 1)).collect();
    let waits = holds.iter().enumerate();
    let waits = waits.map(|(at, &by)| wait(hold(at + 1, 2), at + 1, &[(by, 0)]));
    let first = wait(hold(0, 2), 0, &[(hold(0, 1), 200)]);
    Graph {
        waits: std::iter::once(first).chain(waits).collect(),
        keys: vec![holds],
    }
}

#[test]
fn a_walk_pauses_after_so_many_looks_and_sees_all_readers() {
    // The lookups are the holds in the key, the waits of each hold, and the holds in the key of each wait.
    assert_eq!(
        behind_readers(100).walk(0, Moment::first()),
        (None, 1 + 2 * 100)
    );
    // The last of them waits for the lock that encloses the first wait.
    for readers in [10, 60, 100, 1_000] {
        let mut graph = behind_readers(readers);
        graph.keys.resize(readers + 1, Vec::new());
        graph.keys[readers] = vec![hold(0, 1)];
        let (cycle, looks) = graph.walk(0, Moment::first());
        let expected = vec![hold(0, 2), hold(readers, 2)];
        assert_eq!(cycle.map(|cycle| ids(&cycle)), Some(expected));
        assert_eq!(looks, 1 + 2 * readers);
    }
}

#[test]
fn a_walk_keeps_so_many_in_mind() {
    let mut graph = behind_readers(MOST + 1);
    graph.waits.truncate(1);
    assert_eq!(graph.walk(0, Moment::first()), (None, 1 + MOST));
    // One hold encloses more waits than that, each for a key of its own.
    let outer = hold(1, 1);
    let waits = (0..=MOST).map(|at| wait(hold(2, at), at + 1, &[(outer, 0)]));
    let first = wait(hold(0, 2), 0, &[(hold(0, 1), 200)]);
    let graph = Graph {
        keys: vec![vec![outer]],
        waits: std::iter::once(first).chain(waits).collect(),
    };
    assert_eq!(graph.walk(0, Moment::first()), (None, 2 + MOST - 1));
}

#[test]
fn a_wait_for_what_waits_for_nothing_is_no_ring() {
    let mut graph = ring(3);
    graph.waits.pop();
    for from in 0..2 {
        assert_eq!(graph.walk(from, Moment::first()).0, None);
    }
    // The same is true for a key that is free, or is held by a field without an owner.
    graph.keys[1].clear();
    assert_eq!(graph.walk(0, Moment::first()), (None, 1));
}

/// Branch 1 of owner 0 holds key 0. Its branch 2 holds key 2 and waits for key 1. Owner 1 holds key 1 and waits for key
/// 0.
#[test]
fn branches_of_one_owner_are_apart() {
    let graph = Graph {
        keys: vec![vec![hold(0, 1)], vec![hold(1, 1)], vec![hold(0, 2)]],
        waits: vec![
            wait(hold(0, 3), 1, &[(hold(0, 2), 2)]),
            wait(hold(1, 2), 0, &[(hold(1, 1), 1)]),
        ],
    };
    for from in 0..2 {
        assert_eq!(graph.walk(from, Moment::first()).0, None);
    }
}

#[test]
fn any_of_several_holds_in_a_key_and_around_a_wait_may_close_a_ring() {
    let mut graph = ring(2);
    graph.keys[0].insert(0, hold(7, 1));
    graph.keys[1].push(hold(8, 1));
    for (at, wait) in graph.waits.iter_mut().enumerate() {
        let outer = Enclosing {
            hold: hold(at, 9),
            key: key(9),
        };
        wait.enclosing.insert(0, outer);
    }
    for from in 0..2 {
        let (cycle, _) = graph.walk(from, Moment::first());
        assert_eq!(cycle.map(|cycle| cycle.links.len()), Some(2));
    }
}

/// The wait has been let in: the message is on its way.
#[test]
fn a_wait_that_is_in_its_key_is_none() {
    let graph = ring(3);
    for entered in 0..3 {
        let mut graph = graph.clone();
        graph.keys[(entered + 1) % 3].push(hold(entered, 2));
        for from in 0..3 {
            assert_eq!(graph.walk(from, Moment::first()).0, None);
        }
        // This is also so if only the second walk sees that.
        let first = Moment::first();
        let (cycle, _) = ring(3).walk(0, first);
        let cycle = cycle.expect("a cycle");
        let verdict = graph.second_walk(&cycle, first.now, first.after(9, 8));
        assert_eq!(verdict, Verdict::Gone);
    }
}

/// Two waits are for one key, and one of them has been let in. The walk still follows the other one.
#[test]
fn a_key_is_looked_at_once_for_all_that_wait_for_it() {
    // Owner 0 waits for what owners 1 and 2 hold, and both of them wait for what owner 0 holds.
    let graph = Graph {
        keys: vec![vec![hold(0, 1), hold(1, 2)], vec![hold(1, 1), hold(2, 1)]],
        waits: vec![
            wait(hold(0, 2), 1, &[(hold(0, 1), 0)]),
            wait(hold(1, 2), 0, &[(hold(1, 1), 1)]),
            wait(hold(2, 2), 0, &[(hold(2, 1), 1)]),
        ],
    };
    let (cycle, looks) = graph.walk(0, Moment::first());
    assert_eq!(
        cycle.map(|cycle| ids(&cycle)),
        Some(vec![hold(0, 2), hold(2, 2)])
    );
    assert_eq!(looks, 4);
}

#[test]
fn a_second_walk_believes_what_was_published_half_a_heartbeat_after_the_first() {
    let (graph, first) = (ring(2), Moment::first());
    let (cycle, _) = graph.walk(0, first);
    let cycle = cycle.expect("a cycle");
    // The walk took two seconds. A record lives for four seconds, so it may be late by one.
    let ended = first.now + Duration::from_secs(2);
    for (stamp, verdict) in [
        (0, Verdict::Unsure),
        (2, Verdict::Unsure),
        (3, Verdict::Unsure),
        (4, Verdict::Deadlock),
    ] {
        let second = graph.second_walk(&cycle, ended, first.after(9, stamp));
        assert_eq!(second, verdict, "{stamp}");
    }
}

#[test]
fn whatever_is_missing_in_the_second_walk_ends_it() {
    let (graph, first) = (ring(3), Moment::first());
    let (cycle, _) = graph.walk(0, first);
    let cycle = cycle.expect("a cycle");
    let verdict = |graph: &Graph| graph.second_walk(&cycle, first.now, first.after(9, 8));
    assert_eq!(verdict(&graph), Verdict::Deadlock);
    for at in 0..3 {
        let mut without = graph.clone();
        without.keys[at].clear();
        assert_eq!(verdict(&without), Verdict::Gone);
        let mut other = graph.clone();
        other.keys[at] = vec![hold(at, 7)];
        assert_eq!(verdict(&other), Verdict::Gone);
    }
    for at in 1..3 {
        let mut without = graph.clone();
        without.waits.remove(at);
        assert_eq!(verdict(&without), Verdict::Gone);
        let mut elsewhere = graph.clone();
        elsewhere.waits[at].key = key(9);
        assert_eq!(verdict(&elsewhere), Verdict::Gone);
        let mut moved_out = graph.clone();
        moved_out.waits[at].enclosing[0].hold = hold(at, 7);
        assert_eq!(verdict(&moved_out), Verdict::Gone);
    }
    // The wait that walks knows by itself that it still waits.
    let mut itself = graph;
    itself.waits.remove(0);
    assert_eq!(verdict(&itself), Verdict::Deadlock);
}

#[test]
fn the_slowest_of_a_ring_sets_the_pace() {
    let (cycle, _) = ring(2).walk(0, Moment::first());
    let cycle = cycle.expect("a cycle");
    assert_eq!(cycle.beat(Duration::from_secs(1)), LIFE / 2);
    assert_eq!(cycle.beat(LIFE), LIFE);
}
