//! The parameters of every kind of URL.

use super::{ServerSpec, parsed, refusal, sentinels, words};

/// A URL of each kind, without parameters.
const EVERY_KIND: &[&str] = &[
    "redis://one",
    "redis://app:word@one:1",
    "valkey://one/",
    #[cfg(feature = "tls")]
    "rediss://one",
    #[cfg(unix)]
    "unix:///run/redis.sock",
    #[cfg(unix)]
    "redis+unix:///run/redis.sock",
    "redis+cluster://one",
    "redis+sentinel://one/orders",
];

/// The database of the servers of a URL.
fn database(url: &str) -> i64 {
    parsed(url).server.info.redis_settings().db()
}

#[test]
fn the_database_in_a_query_is_used() {
    let has_databases = |url: &&&str| !url.contains("cluster");
    for url in EVERY_KIND.iter().filter(has_databases) {
        assert_eq!(database(url), 0, "{url}");
        assert_eq!(database(&format!("{url}?db=3")), 3, "{url}");
        let further = format!("{url}?protocol=resp2&d%62=3");
        assert_eq!(database(&further), 3, "{url}");
    }
    assert_eq!(database("redis://one/3"), 3);
    assert_eq!(database("redis://one/3?db=3"), 3);
    assert_eq!(database("redis+cluster://one?db=0"), 0);
}

#[test]
fn two_databases_in_a_url_are_refused() {
    for path in ["2", "0", "3/"] {
        let said = refusal(&format!("redis://one/{path}?db=4"));
        assert!(said.contains("two databases"), "{path}: {said}");
    }
    for url in EVERY_KIND {
        let said = refusal(&format!("{url}?db=0&db=1"));
        assert!(said.contains("`db` is set twice"), "{url}: {said}");
    }
    assert!(refusal("redis+cluster://one?db=3").contains("database 0"));
}

#[test]
fn an_unknown_parameter_is_refused_by_its_name() {
    for url in EVERY_KIND {
        for name in ["protocols", "DB", "database", "password", "sentinel-tls"] {
            let said = refusal(&format!("{url}?db=0&{name}=secret"));
            assert!(said.contains(&format!("`{name}`")), "{url}: {said}");
            assert!(said.contains("`db`") && !said.contains("secret"), "{said}");
        }
        for none in ["=", "=a", "&x%00=", "\u{1b}[31m"] {
            let said = refusal(&format!("{url}?{none}"));
            assert!(said.contains("unknown parameter"), "{url}: {said:?}");
            assert!(!said.contains(char::is_control), "{said:?}");
        }
    }
}

/// A part of a password that an unescaped letter cuts off looks like a name.
#[test]
fn an_unknown_parameter_shows_no_part_of_a_password() {
    for url in [
        "unix:///run/redis.sock?pass=a&secret",
        "unix:///run/redis.sock?user=app&pass=a&secret=b",
        "unix:///run/app:a?secret=b@one",
        "redis+sentinel://one/orders?sentinel_password=a&secret",
    ] {
        let said = refusal(url);
        assert!(said.contains("%26") && !said.contains("secret"), "{said}");
    }
}

#[test]
fn a_part_of_a_url_that_would_be_ignored_is_rejected() {
    for url in EVERY_KIND {
        for rest in ["#1", "?db=1#1"] {
            let refused = ServerSpec::parse(&format!("{url}{rest}"));
            assert!(refused.is_err(), "{url}{rest}");
        }
    }
    let said = refusal("unix://app:secret@localhost/run/redis.sock");
    assert!(said.contains("pass=") && !said.contains("secret"), "{said}");
    let said = refusal("memory:?db=1");
    assert!(said.contains("after `memory:`"), "{said}");
}

#[test]
fn the_parameters_are_for_the_database_and_the_sentinels() {
    let query = "db=2&sentinel_username=watch&sentinel_password=a%26b%2F+c";
    let set = sentinels(&format!("redis+sentinel://app:word@one/orders?{query}"));
    assert_eq!(words(&set.server), (Some("app"), Some("word")));
    assert_eq!(words(&set.sentinel), (Some("watch"), Some("a&b/ c")));
    let databases = [&set.server, &set.sentinel].map(|it| it.info.redis_settings().db());
    assert_eq!(databases, [2, 0]);
}

/// Other clients read it. A value that none of them knows is a mistake.
#[test]
fn a_protocol_may_be_named() {
    for url in EVERY_KIND {
        for query in ["?protocol=resp3", "?protocol=3", "?protocol=resp2"] {
            assert!(ServerSpec::parse(&format!("{url}{query}")).is_ok(), "{url}");
        }
    }
}
