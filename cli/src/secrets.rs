//! The secrets of the addresses that this program was given. No output repeats them.

use std::borrow::Cow;
use std::env;
use std::sync::LazyLock;

/// The secrets of this process: those of the address in its environment, and those of its arguments.
static OURS: LazyLock<Vec<Secret>> = LazyLock::new(|| {
    let words = env::args_os().skip(1).chain(env::var_os("REDIS_URL"));
    words.flat_map(|word| of(&word.to_string_lossy())).collect()
});

/// A part of an address.
#[derive(Debug, PartialEq, Eq)]
struct Secret {
    /// What is before it.
    after: String,
    text: String,
}

/// The text without the secrets of this process.
pub(crate) fn masked(text: &str) -> Cow<'_, str> {
    mask(text, &OURS)
}

fn mask<'t>(text: &'t str, secrets: &[Secret]) -> Cow<'t, str> {
    let mut text = Cow::Borrowed(text);
    for Secret {
        after,
        text: secret,
    } in secrets
    {
        if !text.contains(&**after) {
            continue;
        }
        let mut parts = text.split(&**after);
        let mut kept = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            kept += after;
            // The word may be cut, for example at a `=`.
            let same = part.char_indices().zip(secret.chars());
            let same = same.take_while(|((_, one), other)| one == other).last();
            let end = same.map_or(0, |((at, last), _)| at + last.len_utf8());
            if end > 0 {
                kept += "***";
            }
            kept += &part[end..];
        }
        text = Cow::Owned(kept);
    }
    text
}

/// The secrets in a word: the login before a host, and the password among the parameters. JSON may write them in another
/// form.
fn of(word: &str) -> Vec<Secret> {
    let login = word
        .split_once(LOGIN)
        .and_then(|(_, rest)| rest.rsplit_once('@'));
    let login = login.map(|(login, _)| (LOGIN.to_owned(), login));
    let parameters = word.split(['?', '&']).skip(1);
    let parameters = parameters.filter_map(|parameter| parameter.split_once('='));
    let passwords = parameters.filter(|(name, _)| name.contains("pass"));
    let passwords = passwords.map(|(name, password)| (format!("{name}="), password));
    let mut secrets = Vec::new();
    for (after, text) in login.into_iter().chain(passwords) {
        let json = serde_json::to_string(text).unwrap_or_default();
        let json = json.trim_matches('"');
        for text in [json, text].into_iter().filter(|text| !text.is_empty()) {
            let (after, text) = (after.clone(), text.to_owned());
            let secret = Secret { after, text };
            if !secrets.contains(&secret) {
                secrets.push(secret);
            }
        }
    }
    secrets
}

const LOGIN: &str = "://";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_repeat_a_secret() {
        for (word, text, expected) in [
            (
                "redis://:hunter2@host",
                "error: unexpected argument 'redis://:hunter2@host' found\n",
                "error: unexpected argument 'redis://***@host' found\n",
            ),
            // For clap, the name of an option ends at its `=`.
            (
                "--redis://me:hun=ter2@host",
                "'--redis://me:hun' (redis://, rediss://)",
                "'--redis://***' (redis://, rediss://)",
            ),
            ("redis://a@b@host", "redis://a@b@host", "redis://***@host"),
            (
                r#"redis://:a"b@host"#,
                r#"{"redis://:a\"b@host"}"#,
                r#"{"redis://***@host"}"#,
            ),
            (
                "unix:///s?user=me&pass=hunter2",
                "`unix:///s?user=me&pass=hunter2`",
                "`unix:///s?user=me&pass=***`",
            ),
            (
                "redis+sentinel://h/p?sentinel_password=hunter2",
                "'redis+sentinel://h/p?sentinel_password=hunter2'",
                "'redis+sentinel://h/p?sentinel_password=***'",
            ),
            // It is no secret of ours.
            ("redis://host", "https://me@host", "https://me@host"),
        ] {
            assert_eq!(mask(text, &of(word)), expected);
        }
    }
}
