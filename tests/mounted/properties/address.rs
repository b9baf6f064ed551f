//! The property of every text that is read as a URL: no password is shown.
//!
//! Mounted by `src/api/builder/url.rs`.

use std::error::Error;

use redis::{ConnectionAddr, ProtocolVersion};

use super::{ServerSpec, Topology};
use crate::base::error::LockError;
use crate::redis::source::{Address, HostPort};

const SECRET: &str = "hunter2zq9";

/// Reads a URL that contains a secret, wherever it may be. An error never shows it. Messages about a connection show it
/// only if it is the name of the server.
pub(crate) fn url(before: &str, after: &str) {
    // A secret that is also another part of the URL may be shown.
    if before.contains(SECRET) || after.contains(SECRET) {
        return;
    }
    let url = format!("{before}{SECRET}{after}");
    let ServerSpec { server, topology } = match ServerSpec::parse(&url) {
        Err(error) => {
            assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
            assert!(error.source().is_none(), "{error:?}");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(SECRET), "{url:?}: {shown}");
            return;
        }
        Ok(servers) => servers,
    };
    // The part before the hosts, or after them, may be a password.
    let is_name = !before.contains('?') && !after.contains('@');
    match topology {
        Topology::One => {
            let Address { info, endpoint, .. } = server;
            let settings = info.redis_settings();
            assert_eq!(settings.protocol(), ProtocolVersion::RESP2);
            let is_socket = matches!(info.addr(), ConnectionAddr::Unix(_));
            let is_password = settings.password().is_some_and(|it| it.contains(SECRET));
            let is_before_host = !is_socket && after.contains('@');
            let may_show = !is_password && !is_before_host;
            assert!(
                may_show || !endpoint.contains(SECRET),
                "{url:?}: {endpoint}"
            );
        }
        Topology::Sentinels { primary, seeds, .. } => {
            let shown = format!("{primary} {}", HostPort::list(&seeds));
            assert!(is_name || !shown.contains(SECRET), "{url:?}: {shown}");
        }
        Topology::Cluster { seeds } => {
            let seeds = HostPort::list(&seeds);
            assert!(is_name || !seeds.contains(SECRET), "{url:?}: {seeds:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(url: &str) -> String {
        let refused = ServerSpec::parse(url);
        refused.err().expect(url).to_string()
    }

    #[test]
    fn a_password_that_cuts_the_url_short_is_not_taken_for_a_port() {
        for letter in ["/", "?", "#"] {
            let said = refusal(&format!("redis://user:1234{letter}secret@host:6379"));
            assert!(said.contains("%23") && !said.contains("1234"), "{said}");
        }
        let escaped = ServerSpec::parse("redis://user:1234%23secret@host:6379");
        let escaped = escaped.expect("a URL").server;
        assert_eq!(&*escaped.endpoint, "host:6379");
        let settings = escaped.info.redis_settings();
        assert_eq!(settings.password(), Some("1234#secret"));
    }

    #[test]
    fn a_rejected_url_is_not_quoted_in_the_error() {
        for (url, reason) in [
            ("redis://host?protocol=secret", "protocol"),
            ("redis://host?db=secret", "`db`"),
            (
                "redis+sentinel://host/orders?pass=secret",
                "sentinel_password",
            ),
            ("redis+sentinel://host/orders?db=secret", "`db`"),
            ("redis+sentinel://host/orders?sentinel_tls=secret", "`true`"),
            ("redis+sentinel://host/orders:secret!", "name of a primary"),
            ("redis+sentinel://host:secret/orders", "`host:port`"),
            ("redis+sentinel://host?password=secret", "primary"),
            ("redis+cluster://host?db=secret", "`db`"),
            ("redis+cluster://host/secret", "database 0"),
            ("redis+cluster://host:secret", "`host:port`"),
        ] {
            let said = refusal(url);
            assert!(said.contains(reason) && !said.contains("secret"), "{said}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_may_have_any_path() {
        let spec = ServerSpec::parse("redis+unix:///run/redis@1.sock?pass=p@ss");
        assert_eq!(&*spec.expect("a URL").server.endpoint, "/run/redis@1.sock");
    }

    fn scheme() -> impl Strategy<Value = String> {
        "(redis|rediss|valkey|redis\\+unix|unix|http|redis\\+sentinel|valkey\\+sentinel|redis\\+cluster)(://|:///|:/)"
            .prop_map(String::from)
    }

    proptest! {
        /// A password may contain anything, escaped or not.
        #[test]
        fn a_password_is_never_shown(
            scheme in scheme(),
            user in "([a-z]{0,4}:)?",
            before in "[0-9a-z%/?#:@]{0,6}",
            after in "[0-9a-z%/?#:@]{0,6}",
            host in "[a-z0-9.]{0,9}",
            tail in "(:[0-9]{1,5})?(/[0-9]{1,2})?(\\?(db=[0-9]?|protocol=[a-z0-9]{1,5}|[a-z]{1,4}))?(#[a-z]{0,8})?",
        ) {
            url(&format!("{scheme}{user}{before}"), &format!("{after}@{host}{tail}"));
        }

        #[test]
        fn a_password_of_sentinels_is_never_shown(
            login in "([a-z]{0,4}:[0-9a-z%/?#:@]{0,6}@)?",
            hosts in "[a-z0-9.]{1,9}(:[0-9]{1,5})?(,[a-z0-9.\\[\\]:]{0,9}){0,2}",
            primary in "(/[a-z%]{0,5})?",
            parameter in "(db=1&|[a-z]{0,3}=?&){0,2}(sentinel_password|sentinel_username|sentinel_tls|db|pass)",
            before in "[0-9a-z%/?#:@&=]{0,6}",
            after in "[0-9a-z%/?#:@&=]{0,6}",
        ) {
            let url_before = format!("redis+sentinel://{login}{hosts}{primary}?{parameter}=");
            url(&format!("{url_before}{before}"), &after);
        }

        /// The rest of a password is not taken for the name of a parameter, even if it looks like one.
        #[test]
        fn the_rest_of_a_password_is_never_shown(
            scheme in scheme(),
            rest in "[a-z]{6}q",
            before in "[a-z&=?]{0,6}[&?]",
            after in "[a-z&=]{0,6}",
        ) {
            for url in [
                format!("{scheme}user:{before}{rest}{after}@host"),
                format!("{scheme}host/s?pass={before}{rest}{after}"),
                format!("{scheme}host/s?sentinel_password={before}{rest}{after}"),
            ] {
                if let Err(error) = ServerSpec::parse(&url) {
                    let shown = format!("{error} {error:?}");
                    prop_assert!(!shown.contains(&rest), "{:?}: {}", url, shown);
                }
            }
        }

        #[test]
        fn a_secret_anywhere_is_no_part_of_an_error(
            scheme in prop_oneof![scheme(), "\\PC{0,8}"],
            before in "([a-z0-9:@/?&=#.%,]|protocol=|pass=|sentinel_password=|\\PC){0,10}",
            after in "([a-z0-9:@/?&=#.%,]|protocol=|pass=|sentinel_password=|\\PC){0,10}",
        ) {
            url(&format!("{scheme}{before}"), &after);
        }
    }
}
