//! The addresses of several servers that are accepted, and their meaning.

use redis::ConnectionAddr;

use super::*;

mod parameters;

fn parsed(url: &str) -> ServerSpec {
    ServerSpec::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

struct Sentinels {
    primary: String,
    sentinel: Address,
    server: Address,
    seeds: String,
}

/// The sentinels to which a URL leads.
fn sentinels(url: &str) -> Sentinels {
    let ServerSpec { server, topology } = parsed(url);
    let Topology::Sentinels {
        primary,
        sentinel,
        seeds,
    } = topology
    else {
        panic!("{url}: no sentinels");
    };
    let seeds = HostPort::list(&seeds);
    Sentinels {
        primary,
        sentinel,
        server,
        seeds,
    }
}

fn refusal(url: &str) -> String {
    let refused = ServerSpec::parse(url);
    refused.err().expect(url).to_string()
}

type Words<'a> = (Option<&'a str>, Option<&'a str>);

fn words(address: &Address) -> Words<'_> {
    let settings = address.info.redis_settings();
    (settings.username(), settings.password())
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
            let set = sentinels(&format!("{scheme}+sentinel://{hosts}/orders"));
            assert_eq!((&*set.primary, &*set.seeds), ("orders", expected));
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
        let set = sentinels(&format!("redis+sentinel://{login}one:1,two/orders"));
        assert_eq!(words(&set.server), expected, "{login}");
        assert_eq!(words(&set.sentinel), (None, None));
        assert_eq!(set.seeds, "one:1,two:26379");
    }
}

/// Another server is connected to in the same way.
#[test]
fn another_server_is_reached_with_the_same_settings() {
    let set = sentinels("redis+sentinel://app:word@[::1]:7/orders?db=5");
    assert_eq!(&*set.server.endpoint, "[::1]:7");
    let other = set.server.with_place(&HostPort::new("two", 8));
    assert_eq!(*other.info.addr(), ConnectionAddr::Tcp("two".to_owned(), 8));
    assert_eq!(other.info.redis_settings().db(), 5);
    assert_eq!(words(&other), (Some("app"), Some("word")));
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
    for primary in ["a/b", "a b", "a%20b", "orders/", "a:b", "a\r\nb", "ä"] {
        let said = refusal(&format!("redis+sentinel://one/{primary}"));
        assert!(
            said.contains("letters, digits, `.`, `-` and `_`"),
            "{primary}: {said}"
        );
    }
}

#[test]
fn a_scheme_or_a_login_that_is_none_is_refused_with_what_there_is() {
    for (url, expected) in [
        ("http+sentinel://one/orders", "redis+sentinel://"),
        ("redis+sentinels://one/orders", "redis+sentinel://"),
        ("sentinel://one/a", "redis+sentinel://"),
        ("redis+sentinel://app:se/cret@one/orders", "%2F"),
        ("redis+sentinel://app:se?cret@one/orders", "%2F"),
        ("redis+sentinel://app:se#cret@one/orders", "%2F"),
        ("redis+sentinel://a/b:secret@one/orders", "%2F"),
    ] {
        let said = refusal(url);
        assert!(
            said.contains(expected) && !said.contains("cret"),
            "{url}: {said}"
        );
    }
}

#[test]
fn a_list_that_is_no_list_of_hosts_is_refused() {
    const HOSTS: &str = ", one, ,one one,,two :1 one: one:x one:65536 one:-1 one:+1 one:1:2 ::1 [] []:1 [one] \
                         [::1 ::1] [::1]1 [::1]:x";
    for hosts in HOSTS.split(' ').chain(["", "o ne"]) {
        let said = refusal(&format!("redis+sentinel://{hosts}/orders"));
        assert!(said.contains("`host:port`"), "{hosts}: {said}");
    }
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
    for (url, server, sentinel) in [
        ("rediss+sentinel://one/orders", true, true),
        ("valkeys+sentinel://one/orders", true, true),
        ("redis+sentinel://one/orders?sentinel_tls=true", false, true),
        (
            "rediss+sentinel://one/orders?sentinel_tls=false",
            true,
            false,
        ),
    ] {
        let set = sentinels(url);
        assert_eq!(
            (set.server.is_tls(), set.sentinel.is_tls()),
            (server, sentinel),
            "{url}"
        );
    }
}

#[test]
fn a_cluster_is_a_list_of_hosts_and_has_one_database() {
    for (hosts, expected) in [("one", "one:6379"), ("one:1,[::1]:2/", "one:1,[::1]:2")] {
        let ServerSpec { server, topology } = parsed(&format!("redis+cluster://app:word@{hosts}"));
        let Topology::Cluster { seeds } = topology else {
            panic!("{hosts}: no cluster");
        };
        assert_eq!(words(&server), (Some("app"), Some("word")));
        assert_eq!(HostPort::list(&seeds), expected);
    }
    assert!(refusal("redis+cluster://one/1").contains("database 0"));
}
