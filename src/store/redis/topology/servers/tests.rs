//! The addresses of several servers that are accepted, and their meaning.

use redis::ProtocolVersion;

use super::*;
use crate::store::redis::link::address::list;

mod parameters;

/// The properties that a URL sets.
fn parsed(url: &str) -> Servers {
    let servers = Servers::parse(url).expect("the URL of several servers");
    servers.unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// The sentinels to which a URL leads, and the name of their primary.
fn seeds(url: &str) -> String {
    let servers = parsed(url);
    assert!(matches!(servers.kind, Kind::Sentinel { .. }), "{url}");
    match servers.resolve() {
        Ok(Origin::Sentinels(sentinels)) => sentinels.endpoint().to_string(),
        Ok(_) => panic!("{url}: no sentinels"),
        Err(error) => panic!("{url}: {error}"),
    }
}

fn refusal(url: &str) -> String {
    let refused = Origin::parse(url);
    refused.err().expect(url).to_string()
}

type Words<'a> = (Option<&'a str>, Option<&'a str>);

fn words(login: &Login) -> Words<'_> {
    (login.username.as_deref(), login.password.as_deref())
}

#[test]
fn sentinels_are_a_list_of_hosts_with_or_without_ports() {
    for (hosts, expected) in [
        ("one", "one:26379"),
        ("one:1", "one:1"),
        ("one:1,two,10.0.0.3:3", "one:1,two:26379,10.0.0.3:3"),
        ("[::1]", "[::1]:26379"),
        ("[fd00::2]:2,one", "[fd00::2]:2,one:26379"),
        ("[fe80::1%eth0]:2", "[fe80::1%eth0]:2"),
        ("a-b.c_d.example:65535", "a-b.c_d.example:65535"),
    ] {
        for scheme in ["redis", "valkey", "REDIS"] {
            let endpoint = seeds(&format!("{scheme}+sentinel://{hosts}/orders"));
            assert_eq!(endpoint, format!("orders of the sentinels {expected}"));
        }
    }
}

#[test]
fn a_login_is_that_of_the_servers_alone() {
    for (login, expected) in [
        ("", (None, None)),
        ("@", (None, None)),
        ("app@", (Some("app"), None)),
        (":word@", (None, Some("word"))),
        ("app:word@", (Some("app"), Some("word"))),
        ("app:a,b@", (Some("app"), Some("a,b"))),
        ("app:a@b@", (Some("app"), Some("a@b"))),
        ("a%40b:%2F%3F%23%25@", (Some("a@b"), Some("/?#%"))),
    ] {
        let servers = parsed(&format!("redis+sentinel://{login}one:1,two/orders"));
        assert_eq!(words(&servers.login), expected, "{login}");
        assert_eq!(words(&servers.sentinel_login), (None, None));
        assert_eq!(servers.addresses, ["one:1", "two"]);
    }
}

#[test]
fn a_url_and_a_builder_say_the_same() {
    let built = Servers::sentinel(["one", "two:2"], "orders")
        .username("app")
        .password("wo/rd")
        .sentinel_username("watch")
        .sentinel_password("man")
        .sentinel_tls(false)
        .tls()
        .resp2()
        .database(3);
    let url = "rediss+sentinel://app:wo%2Frd@one,two:2/orders?db=3&sentinel_username=watch\
               &sentinel_password=man&sentinel_tls=false&protocol=resp2";
    let read = parsed(url);
    assert_eq!(read.addresses, built.addresses);
    assert_eq!(words(&read.login), words(&built.login));
    assert_eq!(words(&read.sentinel_login), words(&built.sentinel_login));
    let rest = |it: &Servers| (it.is_tls, it.is_sentinel_tls, it.protocol, it.database);
    assert_eq!(rest(&read), rest(&built));
    assert_eq!(format!("{read:?}"), format!("{built:?}"));
}

#[test]
fn what_connections_are_made_with_follows() {
    let seeds = [Place::new("::1", 7)];
    let login = Login {
        username: Some("app".to_owned()),
        password: Some("word".to_owned()),
    };
    let servers = Servers::cluster(["one"]);
    let made = servers.address(&seeds[0], false, &login, 5);
    let made = made.expect("an address");
    let settings = made.info.redis_settings();
    assert_eq!(settings.protocol(), ProtocolVersion::RESP3);
    assert_eq!(settings.db(), 5);
    assert_eq!(settings.username(), Some("app"));
    assert_eq!(settings.password(), Some("word"));
    let other = made.at(&Place::new("two", 8));
    assert_eq!(*other.info.addr(), ConnectionAddr::Tcp("two".to_owned(), 8));
    assert_eq!(other.info.redis_settings().db(), 5);
    assert_eq!(&*other.endpoint, "two:8");
}

