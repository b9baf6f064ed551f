//! Deadlines, renewals and losses of one lease.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(1);
const NONE: Grace = Grace::NONE;

fn of(sent: Instant, lease: Duration, ttl: Duration, max_hold: Option<Duration>) -> Lease {
    Lease::new(LeaseTimes::new(sent, lease, ttl, NONE), 0, max_hold, NONE)
}

#[test]
fn a_confirmation_after_the_deadline_does_not_bring_the_lock_back() {
    let sent = Instant::now();
    let mut lease = of(sent, SECOND, SECOND, None);
    lease.confirm(sent + SECOND / 2, 10 * SECOND, sent + SECOND);
    let lost = lease.lost_by(sent + SECOND);
    assert_eq!(lost, Some(LostReason::Unconfirmed));
}

#[test]
fn a_confirmation_counts_from_before_its_request() {
    let sent = Instant::now();
    let mut lease = of(sent, 10 * SECOND, 10 * SECOND, None);
    lease.confirm(sent + SECOND, 10 * SECOND, sent + 2 * SECOND);
    // Less the margin.
    assert_eq!(lease.deadline(), sent + 11 * SECOND - SECOND / 10);
}

#[test]
fn a_renewal_leaves_the_grace() {
    let (sent, grace) = (Instant::now(), Grace::new(2 * SECOND));
    let times = LeaseTimes::new(sent, 10 * SECOND, 10 * SECOND, grace);
    let mut lease = Lease::new(times, 0, None, grace);
    assert_eq!(lease.deadline(), sent + 8 * SECOND);
    lease.confirm(sent + SECOND, 10 * SECOND, sent + SECOND);
    assert_eq!(lease.deadline(), sent + 9 * SECOND);
}

#[test]
fn a_confirmation_never_shortens_the_lease() {
    let sent = Instant::now();
    let mut lease = of(sent, 10 * SECOND, 10 * SECOND, None);
    let before = (lease.deadline(), lease.due(0));
    lease.confirm(sent, SECOND, sent);
    assert_eq!((lease.deadline(), lease.due(0)), before);
}

#[test]
fn a_re_entry_lengthens_the_lease_to_max_hold_at_most() {
    let mut lease = of(Instant::now(), SECOND, SECOND, Some(3 * SECOND));
    assert!(lease.raise_ttl(10 * SECOND));
    assert_eq!(lease.ttl(), 3 * SECOND);
    assert!(!lease.raise_ttl(10 * SECOND));
}

#[test]
fn a_re_entry_after_a_renewal_lengthens_the_lease_to_what_is_left_of_max_hold() {
    let sent = Instant::now();
    let mut lease = of(sent, SECOND, SECOND, Some(5 * SECOND));
    let renewed = sent + SECOND / 2;
    lease.confirm(renewed, SECOND, renewed);
    assert!(lease.raise_ttl(10 * SECOND));
    assert_eq!(lease.ttl(), 4 * SECOND + SECOND / 2);
}

#[test]
fn a_deadline_that_passed_unseen_counts_at_the_end() {
    let sent = Instant::now();
    let mut lease = of(sent, SECOND, SECOND, None);
    lease.end(sent + SECOND);
    assert_eq!(lease.lost(), Some(LostReason::Unconfirmed));
    let mut lease = of(sent, SECOND, SECOND, None);
    lease.end(sent);
    assert_eq!(lease.lost_by(sent + SECOND), None);
}

#[test]
fn max_hold_ends_the_lease_and_the_renewals() {
    let sent = Instant::now();
    let end = sent + SECOND / 2;
    let mut lease = of(sent, SECOND, SECOND, Some(SECOND / 2));
    assert_eq!(lease.look(0, end - MOMENT), Due::At(end));
    assert_eq!(lease.look(0, end), Due::Lost);
    assert_eq!(lease.lost_by(end), Some(LostReason::MaxHold));
}

#[test]
fn a_lease_is_renewed_after_a_third_and_a_short_one_after_a_quarter() {
    let sent = Instant::now();
    for (length, pause) in [(30 * SECOND, 10 * SECOND), (2 * SECOND, SECOND / 2)] {
        let mut lease = of(sent, length, 30 * SECOND, None);
        let due = sent + pause;
        assert_eq!(lease.look(0, due - MOMENT), Due::At(due));
        assert_eq!(lease.look(0, due), Due::Renewal);
        lease.confirm(due, 30 * SECOND, due);
        assert_eq!(lease.look(0, due), Due::At(due + 10 * SECOND));
    }
}

/// The store does not know the longer TTL until a request with this TTL is confirmed.
#[test]
fn a_longer_ttl_does_not_put_off_the_renewal_of_the_shorter_lease() {
    let sent = Instant::now();
    let mut lease = of(sent, 3 * SECOND, 3 * SECOND, None);
    assert!(lease.raise_ttl(30 * SECOND));
    assert_eq!(lease.due(0), sent + SECOND);
    // A renewal that was sent before the re-entry.
    lease.confirm(sent + SECOND, 3 * SECOND, sent + SECOND);
    assert_eq!(lease.due(0), sent + 2 * SECOND);
    lease.confirm(sent + SECOND, 30 * SECOND, sent + SECOND);
    assert_eq!(lease.due(0), sent + 11 * SECOND);
}

#[test]
fn a_disconnect_makes_the_renewal_due_until_a_later_request_is_confirmed() {
    let sent = Instant::now();
    let mut lease = of(sent, 30 * SECOND, 30 * SECOND, None);
    let now = sent + SECOND;
    assert_eq!(lease.look(1, now), Due::Renewal);
    // The confirmed request was sent before the disconnect.
    lease.confirm(now, 30 * SECOND, now);
    lease.verify(0);
    assert_eq!(lease.look(1, now), Due::At(now + VERIFY_PAUSE));
    assert_eq!(lease.look(1, now + VERIFY_PAUSE), Due::Renewal);
    lease.confirm(now + VERIFY_PAUSE, 30 * SECOND, now + VERIFY_PAUSE);
    lease.verify(1);
    let next = now + VERIFY_PAUSE + 10 * SECOND;
    assert_eq!(lease.look(1, now + VERIFY_PAUSE), Due::At(next));
}

#[test]
fn disconnects_in_a_row_cost_one_verification_in_each_pause() {
    let sent = Instant::now();
    let mut lease = of(sent, 30 * SECOND, 30 * SECOND, None);
    let mut verified = 0;
    for disconnects in 1..=1_000 {
        let now = sent + u32::try_from(disconnects).unwrap_or(0) * MOMENT;
        if lease.look(disconnects, now) == Due::Renewal {
            verified += 1;
            lease.confirm(now, 30 * SECOND, now);
            lease.verify(disconnects);
        }
    }
    assert_eq!(verified, 20);
}

#[test]
fn a_hold_goes_on_only_if_it_is_verified_and_has_no_end() {
    let sent = Instant::now();
    let lease = of(sent, SECOND, SECOND, None);
    assert!(lease.is_open(0) && !lease.is_open(1));
    assert!(!of(sent, SECOND, SECOND, Some(SECOND)).is_open(0));
    let mut lost = of(sent, SECOND, SECOND, None);
    lost.lose(LostReason::Gone);
    assert!(!lost.is_open(0));
}
