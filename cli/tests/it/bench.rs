//! `reentry bench`.

use serde_json::Value;

use crate::program::{ended_of, reentry_at};
use crate::support::server::RedisServer;

const SHORT: [&str; 7] = ["bench", "--rounds", "2", "--pairs", "3", "--callers", "4"];

#[tokio::test]
async fn bench_measures_everything_and_leaves_no_key() {
    let server = RedisServer::start().await;
    let ended = ended_of(reentry_at(&server, &["--json"]).args(SHORT));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(report["round_trip"]["median_us"].as_f64().unwrap() > 0.0);
    let rows = report["measures"].as_array().unwrap();
    let names = rows.iter().map(|row| {
        assert!(row["median_us"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["round_trips"].as_f64().unwrap() > 0.0, "{row}");
        let name = |of: &str| row[of].as_str().unwrap().to_owned();
        (name("measure"), name("contestant"))
    });
    let expected = ["pair", "drain", "handoff"].map(|measure| {
        ["reentry", "classic"].map(|contestant| (measure.to_owned(), contestant.to_owned()))
    });
    assert_eq!(names.collect::<Vec<_>>(), expected.concat());
    assert_eq!(server.leftovers().await, [""; 0]);
}

#[tokio::test]
async fn one_measurement_is_shown_as_bars() {
    let server = RedisServer::start().await;
    let ended = ended_of(reentry_at(&server, &SHORT).arg("pair"));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let lines: Vec<_> = ended.out.lines().collect();
    assert_eq!(lines.len(), 5, "{}", ended.out);
    assert!(lines[0].starts_with("127.0.0.1:"), "{}", ended.out);
    assert!(lines[3].contains('█') && lines[4].contains("round trips"));
}