#[test]
fn a_url_without_a_primary_is_refused() {
    for url in [
        "redis+sentinel://one",
        "redis+sentinel://one/",
        "redis+sentinel://one,two:1?db=1",
        "redis+sentinel://",
    ] {
        let said = refusal(url);
        assert!(
            said.contains("redis+sentinel://host:port,host:port/primary"),
            "{url}: {said}"
        );
    }
    for primary in ["a/b", "a%20b", "orders/", "a:b", "ä"] {
        let said = refusal(&format!("redis+sentinel://one/{primary}"));
        assert!(
            said.contains("letters, digits, `.`, `-` and `_`"),
            "{primary}: {said}"
        );
    }
}

#[test]
fn a_list_that_is_no_list_of_hosts_is_refused() {
    for hosts in [
        "",
        ",",
        "one,",
        ",one",
        "one,,two",
        ":1",
        "one:",
        "one:x",
        "one:65536",
        "one:-1",
        "one:+1",
        "one:1:2",
        "::1",
        "[]",
        "[]:1",
        "[one]",
        "[::1",
        "::1]",
        "[::1]1",
        "[::1]:x",
        "o ne",
    ] {
        let said = refusal(&format!("redis+sentinel://{hosts}/orders"));
        assert!(said.contains("`host:port`"), "{hosts}: {said}");
        let servers = Servers::sentinel(hosts.split(','), "orders");
        assert!(servers.resolve().is_err(), "{hosts}");
    }
    let none = Servers::sentinel(Vec::<String>::new(), "orders");
    assert!(none.resolve().is_err());
}

#[test]
fn a_builder_refuses_a_primary_that_no_sentinel_can_have() {
    for primary in ["", "a b", "a/b", "a\r\nb"] {
        let refused = Servers::sentinel(["one"], primary).resolve();
        assert!(refused.is_err(), "{primary:?}");
    }
}

#[test]
fn a_login_that_a_letter_cuts_short_is_refused_with_how_it_is_written() {
    for login in ["app:se/cret", "app:se?cret", "app:se#cret", "a/b:secret"] {
        let said = refusal(&format!("redis+sentinel://{login}@one/orders"));
        assert!(said.contains("%2F") && !said.contains("cret"), "{said}");
    }
}

#[test]
fn a_scheme_that_is_none_is_refused_with_those_that_there_are() {
    for url in [
        "http+sentinel://one/orders",
        "redis+sentinels://one/orders",
        "sentinel://one/a",
    ] {
        let said = refusal(url);
        assert!(said.contains("redis+sentinel://"), "{url}: {said}");
    }
}

#[test]
fn a_password_in_the_wrong_place_is_not_shown() {
    let servers = Servers::sentinel(["redis://app:secret@one", "two"], "orders")
        .password("secret")
        .sentinel_password("secret");
    let shown = format!("{servers:?} {servers:#?}");
    assert!(
        shown.contains("two:26379") && !shown.contains("secret"),
        "{shown}"
    );
    let error = servers.resolve().map(drop).expect_err("no address");
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("secret"), "{shown}");
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_without_its_feature_is_refused() {
    for url in [
        "rediss+sentinel://one/orders",
        "valkeys+sentinel://one/orders",
        "redis+sentinel://one/orders?sentinel_tls=true",
    ] {
        let said = refusal(url);
        assert!(said.contains("feature `tls`"), "{url}: {said}");
    }
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_spoken_to_the_servers_and_to_the_sentinels() {
    for url in [
        "rediss+sentinel://one/orders",
        "valkeys+sentinel://one/orders",
        "redis+sentinel://one/orders?sentinel_tls=true",
        "rediss+sentinel://one/orders?sentinel_tls=false",
    ] {
        assert!(Origin::parse(url).is_ok(), "{url}");
    }
}

#[test]
fn a_cluster_is_a_list_of_hosts_and_has_one_database() {
    for (hosts, expected) in [("one", "one:6379"), ("one:1,[::1]:2/", "one:1,[::1]:2")] {
        let servers = parsed(&format!("redis+cluster://app:word@{hosts}"));
        assert_eq!(words(&servers.login), (Some("app"), Some("word")));
        let Ok(Origin::Cluster { seeds, .. }) = servers.resolve() else {
            panic!("{hosts}: no cluster");
        };
        assert_eq!(list(&seeds), expected);
    }
    assert!(Servers::cluster(["one"]).database(1).resolve().is_err());
    assert!(refusal("redis+cluster://one/1").contains("database 0"));
}
